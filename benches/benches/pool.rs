//! What a part's buffers cost: from the pool that the node uses, and from the allocator; released
//! where they were filled, and on another thread as between two cores.

use std::hint::black_box;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use silverback_benches::bench::sizes;
use silverback_model::{Sample, SeriesId};
use silverback_storage::message::part::PartBuffer;
use silverback_storage::message::{LabelSource, LabelSpan, PartPool, PartSeries};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Parts on their way to the other thread: fewer than the pool has.
const ON_THE_WAY_MAX: usize = 256;

fn fill(part: &mut PartBuffer, samples: usize) {
    for i in 0..samples {
        let labels = LabelSpan::new(LabelSource::Wire, i, 1);
        part.series.push(PartSeries::new(SeriesId(i as u128), labels, 1));
        part.samples.push(Sample::new(i as i64, 1.0));
    }
}

fn pooled(pool: &PartPool, samples: usize) -> impl Send + use<> {
    let mut part = pool.take().expect("fewer parts are in flight than the pool has");
    fill(&mut part, samples);
    part
}

/// The sizes are known ahead here: the allocator is asked twice and nothing is ever moved.
fn allocated(samples: usize) -> impl Send + use<> {
    let (series, own) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    let mut part = PartBuffer::default();
    (part.series, part.samples) = (series, own);
    fill(&mut part, samples);
    part
}

fn same_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("part_same_thread");
    for samples in sizes([1, 100, 1000]) {
        let pool = PartPool::default();
        group.throughput(Throughput::Elements(samples as u64));
        group.bench_function(format!("pool/samples={samples}"), |b| {
            b.iter(|| drop(black_box(pooled(&pool, samples))));
        });
        group.bench_function(format!("malloc/samples={samples}"), |b| {
            b.iter(|| drop(black_box(allocated(samples))));
        });
    }
    group.finish();
}

/// Fills on this thread and drops on another one, until all are dropped.
fn across<P: Send>(iterations: u64, mut make: impl FnMut() -> P) -> Duration {
    let (sender, receiver): (SyncSender<P>, _) = sync_channel(ON_THE_WAY_MAX);
    std::thread::scope(move |scope| {
        let dropper = scope.spawn(move || receiver.iter().for_each(drop));
        let began = Instant::now();
        for _ in 0..iterations {
            sender.send(make()).expect("the other thread takes all");
        }
        // The other thread ends when it has dropped the last one.
        drop(sender);
        dropper.join().expect("to drop a part can't fail");
        began.elapsed()
    })
}

fn across_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("part_across_threads");
    for samples in sizes([1, 100, 1000]) {
        let pool = PartPool::default();
        group.throughput(Throughput::Elements(samples as u64));
        group.bench_function(format!("pool/samples={samples}"), |b| {
            b.iter_custom(|iterations| across(iterations, || pooled(&pool, samples)));
        });
        group.bench_function(format!("malloc/samples={samples}"), |b| {
            b.iter_custom(|iterations| across(iterations, || allocated(samples)));
        });
    }
    group.finish();
}

criterion_group!(benches, same_thread, across_threads);
criterion_main!(benches);
