//! What native histograms cost on their way in, of 40 buckets each, in histograms a second: to decode a request of both
//! versions, and to take one into a shard and into the group of its log.
//!
//! Instructions, which are the same in each run: `valgrind --tool=callgrind` of this bench with `-- --test`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message;
use silverback::api::ingest::remote_write::{DecodeProgress, Decoder, Decoding, SeriesSink, Version};
use silverback_benches::bench::{hasher, sizes};
use silverback_benches::fleet;
use silverback_load::random::SplitMix;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_model::{Sample, SeriesId, ShardId};
use silverback_proto::{prometheus, write_v2};
use silverback_storage::message::{LabelSpan, PartHistogram, WriteBody};
use silverback_storage::shard::Shard;
use silverback_storage::shard::append::TimeBounds;
use silverback_storage::wal::record::Group;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EVER: TimeBounds = TimeBounds { oldest_ms: 0, newest_ms: i64::MAX, late_window_ms: 3_600_000 };
const START_MS: i64 = 1_790_000_000_000;
const STEP_MS: i64 = 15_000;
/// In each request, one histogram each.
const SERIES: usize = 500;
const BUCKETS: usize = 40;
/// Runs of buckets that are in use.
const SPANS: [Span; 3] =
    [Span { offset: -20, length: 10 }, Span { offset: 2, length: 20 }, Span { offset: 1, length: 10 }];
const VERSIONS: [(&str, Version); 2] = [("v1", Version::V1), ("v2", Version::V2)];

/// Counters that grow from request to request, some buckets faster than others.
struct Fleet {
    random: SplitMix,
    counts: Vec<[u64; BUCKETS]>,
    at_ms: i64,
}

impl Fleet {
    fn new() -> Self {
        Self { random: SplitMix::new(1, 1), counts: vec![[0; BUCKETS]; SERIES], at_ms: START_MS }
    }

    /// The next request of all series.
    fn next(&mut self, version: Version) -> WriteBody {
        let Self { random, counts, .. } = self;
        for count in counts.iter_mut().flatten() {
            let most = if random.next_u64().is_multiple_of(3) { 20 } else { 3 };
            *count += random.next_u64() % most;
        }
        self.at_ms += STEP_MS;
        let bytes = match version {
            Version::V1 => self.request_v1().encode_to_vec(),
            Version::V2 => self.request_v2().encode_to_vec(),
        };
        WriteBody { bytes: bytes.into(), ..WriteBody::default() }
    }

    fn request_v1(&self) -> prometheus::WriteRequest {
        let mut request = fleet::request_v1(0, SERIES, self.at_ms);
        for (series, counts) in request.timeseries.iter_mut().zip(&self.counts) {
            series.samples.clear();
            series.histograms = vec![message(counts, self.at_ms)];
        }
        request
    }

    fn request_v2(&self) -> write_v2::Request {
        let mut request = fleet::request_v2(0, SERIES, self.at_ms);
        for (series, counts) in request.timeseries.iter_mut().zip(&self.counts) {
            series.samples.clear();
            series.histograms = vec![message(counts, self.at_ms)];
        }
        request
    }
}

/// Both versions have one message, by different names.
fn message<M: Message + Default>(counts: &[u64; BUCKETS], timestamp_ms: i64) -> M {
    let mut before = 0;
    let words = counts.iter().map(|count| count.wrapping_sub(std::mem::replace(&mut before, *count)));
    let histogram = Histogram {
        schema: 3,
        zero_threshold: 2_f64.powi(-128),
        zero_count: counts[0],
        count: counts[0] + counts.iter().sum::<u64>(),
        sum_bits: counts
            .iter()
            .zip(1_u32..)
            .map(|(count, n)| *count as f64 * f64::from(n) / 10.0)
            .sum::<f64>()
            .to_bits(),
        positive: Buckets { spans: SPANS.to_vec(), words: words.collect() },
        ..Histogram::default()
    };
    let mut bytes = Vec::new();
    histogram.put_message(HistogramTimes { timestamp_ms, start_timestamp_ms: 0 }, &mut bytes);
    M::decode(&*bytes).expect("it is a message")
}

/// What a part holds.
#[derive(Default)]
struct Part(Vec<PartHistogram>);

impl SeriesSink for Part {
    fn series(&mut self, _id: SeriesId, _labels: LabelSpan, _samples: u32) {}

    fn sample(&mut self, _sample: Sample) {}

    fn histogram(&mut self, histogram: PartHistogram) {
        self.0.push(histogram);
    }
}

/// Decodes a request; its histograms are in the part then.
fn decode(decoder: &mut Decoder, body: &mut WriteBody, version: Version, part: &mut Part) {
    part.0.clear();
    let mut decoding = Decoding::start(version);
    while decoder.decode(body, &mut decoding, &hasher(), 1_000, part).expect("well formed")
        == DecodeProgress::More
    {}
}

fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("histogram_decode");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for (name, version) in VERSIONS {
        let (mut decoder, mut part, mut body) =
            (Decoder::default(), Part::default(), Fleet::new().next(version));
        group.bench_function(BenchmarkId::new(name, format!("buckets={BUCKETS}")), |b| {
            b.iter(|| decode(&mut decoder, black_box(&mut body), version, &mut part));
        });
        assert_eq!(part.0.len(), SERIES);
    }
    group.finish();
}

/// So many requests after the one that makes the series.
fn appending(c: &mut Criterion) {
    let mut group = c.benchmark_group("histogram_append");
    for requests in sizes([20, 100]) {
        group.sample_size(10).throughput(Throughput::Elements((SERIES * requests) as u64));
        let (mut fleet, mut decoder) = (Fleet::new(), Decoder::default());
        let mut next = || {
            let (mut body, mut part) = (fleet.next(Version::V1), Part::default());
            decode(&mut decoder, &mut body, Version::V1, &mut part);
            (body, part.0)
        };
        let (first, parts) = (next(), Vec::from_iter((0..requests).map(|_| next())));
        let shard = || {
            let mut shard = Shard::new(ShardId(0), usize::MAX);
            append(&mut shard, &first, &mut Group::default());
            (shard, Group::default())
        };
        group.bench_function(format!("buckets={BUCKETS}/requests={requests}"), |b| {
            b.iter_batched_ref(
                shard,
                |(shard, group)| parts.iter().for_each(|part| append(shard, part, group)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn append(shard: &mut Shard, (body, histograms): &(WriteBody, Vec<PartHistogram>), group: &mut Group) {
    group.clear();
    let (mut next, mut accepted) = (&histograms[..], 0);
    while !next.is_empty() {
        let (taken, outcome) = shard.append_histograms(body, next, EVER, group);
        accepted += outcome.histograms;
        next = &next[taken..];
    }
    assert_eq!(accepted, SERIES as u64);
}

criterion_group!(benches, decoding, appending);
criterion_main!(benches);
