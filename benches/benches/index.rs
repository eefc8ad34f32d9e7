//! The label index: what a new series costs, and how matchers find series again.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use silverback_benches::bench::{decoded, sizes};
use silverback_benches::fleet;
use silverback_host::Alone;
use silverback_model::{Epoch, MatchOp, Matcher, Sample, ShardId};
use silverback_storage::cell::SeriesRef;
use silverback_storage::cell::series::LabelRef;
use silverback_storage::message::{
    PartSeries, Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection, SeriesWanted, WriteBody,
};
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::shard::{LabelIndex, Reads, Shard};
use silverback_storage::wal::NoJournal;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EVER: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 0 };
/// New series in one iteration.
const NEW: usize = 2000;

fn intern(index: &mut LabelIndex, labels: &[(String, String)]) -> Vec<LabelRef> {
    let pairs = labels.iter();
    pairs
        .map(|(name, value)| index.intern(name.as_bytes(), value.as_bytes()).expect("a ref is left"))
        .collect()
}

fn index_of(series: usize) -> LabelIndex {
    let mut index = LabelIndex::default();
    for i in 0..series {
        let labels = intern(&mut index, &fleet::labels(i));
        index.add(SeriesRef(i as u32), &labels);
    }
    index
}

/// Labels of series that the index doesn't know: most of their pairs it does.
fn new_in_index(c: &mut Criterion) {
    let mut group = c.benchmark_group("index_add");
    group.throughput(Throughput::Elements(NEW as u64)).sample_size(10);
    for series in sizes([1000, 100_000]) {
        let new: Vec<_> = (series..series + NEW).map(fleet::labels).collect();
        let mut index = index_of(series);
        group.bench_function(format!("labels=9/series={series}/new={NEW}"), |b| {
            b.iter(|| {
                let added: Vec<_> = new.iter().map(|labels| intern(&mut index, labels)).collect();
                for (i, labels) in added.iter().enumerate() {
                    index.add(SeriesRef((series + i) as u32), labels);
                }
                // Out again, so that the next iteration finds them as new; the last one first, which
                // costs least.
                for (i, labels) in added.iter().enumerate().rev() {
                    index.remove(SeriesRef((series + i) as u32), labels);
                }
            });
        });
    }
    group.finish();
}

fn shard_of(series: usize) -> Shard {
    let mut shard = Shard::new(ShardId(0), usize::MAX);
    append(&mut shard, &decoded(0, series));
    shard
}

fn append(shard: &mut Shard, (body, entries): &(WriteBody, Vec<PartSeries>)) {
    let samples = vec![Sample::new(0, 1.0); entries.len()];
    assert_eq!(shard.append(body, entries, &samples, EVER, &mut NoJournal).written, entries.len() as u64);
}

/// The whole way of a new series: table, line, first sample, index.
fn new_in_shard(c: &mut Criterion) {
    let mut group = c.benchmark_group("shard_new_series");
    group.throughput(Throughput::Elements(NEW as u64)).sample_size(10);
    for series in sizes([1000, 20_000]) {
        let new = decoded(series, NEW);
        group.bench_function(format!("labels=9/series={series}/new={NEW}"), |b| {
            b.iter_batched_ref(|| shard_of(series), |shard| append(shard, &new), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Label name, operator, value or pattern.
type MatcherText = (&'static str, MatchOp, &'static str);

/// What a read costs until its first series: to find and to sort them.
fn open(c: &mut Criterion) {
    use MatchOp::{Equal, NotEqual, Regex};
    let selects: [(&str, &[MatcherText]); 5] = [
        ("equal", &[("instance", Equal, "node-00001.example.org:9100")]),
        ("equal_and_equal", &[("job", Equal, "node-exporter"), ("mode", Equal, "idle")]),
        ("equal_and_not_equal", &[("mode", Equal, "idle"), ("cpu", NotEqual, "0")]),
        ("regex", &[("instance", Regex, "node-000.[05].*")]),
        ("equal_and_regex", &[("mode", Equal, "idle"), ("instance", Regex, "node-000.[05].*")]),
    ];
    let mut group = c.benchmark_group("read_open");
    for series in sizes([1000, 100_000]) {
        let shard = Rc::new(RefCell::new(shard_of(series)));
        for (name, matchers) in selects {
            let matchers = matchers.iter().map(|(name, op, value)| Matcher::new(name, *op, value));
            let matchers: Vec<_> = matchers.collect::<Result<_, _>>().expect("the patterns are good");
            let found = read(&shard, &matchers, usize::MAX);
            assert!(found > 0, "{name} finds something");
            group.throughput(Throughput::Elements(found as u64));
            group.bench_function(format!("{name}/series={series}/found={found}"), |b| {
                b.iter(|| black_box(read(&shard, &matchers, 1)));
            });
        }
    }
    group.finish();
}

/// Opens a read, and counts the series of its first batch.
fn read(shard: &Rc<RefCell<Shard>>, matchers: &[Matcher], bytes: usize) -> usize {
    let selection = Selection { matchers: matchers.into(), ..Selection::everything() };
    let request = ReadRequest::Open { selection, wanted: SeriesWanted::LabelSets.into(), bytes };
    let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
    let answer = block_on(Reads::new(usize::MAX).answer(Rc::clone(shard), Alone, read));
    match *answer.expect("a lone read has room") {
        ReadReply::Series(batch, _) => batch.count(),
        other => unreachable!("series were asked for: {other:?}"),
    }
}

criterion_group!(benches, new_in_index, new_in_shard, open);
criterion_main!(benches);
