//! What a shard says that it holds, beside what the kernel says that the process has: the one must
//! be near the other, whatever the shard is filled with, for a node's memory limit rests on it.
//!
//! One test, in a process of its own: it measures the process.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use silverback_host::Alone;
use silverback_host::metrics;
use silverback_model::{Labels, Sample, SeriesIdHasher, ShardId};
use silverback_storage::message::{LabelSource, LabelSpan, PartExemplar, PartSeries, WriteBody};
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::shard::{Shard, maintenance};
use silverback_storage::wal::{MemoryLog, NoJournal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BOUNDS: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
const SCRAPE_MS: i64 = 15_000;
/// Series of one request: few, so that requests weigh nothing beside what they leave.
const PART_SERIES: usize = 40;

/// A shard under test.
struct Filled {
    shard: Rc<RefCell<Shard>>,
    hasher: SeriesIdHasher,
}

impl Filled {
    fn new() -> Self {
        let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
        Self { shard, hasher: SeriesIdHasher::new(7, "") }
    }

    /// One sample of each series, in requests of the usual size.
    fn scrape(&self, series: std::ops::Range<usize>, at_ms: i64, labels: impl Fn(usize) -> Labels) {
        for from in series.clone().step_by(PART_SERIES) {
            let (mut blocks, mut entries, mut samples) = (Vec::new(), Vec::new(), Vec::new());
            for i in from..series.end.min(from + PART_SERIES) {
                let block = labels(i).to_canonical();
                let span = LabelSpan::new(LabelSource::Wire, blocks.len(), block.len());
                entries.push(PartSeries::new(self.hasher.hash_canonical(&block), span, 1));
                blocks.extend_from_slice(&block);
                samples.push(Sample::new(at_ms, (at_ms / 1000 * (i as i64 + 1) % 9973) as f64 / 7.0));
            }
            let body = WriteBody { bytes: blocks.into(), ..WriteBody::default() };
            let outcome = self.shard.borrow_mut().append(&body, &entries, &samples, BOUNDS, &mut NoJournal);
            assert_eq!(outcome.written as usize, entries.len());
        }
    }

    /// An exemplar of each series, with the labels of a trace.
    fn exemplify(&self, series: std::ops::Range<usize>, at_ms: i64, labels: impl Fn(usize) -> Labels) {
        for i in series {
            let trace = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let of = Labels::from_pairs([
                ("span_id", format!("{trace:016x}")),
                ("trace_id", format!("{trace:032x}")),
            ]);
            let body = WriteBody { scratch: of.to_canonical(), ..WriteBody::default() };
            let one = PartExemplar {
                series: self.hasher.hash_canonical(&labels(i).to_canonical()),
                timestamp_ms: at_ms,
                value: i as f64,
                labels_begin: 0,
                labels_len: body.scratch.len() as u32,
            };
            let appended = self.shard.borrow_mut().append_exemplars(&body, &[one], BOUNDS, &mut NoJournal);
            assert_eq!(appended.kept, 1);
        }
    }

    fn retain(&self, horizon_ms: i64) {
        futures::executor::block_on(maintenance::retain(
            &self.shard,
            &MemoryLog::default(),
            &Alone,
            horizon_ms,
        ));
    }
}

fn pod(i: usize) -> Labels {
    let (instance, pod) = (format!("10.0.{}.{}:9100", i / 500 % 250, i / 125_000), format!("pod-{i:08}"));
    let name = format!("metric_{}_total", i % 500);
    Labels::from_pairs([("__name__", &*name), ("instance", &instance), ("job", "shop"), ("pod", &pod)])
}

fn host(i: usize) -> Labels {
    let (name, instance) = (format!("node_{}_total", i % 700), format!("host-{}", i / 700));
    Labels::from_pairs([("__name__", &*name), ("instance", &instance), ("job", "node"), ("zone", "a")])
}

fn long(i: usize) -> Labels {
    let (path, query) = (format!("/srv/{i:09}/").repeat(20), format!("select {i} ").repeat(60));
    Labels::from_pairs([("__name__", "queries_total"), ("path", &*path), ("query", &query)])
}

fn resident_bytes() -> usize {
    metrics::resident_bytes(Path::new(metrics::PROC)).expect("Linux tells a process its memory") as usize
}

/// What the allocator may hold beside what grows with the series: pages of each size that were full
/// once. The plan of a node's memory has twice as much for the process.
const ALLOCATOR_BYTES: usize = 8 << 20;

/// Fills a shard; its accounting may be off by a tenth of what the process grew by.
fn check(what: &str, fill: impl FnOnce(&Filled)) {
    let filled = Filled::new();
    let (resident, counted) = (resident_bytes(), filled.shard.borrow().memory_bytes().total());
    fill(&filled);
    let grown = resident_bytes() - resident;
    let memory = filled.shard.borrow().memory_bytes();
    let counted = memory.total() - counted;
    println!(
        "{what}: {counted} bytes counted, {grown} resident: {:.3}; {memory:?}",
        counted as f64 / grown as f64
    );
    let off_bytes = counted.abs_diff(grown).saturating_sub(ALLOCATOR_BYTES);
    assert!(off_bytes * 10 <= grown, "{what}: {counted} bytes counted, {grown} resident");
    // What it took stays taken: the next fill must not find it free.
    std::mem::forget(filled);
}

/// What the process takes once, whatever comes later.
fn warm_up() {
    Filled::new().scrape(0..20_000, 1000, pod);
    Filled::new().scrape(0..2000, 1000, long);
}

#[test]
fn the_accounting_follows_resident_memory_whatever_fills_it() {
    warm_up();
    check("many series, each of a pod of its own", |filled| filled.scrape(0..200_000, 1000, pod));
    check("many series of few hosts", |filled| filled.scrape(0..300_000, 1000, host));
    check("many samples a series", |filled| {
        (0..600).for_each(|t| filled.scrape(0..10_000, t * SCRAPE_MS, host));
    });
    check("many exemplars", |filled| {
        filled.scrape(0..20_000, 1000, host);
        (0..20).for_each(|t| filled.exemplify(0..20_000, 1000 + t, host));
    });
    check("long labels", |filled| filled.scrape(0..40_000, 1000, long));
    check("series that come and go", |filled| {
        for round in 0..60 {
            filled.scrape(round * 4000..round * 4000 + 40_000, round as i64 * 600_000, pod);
            filled.retain(round as i64 * 600_000 - 6 * 3_600_000);
        }
    });
}
