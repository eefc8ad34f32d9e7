//! Messages between two executors: one way as fast as they go, and there and back with some of
//! them in flight at a time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::channel::oneshot;
use silverback_runtime as runtime;
use silverback_runtime::cpus::affinity_mask;
use silverback_runtime::{Delivery, Executor, LaneReceivers, LaneSenders, Options, Shutdown, reactor_polled};

/// As large as what the node sends.
type Message = [u64; 8];
const MESSAGE: Message = [0; 8];

/// Two executors, on two CPUs where there are two.
fn options(lane_capacity: usize) -> Options {
    let allowed = affinity_mask().expect("the process can ask for its own CPUs");
    let cpus = allowed.iter().copied().cycle().take(2).collect();
    Options { lane_capacity, io_memory_bytes: 64 << 10, ..Options::on_cpus(cpus) }
}

/// Calls `each` for every message until it tells that it was the last; done then.
async fn until_last(receivers: LaneReceivers<Message>, mut each: impl FnMut(Message) -> Next + 'static) {
    let (last, is_last) = oneshot::channel();
    let mut last = Some(last);
    receivers.deliver_to(move |delivery| {
        if let Delivery::Messages { messages, .. } = delivery {
            for message in messages {
                if each(message) == Next::None
                    && let Some(last) = last.take()
                {
                    last.send(()).expect("the last message is awaited");
                }
            }
        }
    });
    is_last.await.expect("the executor lives until the last message");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Comes,
    None,
}

/// Counts down to the last of `count`.
fn countdown(count: u64) -> impl Fn() -> Next {
    let left = Cell::new(count);
    move || {
        left.set(left.get() - 1);
        if left.get() == 0 { Next::None } else { Next::Comes }
    }
}

/// Runs both executors: the first sends, and tells when it began; both tell when they were done.
fn between<F>(lane_capacity: usize, run: impl Fn(Executor<Message>) -> F + Send + Sync + 'static) -> Duration
where
    F: Future<Output = Span> + 'static,
{
    let spans = runtime::run(&options(lane_capacity), &Shutdown::new(), run).expect("two executors run");
    spans[1].ended.max(spans[0].ended) - spans[0].began
}

#[derive(Debug, Clone, Copy)]
struct Span {
    began: Instant,
    ended: Instant,
}

async fn timed(work: impl Future<Output = ()>) -> Span {
    let began = Instant::now();
    work.await;
    Span { began, ended: Instant::now() }
}

async fn send_all(senders: &LaneSenders<Message>, count: u64) {
    for _ in 0..count {
        while senders.offer(1, MESSAGE).is_err() {
            reactor_polled().await;
        }
    }
}

fn one_way(c: &mut Criterion) {
    let mut group = c.benchmark_group("lane_one_way");
    group.throughput(Throughput::Elements(1)).sample_size(10);
    for capacity in [128, 1024, 2048] {
        group.bench_function(format!("capacity={capacity}/bytes={}", size_of::<Message>()), |b| {
            b.iter_custom(|messages| {
                between(capacity, move |executor| {
                    let Executor { index, senders, receivers, .. } = executor;
                    timed(async move {
                        match index {
                            0 => send_all(&senders, messages).await,
                            _ => {
                                let next = countdown(messages);
                                until_last(receivers, move |_| next()).await;
                            }
                        }
                    })
                })
            });
        });
    }
    group.finish();
}

/// Keeps `under_way` messages going until `count` have come back.
async fn ask(senders: LaneSenders<Message>, receivers: LaneReceivers<Message>, count: u64, under_way: u64) {
    let (unsent, next) = (Cell::new(count), countdown(count));
    let send = move || {
        if unsent.get() > 0 {
            unsent.set(unsent.get() - 1);
            senders.offer(1, MESSAGE).expect("a lane has room for what may be in flight");
        }
    };
    (0..under_way).for_each(|_| send());
    until_last(receivers, move |_| {
        send();
        next()
    })
    .await;
}

async fn answer(senders: LaneSenders<Message>, receivers: LaneReceivers<Message>, count: u64) {
    let next = countdown(count);
    until_last(receivers, move |message| {
        senders.offer(0, message).expect("a lane has room for what may be in flight");
        next()
    })
    .await;
}

fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("lane_round_trip");
    group.throughput(Throughput::Elements(1)).sample_size(10);
    for under_way in [1, 16, 256] {
        group.bench_function(format!("under_way={under_way}"), |b| {
            b.iter_custom(|messages| {
                between(1024, move |executor| {
                    let Executor { index, senders, receivers, .. } = executor;
                    timed(async move {
                        match index {
                            0 => ask(senders, receivers, messages, under_way).await,
                            _ => answer(senders, receivers, messages).await,
                        }
                    })
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, one_way, round_trip);
criterion_main!(benches);
