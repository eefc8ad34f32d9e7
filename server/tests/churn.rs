//! Retention as the kernel sees it: a shard whose series come and go keeps its resident memory.
//!
//! One test, in a process of its own: it measures the process.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use silverback_host::Alone;
use silverback_host::metrics;
use silverback_model::{Labels, Sample, SeriesIdHasher, ShardId};
use silverback_storage::message::{LabelSource, LabelSpan, PartSeries, WriteBody};
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::shard::{Shard, maintenance};
use silverback_storage::wal::{MemoryLog, NoJournal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SERIES: usize = 20_000;
const SCRAPE_MS: i64 = 5 * 60 * 1000;
const HOUR_MS: i64 = 60 * 60 * 1000;
const RETENTION_MS: i64 = 6 * HOUR_MS;
/// A tenth of the series is replaced each hour.
const REPLACED_PER_HOUR: usize = SERIES / 10;

fn scrape(shard: &RefCell<Shard>, hasher: &SeriesIdHasher, first: usize, now_ms: i64) {
    let (mut blocks, mut entries, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for i in first..first + SERIES {
        let pod = format!("pod-{i:08}");
        let labels = Labels::from_pairs([("__name__", "requests_total"), ("job", "shop"), ("pod", &pod)]);
        let block = labels.to_canonical();
        let span = LabelSpan::new(LabelSource::Wire, blocks.len(), block.len());
        blocks.extend_from_slice(&block);
        entries.push(PartSeries::new(hasher.hash_canonical(&block), span, 1));
        samples.push(Sample::new(now_ms, (now_ms / 1000 * i as i64 % 9973) as f64));
    }
    let body = WriteBody { bytes: blocks.into(), ..WriteBody::default() };
    let bounds = TimeBounds { oldest_ms: now_ms - RETENTION_MS, newest_ms: now_ms, late_window_ms: 0 };
    let outcome = shard.borrow_mut().append(&body, &entries, &samples, bounds, &mut NoJournal);
    assert_eq!(outcome.written, SERIES as u64);
}

fn resident_bytes() -> usize {
    metrics::resident_bytes(Path::new(metrics::PROC)).expect("Linux tells a process its memory") as usize
}

#[test]
fn churn_keeps_resident_memory_level() {
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let hasher = SeriesIdHasher::new(7, "");
    let mut level = 0;
    for hour in 0..48 {
        for scrape_of_hour in 0..HOUR_MS / SCRAPE_MS {
            let now_ms = hour as i64 * HOUR_MS + scrape_of_hour * SCRAPE_MS;
            scrape(&shard, &hasher, hour * REPLACED_PER_HOUR, now_ms);
        }
        let horizon_ms = (hour as i64 + 1) * HOUR_MS - RETENTION_MS;
        futures::executor::block_on(maintenance::retain(&shard, &MemoryLog::default(), &Alone, horizon_ms));
        let series = shard.borrow().stats().series;
        assert!(series <= SERIES + REPLACED_PER_HOUR * 7, "hour {hour}: {series} series");
        match hour {
            // Two retentions to get there: chunks live for two hours beyond theirs.
            0..16 => level = level.max(resident_bytes()),
            _ => {
                let now = resident_bytes();
                assert!(now * 100 <= level * 110, "hour {hour}: {now} bytes resident, the level was {level}");
            }
        }
    }
    assert_eq!(shard.borrow().stats().series_created as usize, SERIES + 47 * REPLACED_PER_HOUR);
}
