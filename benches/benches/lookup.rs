//! From a series' labels to its open chunk: the id's hash, the cell's table, the append of a part.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use silverback_benches::bench::{canonical, decoded, hasher, sizes};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{Sample, SeriesId, ShardId};
use silverback_storage::cell::table::SeriesTable;
use silverback_storage::cell::{SeriesRef, SeriesStore};
use silverback_storage::message::{PartSeries, WriteBody};
use silverback_storage::shard::Shard;
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::wal::NoJournal;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EVER: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
const SCRAPE_INTERVAL_MS: i64 = 15_000;
/// Lookups, or hashes, in one iteration.
const BATCH: usize = 1000;

fn series_id_hash(c: &mut Criterion) {
    let mut group = c.benchmark_group("series_id_hash");
    let blocks: Vec<Vec<u8>> = (0..BATCH).map(canonical).collect();
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    group.throughput(Throughput::Bytes(bytes as u64));
    let hasher = hasher();
    group.bench_function(BenchmarkId::from_parameter(format!("labels=9/series={BATCH}")), |b| {
        b.iter(|| blocks.iter().fold(0, |all, block| all ^ hasher.hash_canonical(black_box(block)).0));
    });
    group.finish();
}

/// Cells' tables and the series that they lead to, as a shard holds them.
struct Tables {
    cells: Vec<SeriesTable>,
    store: SeriesStore,
}

impl Tables {
    fn of(ids: &[SeriesId]) -> Self {
        let mut store = SeriesStore::default();
        let mut cells: Vec<_> = std::iter::repeat_with(SeriesTable::default).take(CELL_COUNT).collect();
        for id in ids {
            let series = store.create(*id, Box::default(), Sample::new(0, 0.0)).expect("a ref is left");
            cells[usize::from(id.cell().0)].insert(*id, series, |s| store.id(s));
        }
        Self { cells, store }
    }

    fn find(&self, id: SeriesId) -> Option<SeriesRef> {
        self.cells[usize::from(id.cell().0)].find(id, |s| self.store.id(s) == id)
    }
}

/// `hot` asks for the same thousand series again and again, `cold` for all in turn. Nothing is
/// brought near ahead: see `shard_append` for that.
fn series_lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("series_lookup");
    group.throughput(Throughput::Elements(BATCH as u64));
    for series in sizes([1000, 100_000, 1_000_000]) {
        // Ids are hashes, so in the order of labels they are in no order.
        let hasher = hasher();
        let ids: Vec<_> = (0..series as u64).map(|i| hasher.hash_canonical(&i.to_le_bytes())).collect();
        let tables = Tables::of(&ids);
        for (order, asked) in [("hot", &ids[..BATCH]), ("cold", &ids[..])] {
            let mut batches = asked.chunks_exact(BATCH).cycle();
            group.bench_function(format!("series={series}/{order}"), |b| {
                b.iter(|| {
                    for id in batches.next().expect("a cycle has no end") {
                        black_box(tables.find(*id).expect("the series is held"));
                    }
                });
            });
        }
    }
    group.finish();
}

/// A shard of a fleet's series, and the requests of one scrape of all of them.
struct Scrapes {
    shard: Shard,
    requests: Vec<(WriteBody, Vec<PartSeries>)>,
    samples: Vec<Sample>,
    sent: usize,
}

impl Scrapes {
    fn of(series: usize, part: usize) -> Self {
        let requests: Vec<_> = (0..series / part).map(|i| decoded(i * part, part)).collect();
        let samples = vec![Sample::new(0, 0.0); part];
        let mut scrapes = Self { shard: Shard::new(ShardId(0), usize::MAX), requests, samples, sent: 0 };
        for _ in 0..scrapes.requests.len() {
            scrapes.append_next();
        }
        scrapes
    }

    /// Appends the next part; only the append is timed.
    fn append_next(&mut self) -> Duration {
        let scrape = self.sent / self.requests.len();
        let (body, entries) = &self.requests[self.sent % self.requests.len()];
        for (i, sample) in self.samples.iter_mut().enumerate() {
            // Most counters of an exporter move by whole numbers, some not at all.
            *sample = Sample::new(scrape as i64 * SCRAPE_INTERVAL_MS, ((i % 7) * scrape) as f64);
        }
        let began = Instant::now();
        let outcome = self.shard.append(body, entries, &self.samples, EVER, &mut NoJournal);
        let took = began.elapsed();
        assert_eq!(outcome.written, entries.len() as u64);
        self.sent += 1;
        took
    }
}

/// Known series, each with its next sample. A part of 2,000 series is a request's usual size; the
/// smaller ones are what is left of it after a split over more shards.
fn shard_append(c: &mut Criterion) {
    let mut group = c.benchmark_group("shard_append");
    let sets = [(2000, 2000), (100_000, 31), (100_000, 250), (100_000, 2000), (1_000_000, 2000)];
    let measured = sizes(sets.map(|(series, _)| series));
    for (series, part) in sets.into_iter().filter(|(series, _)| measured.contains(series)) {
        let mut scrapes = Scrapes::of(series, part);
        group.throughput(Throughput::Elements(part as u64));
        group.bench_function(format!("series={series}/part={part}"), |b| {
            b.iter_custom(|iterations| (0..iterations).map(|_| scrapes.append_next()).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, series_id_hash, series_lookup, shard_append);
criterion_main!(benches);
