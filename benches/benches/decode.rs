//! What it costs to read a remote write request, in samples a second: our decoders beside prost,
//! snappy before them, and the hash of the labels in them.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message;
use silverback::api::ingest::remote_write::{Decoder, Decoding, SeriesSink, Slice, Version, snappy};
use silverback_benches::fleet;
use silverback_model::{Labels, Sample, SeriesId, SeriesIdHasher, limits::DECODED_BYTES_MAX};
use silverback_proto::{prometheus, write_v2};
use silverback_storage::message::{LabelSpan, PartSeries, WriteBody};

const TIMESTAMP: i64 = 1_790_000_000_000;
/// What Prometheus sends at most, and what an agent that catches up sends.
const BATCHES: [usize; 2] = [2_000, 10_000];

/// Fills what a part holds, as the split does.
#[derive(Default)]
struct Part {
    series: Vec<PartSeries>,
    samples: Vec<Sample>,
}

impl SeriesSink for Part {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.series.push(PartSeries { id, labels, samples });
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }
}

/// One core's decoder with everything that it uses again.
struct Core {
    decoder: Decoder,
    hasher: SeriesIdHasher,
    body: WriteBody,
    part: Part,
}

impl Core {
    fn new(body: Vec<u8>) -> Self {
        let body = WriteBody { bytes: body.into(), ..WriteBody::default() };
        let hasher = SeriesIdHasher::new(7, "tenant");
        Self { decoder: Decoder::default(), hasher, body, part: Part::default() }
    }

    fn decode(&mut self, version: Version) -> usize {
        self.part.series.clear();
        self.part.samples.clear();
        let mut decoding = Decoding::start(version);
        let Self { decoder, hasher, body, part } = self;
        while decoder.decode(body, &mut decoding, hasher, 1_000, part).expect("well formed") == Slice::More {}
        part.samples.len()
    }
}

fn encoded(version: Version, series: usize) -> Vec<u8> {
    match version {
        Version::V1 => fleet::request_v1(0, series, TIMESTAMP).encode_to_vec(),
        Version::V2 => fleet::request_v2(0, series, TIMESTAMP).encode_to_vec(),
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.measurement_time(Duration::from_secs(3));
    for series in BATCHES {
        group.throughput(Throughput::Elements(series as u64));
        for (name, version) in [("v1", Version::V1), ("v2", Version::V2)] {
            let mut core = Core::new(encoded(version, series));
            assert_eq!(core.decode(version), series);
            group.bench_function(BenchmarkId::new(name, format!("series={series}")), |b| {
                b.iter(|| core.decode(version));
            });
        }
        let body = encoded(Version::V1, series);
        group.bench_function(BenchmarkId::new("v1-prost", format!("series={series}")), |b| {
            b.iter(|| prometheus::WriteRequest::decode(black_box(&*body)).map(|r| r.timeseries.len()));
        });
        let body = encoded(Version::V2, series);
        group.bench_function(BenchmarkId::new("v2-prost", format!("series={series}")), |b| {
            b.iter(|| write_v2::Request::decode(black_box(&*body)).map(|r| r.timeseries.len()));
        });
    }
}

/// Many requests in turn: what is known of a label set is not in the nearest cache any more.
fn decode_many(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_many");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for requests in [5, 100] {
        let bodies: Vec<_> =
            (0..requests).map(|i| fleet::request_v2(i * SERIES, SERIES, TIMESTAMP).encode_to_vec()).collect();
        let mut core = Core::new(Vec::new());
        let mut next = 0;
        let mut decode_next = || {
            core.body.bytes.prepare(bodies[next].len()).copy_from_slice(&bodies[next]);
            next = (next + 1) % requests;
            core.decode(Version::V2)
        };
        // Often enough that the cache has grown and knows all of them.
        (0..requests * 6).for_each(|_| assert_eq!(decode_next(), SERIES));
        group.bench_function(BenchmarkId::new("v2", format!("known={}", requests * SERIES)), |b| {
            b.iter(&mut decode_next);
        });
    }
}

/// A rollout: no label set was seen before.
fn decode_unknown(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_unknown");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    let mut core = Core::new(encoded(Version::V2, SERIES));
    let mut tenant = 0_u64;
    group.bench_function(BenchmarkId::new("v2", format!("series={SERIES}")), |b| {
        b.iter(|| {
            tenant += 1;
            core.hasher = SeriesIdHasher::new(tenant, "tenant");
            core.decode(Version::V2)
        });
    });
}

fn before_and_within(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_steps");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for (name, version) in [("v1", Version::V1), ("v2", Version::V2)] {
        let compressed = snap::raw::Encoder::new().compress_vec(&encoded(version, SERIES)).expect("small");
        let mut body = WriteBody::default();
        group.bench_function(BenchmarkId::new("snappy", format!("{name}/series={SERIES}")), |b| {
            b.iter(|| snappy::decompress(black_box(&compressed), DECODED_BYTES_MAX, &mut body.bytes));
        });
    }
    let blocks: Vec<_> = (0..SERIES).map(|i| Labels::from_pairs(fleet::labels(i)).to_canonical()).collect();
    let hasher = SeriesIdHasher::new(7, "tenant");
    group.bench_function(BenchmarkId::new("hash", format!("labels=9/series={SERIES}")), |b| {
        b.iter(|| blocks.iter().fold(0, |sum, block| sum ^ hasher.hash_canonical(block).0));
    });
}

criterion_group!(benches, decode, decode_many, decode_unknown, before_and_within);
criterion_main!(benches);
