//! The pieces on tokio's multi-thread runtime.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use super::{Meter, Task, Work, YIELDING_TASKS};

fn runtime(workers: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(workers).build()
}

/// Does the work on one runtime. A task for each core begins what is done on each.
pub(super) fn run(work: &Work, meter: &Arc<Meter>) -> io::Result<()> {
    let runtime = runtime(work.cpus()?.len())?;
    if work.task == Task::PingPong {
        let (to, from, answering) = table(work);
        let answering = runtime.spawn(answering);
        let asking = runtime.spawn(ask(work.clone(), Arc::clone(meter), to, from));
        return runtime.block_on(async {
            asking.await?;
            Ok(answering.await?)
        });
    }
    let cores: Vec<_> =
        (0..work.cores).map(|_| runtime.spawn(on_each_core(work.clone(), Arc::clone(meter)))).collect();
    runtime.block_on(async {
        for core in cores {
            core.await?;
        }
        Ok(())
    })
}

/// Plays ping-pong between two runtimes of one worker each.
pub(super) fn between_runtimes(work: &Work, meter: &Arc<Meter>) -> io::Result<()> {
    let (first, second) = (runtime(1)?, runtime(1)?);
    let (to, from, answering) = table(work);
    let answering = second.spawn(answering);
    let asking = first.spawn(ask(work.clone(), Arc::clone(meter), to, from));
    first.block_on(asking)?;
    Ok(second.block_on(answering)?)
}

type Ball = u64;

/// The ways there and back, and who sends back what comes.
fn table(work: &Work) -> (mpsc::Sender<Ball>, mpsc::Receiver<Ball>, impl Future<Output = ()> + use<>) {
    let ((to, mut asked), (answer, from)) = (mpsc::channel(1), mpsc::channel(1));
    let count = work.count * work.repeats;
    let answering = async move {
        for _ in 0..count {
            let ball = asked.recv().await.expect("who asks lives");
            answer.send(ball).await.expect("who asks waits");
        }
    };
    (to, from, answering)
}

async fn ask(work: Work, meter: Arc<Meter>, to: mpsc::Sender<Ball>, mut from: mpsc::Receiver<Ball>) {
    meter.begin();
    for ball in 0..work.count * work.repeats {
        to.send(ball).await.expect("who answers lives");
        assert_eq!(from.recv().await, Some(ball));
    }
    meter.end();
}

async fn on_each_core(work: Work, meter: Arc<Meter>) {
    meter.begin();
    for _ in 0..work.repeats {
        match work.task {
            Task::PingPong => unreachable!("it isn't done on each core"),
            Task::YieldMany => yield_many(work.count).await,
            Task::SpawnMany => spawn_many(work.count).await,
            Task::ChainedSpawns => chain(work.count).await,
        }
    }
    meter.end();
}

async fn yield_many(count: u64) {
    let tasks: Vec<_> = (0..YIELDING_TASKS)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..count {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task that only yields doesn't panic");
    }
}

/// The last of them tells that all have ended: to await each would cost more than the tasks do.
async fn spawn_many(count: u64) {
    let (tell, ended) = oneshot::channel();
    let (left, tell) = (Arc::new(AtomicU64::new(count)), Arc::new(Mutex::new(Some(tell))));
    for _ in 0..count {
        let (left, tell) = (Arc::clone(&left), Arc::clone(&tell));
        tokio::spawn(async move {
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let tell = tell.lock().expect("nobody panics with it").take();
                tell.expect("there is one last task").send(()).expect("who spawned them waits");
            }
        });
    }
    ended.await.expect("a task that does next to nothing doesn't panic");
}

async fn chain(count: u64) {
    let (tell, last) = oneshot::channel();
    link(count, tell).await;
    last.await.expect("the chain has an end");
}

fn link(left: u64, tell: oneshot::Sender<()>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        match left {
            0 => tell.send(()).expect("who began the chain waits"),
            _ => drop(tokio::spawn(link(left - 1, tell))),
        }
    })
}
