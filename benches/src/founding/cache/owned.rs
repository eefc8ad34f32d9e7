//! The cache on the node's executors: each owns a part, takes operations in, does its own at once and
//! sends the others to their owners, in one part for each owner and turn, as the node does with requests.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::join_all;
use silverback_runtime::{Delivery, Executor, LaneSenders, Options, Shutdown, spawn};

use super::super::cpus;
use super::items::{Items, Operation, owner};
use super::{Meter, Work};

/// Operations for one owner, each with its asker's place.
type Part = Vec<(usize, Operation)>;

/// What crosses cores.
#[derive(Debug)]
enum Message {
    Asked(Part),
    Answered(Part),
    /// The sender asks nothing more.
    Done,
}

/// Does the work.
pub(super) fn run(work: &Work, meter: &Arc<Meter>) -> Result<(), Box<dyn Error>> {
    let options = Options { io_memory_bytes: 64 << 10, ..Options::on_cpus(cpus(work.cores)?) };
    let (work, meter) = (work.clone(), Arc::clone(meter));
    silverback_runtime::run(&options, &Shutdown::new(), move |executor| {
        take(executor, work.clone(), Arc::clone(&meter))
    })?;
    Ok(())
}

async fn take(executor: Executor<Message>, work: Work, meter: Arc<Meter>) {
    let Executor { index, senders, receivers, .. } = executor;
    let askers = work.askers_of(index, work.cores);
    let (core, all_done) = Core::new(index, work.cores, senders, askers.len());
    receivers.deliver_to({
        let core = Rc::clone(&core);
        move |delivery| core.deliver(delivery)
    });
    let ask = |(place, asker)| Rc::clone(&core).ask(place, work.operations(asker), Arc::clone(&meter));
    join_all(askers.enumerate().map(|asker| spawned(ask(asker)))).await;
    core.done();
    // The others' operations are answered until they have no more.
    all_done.await.expect("the core lives");
}

/// Runs a task of its own to its end.
fn spawned(task: impl Future<Output = ()> + 'static) -> impl Future<Output = ()> {
    let (tell, ended) = oneshot::channel();
    spawn(async move {
        task.await;
        // Nobody waits who has been dropped with the executor.
        let _ = tell.send(());
    });
    async { ended.await.expect("no operation panics") }
}

/// One core's part, and the operations that it has sent out.
struct Core {
    index: usize,
    cores: usize,
    senders: LaneSenders<Message>,
    items: RefCell<Items>,
    /// By owner; sent at the end of the turn in which the first operation came into one of them.
    outboxes: RefCell<Vec<Part>>,
    has_outgoing: Cell<bool>,
    /// By asker.
    waiting: RefCell<Vec<Option<oneshot::Sender<Operation>>>>,
    /// Empty parts, to be filled again.
    spare: RefCell<Vec<Part>>,
    /// Cores that still ask, this one too.
    asking: Cell<usize>,
    all_done: Cell<Option<oneshot::Sender<()>>>,
}

impl Core {
    fn new(
        index: usize,
        cores: usize,
        senders: LaneSenders<Message>,
        askers: usize,
    ) -> (Rc<Self>, oneshot::Receiver<()>) {
        let (tell, all_done) = oneshot::channel();
        let core = Self {
            index,
            cores,
            items: RefCell::new(Items::part(index, cores)),
            outboxes: RefCell::new((0..cores).map(|_| Part::new()).collect()),
            has_outgoing: Cell::default(),
            waiting: RefCell::new((0..askers).map(|_| None).collect()),
            spare: RefCell::default(),
            asking: Cell::new(cores),
            all_done: Cell::new(Some(tell)),
            senders,
        };
        (Rc::new(core), all_done)
    }

    async fn ask(
        self: Rc<Self>,
        place: usize,
        operations: impl Iterator<Item = Operation>,
        meter: Arc<Meter>,
    ) {
        meter.begin();
        for operation in operations {
            spawned(Rc::clone(&self).operate(place, operation)).await;
        }
        meter.end();
    }

    async fn operate(self: Rc<Self>, place: usize, mut operation: Operation) {
        let owner = owner(operation.id, self.cores);
        if owner == self.index {
            operation.apply(&mut self.items.borrow_mut());
            return operation.end();
        }
        let (answer, answered) = oneshot::channel();
        self.waiting.borrow_mut()[place] = Some(answer);
        self.outboxes.borrow_mut()[owner].push((place, operation));
        if !self.has_outgoing.replace(true) {
            // After all tasks that can run now: what they send goes with it.
            spawn(Rc::clone(&self).flush());
        }
        answered.await.expect("an owner answers").end();
    }

    async fn flush(self: Rc<Self>) {
        self.has_outgoing.set(false);
        for (owner, outbox) in self.outboxes.borrow_mut().iter_mut().enumerate() {
            if !outbox.is_empty() {
                let empty = self.spare.borrow_mut().pop().unwrap_or_default();
                self.send(owner, Message::Asked(std::mem::replace(outbox, empty)));
            }
        }
    }

    fn send(&self, to: usize, message: Message) {
        self.senders.offer(to, message).expect("a lane has room for a message of each asker");
    }

    fn deliver(&self, delivery: Delivery<'_, Message>) {
        let Delivery::Messages { from, messages } = delivery else { return };
        for message in messages {
            match message {
                Message::Asked(mut part) => {
                    let mut items = self.items.borrow_mut();
                    part.iter_mut().for_each(|(_, operation)| operation.apply(&mut items));
                    drop(items);
                    self.send(from, Message::Answered(part));
                }
                Message::Answered(part) => self.answered(part),
                Message::Done => self.one_is_done(),
            }
        }
    }

    fn answered(&self, mut part: Part) {
        for (place, operation) in part.drain(..) {
            let waiting = self.waiting.borrow_mut()[place].take().expect("an operation is answered once");
            waiting.send(operation).expect("its task waits");
        }
        self.spare.borrow_mut().push(part);
    }

    fn done(&self) {
        for other in (0..self.cores).filter(|other| *other != self.index) {
            self.send(other, Message::Done);
        }
        self.one_is_done();
    }

    fn one_is_done(&self) {
        self.asking.set(self.asking.get() - 1);
        if self.asking.get() == 0 {
            let all_done = self.all_done.take().expect("a core is done once");
            // The taker may have been dropped with its executor.
            let _ = all_done.send(());
        }
    }
}
