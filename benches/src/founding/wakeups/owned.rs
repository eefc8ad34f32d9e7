//! The pieces on the node's executors.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::channel::oneshot;
use silverback_runtime::{Delivery, Executor, Options, RunError, Shutdown, spawn};

use super::{Meter, Side, Task, Work, YIELDING_TASKS};

/// Does the work.
pub(super) fn run(work: &Work, meter: &Arc<Meter>) -> Result<(), Box<dyn std::error::Error>> {
    let spin_before_park = match work.side {
        Side::SpinningExecutors => Duration::from_micros(20),
        Side::Tokio | Side::TokioPerCore | Side::Executors => Duration::ZERO,
    };
    let options = Options { spin_before_park, io_memory_bytes: 64 << 10, ..Options::on_cpus(work.cpus()?) };
    Ok(on_executors(&options, work.clone(), Arc::clone(meter))?)
}

fn on_executors(options: &Options, work: Work, meter: Arc<Meter>) -> Result<(), RunError> {
    silverback_runtime::run(options, &Shutdown::new(), move |executor: Executor<u64>| {
        let (work, meter) = (work.clone(), Arc::clone(&meter));
        async move {
            match work.task {
                Task::PingPong => play(executor, &work, &meter).await,
                Task::YieldMany | Task::SpawnMany | Task::ChainedSpawns => on_each_core(&work, &meter).await,
            }
        }
    })?;
    Ok(())
}

/// The first executor asks, the second one answers.
async fn play(executor: Executor<u64>, work: &Work, meter: &Meter) {
    let Executor { index, senders, receivers, .. } = executor;
    let (count, (tell, played)) = (work.count * work.repeats, oneshot::channel());
    let (senders, mut tell) = (Rc::new(senders), Some(tell));
    let send = {
        let senders = Rc::clone(&senders);
        move |ball| senders.offer(1 - index, ball).expect("a lane has room for one ball")
    };
    let mut expected = 0;
    receivers.deliver_to(move |delivery| {
        let Delivery::Messages { messages, .. } = delivery else { return };
        for ball in messages {
            assert_eq!(ball, expected);
            expected += 1;
            // The second executor sends every ball back, the first one all but the last.
            let next = if index == 0 { ball + 1 } else { ball };
            if next < count {
                send(next);
            }
            if expected == count {
                let tell = tell.take().expect("there is one last ball");
                tell.send(()).expect("the player waits");
            }
        }
    });
    if index == 0 {
        meter.begin();
        senders.offer(1, 0).expect("an empty lane takes a ball");
    }
    played.await.expect("the lanes live");
    if index == 0 {
        meter.end();
    }
}

async fn on_each_core(work: &Work, meter: &Meter) {
    meter.begin();
    for _ in 0..work.repeats {
        match work.task {
            Task::PingPong => unreachable!("it isn't done on each core"),
            Task::YieldMany => {
                let count = work.count;
                all(YIELDING_TASKS, move || async move {
                    for _ in 0..count {
                        requeued().await;
                    }
                })
                .await;
            }
            Task::SpawnMany => all(work.count as usize, || async {}).await,
            Task::ChainedSpawns => chain(work.count).await,
        }
    }
    meter.end();
}

/// Spawns so many tasks and waits for them.
async fn all<F: Future<Output = ()> + 'static>(count: usize, task: impl Fn() -> F) {
    let (tell, ended) = oneshot::channel();
    let (left, tell) = (Rc::new(Cell::new(count)), Rc::new(Cell::new(Some(tell))));
    for _ in 0..count {
        let (task, left, tell) = (task(), Rc::clone(&left), Rc::clone(&tell));
        spawn(async move {
            task.await;
            left.set(left.get() - 1);
            if left.get() == 0 {
                let tell = tell.take().expect("there is one last task");
                tell.send(()).expect("who spawned them waits");
            }
        });
    }
    ended.await.expect("a task that does next to nothing doesn't panic");
}

/// Goes to the end of the queue once.
async fn requeued() {
    let mut is_queued = false;
    poll_fn(|cx| {
        if is_queued {
            return Poll::Ready(());
        }
        is_queued = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn chain(count: u64) {
    let (tell, last) = oneshot::channel();
    spawn(link(count, tell));
    last.await.expect("the chain has an end");
}

fn link(left: u64, tell: oneshot::Sender<()>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        match left {
            0 => tell.send(()).expect("who began the chain waits"),
            _ => spawn(link(left - 1, tell)),
        }
    })
}
