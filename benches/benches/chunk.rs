//! The chunk codec: append, seal, iterate. One operation is one chunk; throughput is in samples.
use std::hint::black_box;

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use silverback_load::random::SplitMix;
use silverback_model::Sample;
use silverback_model::gorilla::{OpenXor, SealedChunk, WordSink};
use silverback_model::limits::{CHUNK_BYTES_MAX, CHUNK_RANGE_MS, CHUNK_SAMPLES};

const STEP_MS: i64 = 15_000;
const START_MS: i64 = 236_112 * CHUNK_RANGE_MS;

/// The kinds of series that a scrape of a machine brings, and one that compresses badly.
#[derive(Clone, Copy)]
enum Values {
    Constant,
    Counter,
    Gauge,
    Float,
}

impl Values {
    const ALL: [Self; 4] = [Self::Constant, Self::Counter, Self::Gauge, Self::Float];

    const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Float => "float",
        }
    }

    fn next(self, before: f64, random: &mut SplitMix) -> f64 {
        match self {
            Self::Constant => 42.0,
            Self::Counter => before + (random.next_u64() % 1000) as f64,
            Self::Gauge => (random.next_u64() % 10_000) as f64 / 100.0,
            Self::Float => random.next_u64() as f64 / 1e9,
        }
    }
}

/// The samples of one chunk, each time late by up to `jitter_ms`.
fn samples(values: Values, jitter_ms: u64) -> Vec<Sample> {
    let mut random = SplitMix::new(1, 1);
    let mut value = 0.0;
    let sample = |i| {
        value = values.next(value, &mut random);
        Sample::new(START_MS + i * STEP_MS + (random.next_u64() % (jitter_ms + 1)) as i64, value)
    };
    (0..CHUNK_SAMPLES as i64).map(sample).collect()
}

/// As many words as a chunk may have, in place.
struct ArraySink {
    words: [u64; CHUNK_BYTES_MAX / 8],
    len: usize,
}

impl ArraySink {
    const EMPTY: Self = Self { words: [0; CHUNK_BYTES_MAX / 8], len: 0 };

    fn words(&self) -> impl Iterator<Item = u64> {
        self.words[..self.len].iter().copied()
    }
}

impl WordSink for ArraySink {
    #[inline]
    fn push_word(&mut self, word: u64) {
        self.words[self.len] = word;
        self.len += 1;
    }
}

/// Appends as a shard does, which must know first whether a sample belongs here.
fn append_all(samples: &[Sample], sink: &mut ArraySink) -> OpenXor {
    let mut chunk = OpenXor::start(samples[0], sink);
    for &sample in &samples[1..] {
        if chunk.is_full_for(sample.timestamp_ms) {
            break;
        }
        chunk.append(sample, sink);
    }
    chunk
}

fn sealed(samples: &[Sample]) -> SealedChunk {
    let mut sink = ArraySink::EMPTY;
    append_all(samples, &mut sink).seal(sink.words())
}

/// Runs `measure` for each kind of values, with scrapes on time and late by up to 5 ms.
fn for_each_kind(criterion: &mut Criterion, name: &str, measure: impl Fn(&mut Bencher, &[Sample])) {
    let mut group = criterion.benchmark_group(name);
    for values in Values::ALL {
        for jitter_ms in [0, 5] {
            let samples = samples(values, jitter_ms);
            group.throughput(Throughput::Elements(sealed(&samples).count() as u64));
            let parameters = format!("values={}/jitter={jitter_ms}", values.name());
            group.bench_function(parameters, |bencher| measure(bencher, &samples));
        }
    }
    group.finish();
}

fn append(criterion: &mut Criterion) {
    for_each_kind(criterion, "chunk_append", |bencher, samples| {
        let mut sink = ArraySink::EMPTY;
        bencher.iter(|| {
            sink.len = 0;
            append_all(black_box(samples), &mut sink)
        });
        black_box(&sink.words);
    });
}

fn seal(criterion: &mut Criterion) {
    for_each_kind(criterion, "chunk_seal", |bencher, samples| {
        let mut sink = ArraySink::EMPTY;
        let open = append_all(samples, &mut sink);
        bencher.iter(|| black_box(open).seal(sink.words()));
    });
}

fn iterate(criterion: &mut Criterion) {
    for_each_kind(criterion, "chunk_iterate", |bencher, samples| {
        let chunk = sealed(samples);
        bencher.iter(|| black_box(&chunk).samples().map(|sample| sample.unwrap().value).sum::<f64>());
    });
}

criterion_group!(benches, append, seal, iterate);
criterion_main!(benches);
