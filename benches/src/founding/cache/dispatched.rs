//! The cache on threads that own a part each, and one thread more that takes all operations in and deals
//! them out.

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread::{self, JoinHandle};

use silverback_load::replay::pin::pin_to;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use super::super::cpus;
use super::items::{Items, Operation, owner};
use super::{Meter, Work};

/// What the owners are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A thread with a `LocalSet`, wherever the kernel puts it.
    LocalSet,
    /// A thread on a CPU of its own, that does one operation after the other.
    Pinned,
}

/// An operation, and where it is to go back to.
type Asked = (Operation, oneshot::Sender<Operation>);

/// The way to an owner.
#[derive(Debug)]
enum Sender {
    LocalSet(mpsc::UnboundedSender<Asked>),
    Pinned(blocking::Sender<Asked>),
}

impl Sender {
    /// Each asker has one operation on its way, so that no queue has to be bounded.
    fn send(&self, asked: Asked) {
        let is_sent = match self {
            Self::LocalSet(sender) => sender.send(asked).is_ok(),
            Self::Pinned(sender) => sender.send(asked).is_ok(),
        };
        assert!(is_sent, "an owner lives until the last operation");
    }
}

/// Does the work.
pub(super) fn run(work: &Work, meter: &Arc<Meter>, owner: Owner) -> Result<(), Box<dyn Error>> {
    let (mut senders, mut threads) = (Vec::new(), Vec::new());
    for (part, cpu) in cpus(work.cores)?.into_iter().enumerate() {
        let parts = work.cores;
        let (sender, thread) = match owner {
            Owner::LocalSet => local_set(part, parts)?,
            Owner::Pinned => pinned(part, parts, cpu)?,
        };
        senders.push(sender);
        threads.push(thread);
    }
    LocalSet::new().block_on(&current_thread()?, dispatch(work, meter, senders));
    for thread in threads {
        thread.join().map_err(|_panic| "an owner panicked")??;
    }
    Ok(())
}

fn current_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().build()
}

type Owned = (Sender, JoinHandle<io::Result<()>>);

fn local_set(part: usize, parts: usize) -> io::Result<Owned> {
    let (sender, asked) = mpsc::unbounded_channel();
    let thread = thread::Builder::new().spawn(move || {
        LocalSet::new().block_on(&current_thread()?, serve(Items::part(part, parts), asked));
        Ok(())
    })?;
    Ok((Sender::LocalSet(sender), thread))
}

async fn serve(items: Items, mut asked: mpsc::UnboundedReceiver<Asked>) {
    let items = Rc::new(RefCell::new(items));
    while let Some((mut operation, answer)) = asked.recv().await {
        let items = Rc::clone(&items);
        spawn_local(async move {
            operation.apply(&mut items.borrow_mut());
            answer.send(operation).expect("who asked waits");
        });
    }
}

fn pinned(part: usize, parts: usize, cpu: usize) -> io::Result<Owned> {
    let (sender, asked) = blocking::channel::<Asked>();
    let thread = thread::Builder::new().spawn(move || {
        pin_to(cpu)?;
        let mut items = Items::part(part, parts);
        for (mut operation, answer) in asked {
            operation.apply(&mut items);
            answer.send(operation).expect("who asked waits");
        }
        Ok(())
    })?;
    Ok((Sender::Pinned(sender), thread))
}

/// All askers are on this thread: what they ask for is dealt out by it.
async fn dispatch(work: &Work, meter: &Arc<Meter>, senders: Vec<Sender>) {
    let senders = Rc::new(senders);
    let ask = |asker| ask(work.operations(asker), Arc::clone(meter), Rc::clone(&senders));
    let askers: Vec<_> = (0..work.askers).map(|asker| spawn_local(ask(asker))).collect();
    for asker in askers {
        asker.await.expect("no operation panics");
    }
}

async fn ask(operations: impl Iterator<Item = Operation>, meter: Arc<Meter>, senders: Rc<Vec<Sender>>) {
    meter.begin();
    for operation in operations {
        let senders = Rc::clone(&senders);
        let done = spawn_local(async move {
            let (answer, answered) = oneshot::channel();
            senders[owner(operation.id, senders.len())].send((operation, answer));
            answered.await.expect("an owner answers").end();
        });
        done.await.expect("no operation panics");
    }
    meter.end();
}
