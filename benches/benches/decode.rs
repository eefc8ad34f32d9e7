//! What it costs to read a remote write request, in samples a second: our decoders beside prost,
//! snappy before them, and the hash of the labels in them.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prost::Message;
use silverback::api::ingest::remote_write::{DecodeProgress, Decoder, Decoding, SeriesSink, Version, snappy};
use silverback_benches::fleet;
use silverback_load::label_order::LabelOrder;
use silverback_model::{Labels, Sample, SeriesId, SeriesIdHasher, limits::DECODED_BYTES_MAX};
use silverback_proto::{prometheus, write_v2};
use silverback_storage::message::{LabelSpan, PartSeries, WriteBody};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TIMESTAMP: i64 = 1_790_000_000_000;
/// What Prometheus sends at most, and what an agent that catches up sends.
const BATCHES: [usize; 2] = [2_000, 10_000];
const VERSIONS: [(&str, Version); 2] = [("v1", Version::V1), ("v2", Version::V2)];

/// Fills what a part holds, as the split does.
#[derive(Default)]
struct Part {
    series: Vec<PartSeries>,
    samples: Vec<Sample>,
}

impl SeriesSink for Part {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.series.push(PartSeries::new(id, labels, samples));
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
        while decoder.decode(body, &mut decoding, hasher, 1_000, part).expect("well formed")
            == DecodeProgress::More
        {}
        part.samples.len()
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.measurement_time(Duration::from_secs(3));
    for series in BATCHES {
        group.throughput(Throughput::Elements(series as u64));
        for (name, version) in VERSIONS {
            let mut core = Core::new(body(version, 0, series));
            assert_eq!(core.decode(version), series);
            group.bench_function(BenchmarkId::new(name, format!("series={series}")), |b| {
                b.iter(|| core.decode(version));
            });
        }
        let bytes = body(Version::V1, 0, series);
        group.bench_function(BenchmarkId::new("v1-prost", format!("series={series}")), |b| {
            b.iter(|| prometheus::WriteRequest::decode(black_box(&*bytes)).map(|r| r.timeseries.len()));
        });
        let bytes = body(Version::V2, 0, series);
        group.bench_function(BenchmarkId::new("v2-prost", format!("series={series}")), |b| {
            b.iter(|| write_v2::Request::decode(black_box(&*bytes)).map(|r| r.timeseries.len()));
        });
    }
}

fn body(version: Version, first: usize, series: usize) -> Vec<u8> {
    match version {
        Version::V1 => fleet::request_v1(first, series, TIMESTAMP).encode_to_vec(),
        Version::V2 => fleet::request_v2(first, series, TIMESTAMP).encode_to_vec(),
    }
}

/// Many requests in turn: what is known of a label set is not in the nearest cache any more.
fn decode_many(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_many");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for (name, version) in VERSIONS {
        for requests in [5, 100] {
            let bodies: Vec<_> = (0..requests).map(|i| body(version, i * SERIES, SERIES)).collect();
            let mut core = Core::new(Vec::new());
            let mut next = 0;
            let mut decode_next = || {
                core.body.bytes.prepare(bodies[next].len()).copy_from_slice(&bodies[next]);
                next = (next + 1) % requests;
                core.decode(version)
            };
            // Often enough that the cache has grown and knows all that it has room for.
            (0..requests * 6).for_each(|_| assert_eq!(decode_next(), SERIES));
            group.bench_function(BenchmarkId::new(name, format!("known={}", requests * SERIES)), |b| {
                b.iter(&mut decode_next);
            });
        }
    }
}

/// What a series is called beside the usual: nothing, a value of 2 KiB, 40 labels more.
const EXTRAS: [(&str, usize, usize); 3] =
    [("labels=9", 0, 0), ("value=2KiB", 1, 2 << 10), ("labels=49", 40, 8)];

/// Known series by the order of their labels, usual ones and long ones.
fn decode_labels(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    const REQUESTS: usize = 5;
    const ORDERS: [(&str, LabelOrder); 3] = [
        ("sorted", LabelOrder::Sorted),
        ("as-scraped", LabelOrder::AsScraped),
        ("shuffled", LabelOrder::Shuffled),
    ];
    let mut group = c.benchmark_group("decode_labels");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for ((name, version), (extra, more, value_bytes)) in
        VERSIONS.into_iter().flat_map(|version| EXTRAS.map(|extra| (version, extra)))
    {
        for (arrangement, order) in ORDERS {
            let labels = |series: usize| {
                let mut labels = fleet::labels(series);
                labels.extend((0..more).map(|i| (format!("label_{i:02}"), "v".repeat(value_bytes))));
                labels.sort();
                order.arrange(&mut labels, series);
                labels
            };
            let mut bodies = Vec::from_iter((0..REQUESTS).map(|i| {
                let bytes = match version {
                    Version::V1 => {
                        fleet::request_v1_of(labels, i * SERIES, SERIES, TIMESTAMP).encode_to_vec()
                    }
                    Version::V2 => {
                        fleet::request_v2_of(labels, i * SERIES, SERIES, TIMESTAMP).encode_to_vec()
                    }
                };
                WriteBody { bytes: bytes.into(), ..WriteBody::default() }
            }));
            let mut core = Core::new(Vec::new());
            let mut next = 0;
            let mut decode_next = || {
                std::mem::swap(&mut core.body, &mut bodies[next]);
                let samples = core.decode(version);
                std::mem::swap(&mut core.body, &mut bodies[next]);
                next = (next + 1) % REQUESTS;
                samples
            };
            (0..REQUESTS * 6).for_each(|_| assert_eq!(decode_next(), SERIES));
            group.bench_function(BenchmarkId::new(name, format!("{extra}/{arrangement}")), |b| {
                b.iter(&mut decode_next);
            });
        }
    }
}

/// A rollout: no label set was seen before.
fn decode_unknown(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_unknown");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for (name, version) in VERSIONS {
        let mut core = Core::new(body(version, 0, SERIES));
        let mut tenant = 0_u64;
        group.bench_function(BenchmarkId::new(name, format!("series={SERIES}")), |b| {
            b.iter(|| {
                tenant += 1;
                core.hasher = SeriesIdHasher::new(tenant, "tenant");
                core.decode(version)
            });
        });
    }
}

fn before_and_within(c: &mut Criterion) {
    const SERIES: usize = 2_000;
    let mut group = c.benchmark_group("decode_steps");
    group.measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(SERIES as u64));
    for (name, version) in VERSIONS {
        let compressed = snap::raw::Encoder::new().compress_vec(&body(version, 0, SERIES)).expect("small");
        let mut decompressed = WriteBody::default();
        group.bench_function(BenchmarkId::new("snappy", format!("{name}/series={SERIES}")), |b| {
            b.iter(|| snappy::decompress(black_box(&compressed), DECODED_BYTES_MAX, &mut decompressed.bytes));
        });
    }
    let blocks: Vec<_> = (0..SERIES).map(|i| Labels::from_pairs(fleet::labels(i)).to_canonical()).collect();
    let hasher = SeriesIdHasher::new(7, "tenant");
    group.bench_function(BenchmarkId::new("hash", format!("labels=9/series={SERIES}")), |b| {
        b.iter(|| blocks.iter().fold(0, |sum, block| sum ^ hasher.hash_canonical(block).0));
    });
}

criterion_group!(benches, decode, decode_many, decode_labels, decode_unknown, before_and_within);
criterion_main!(benches);
