//! The records of the log: encode and decode a group. One operation is one group of samples, one
//! of each series; throughput is in samples.
use std::hint::black_box;

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use silverback_load::random::SplitMix;
use silverback_model::{Sample, SeriesRef};
use silverback_storage::wal::Journal;
use silverback_storage::wal::record::{Group, LoggedSample, Record, records};

const SERIES: u32 = 20_000;
/// Series that are scraped at one time.
const TARGET_SERIES: u32 = 1000;
const START_MS: i64 = 1_700_000_000_000;

/// What the values of a group are: one kind for all, or a mix in no order.
#[derive(Clone, Copy)]
enum Values {
    Zero,
    Counter,
    Hundredths,
    Float,
    Mixed,
}

impl Values {
    const ALL: [Self; 5] = [Self::Zero, Self::Counter, Self::Hundredths, Self::Float, Self::Mixed];

    const fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Counter => "counter",
            Self::Hundredths => "hundredths",
            Self::Float => "float",
            Self::Mixed => "mixed",
        }
    }

    fn next(self, random: &mut SplitMix) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::Counter => (random.next_u64() % 1_000_000_000) as f64,
            Self::Hundredths => (random.next_u64() % 10_000_000) as f64 / 100.0,
            Self::Float => random.next_u64() as f64 / 1e9,
            Self::Mixed => match random.next_u64() % 100 {
                0..40 => Self::Zero.next(random),
                40..75 => Self::Counter.next(random),
                75..88 => Self::Hundredths.next(random),
                _ => Self::Float.next(random),
            },
        }
    }
}

fn samples(values: Values) -> Vec<(SeriesRef, Sample)> {
    let mut random = SplitMix::new(1, 1);
    let sample = |series| {
        let timestamp_ms = START_MS + i64::from(series / TARGET_SERIES) * 37;
        (SeriesRef(series), Sample::new(timestamp_ms, values.next(&mut random)))
    };
    (0..SERIES).map(sample).collect()
}

fn fill(group: &mut Group, samples: &[(SeriesRef, Sample)]) {
    for &(series, sample) in samples {
        group.stored(series, sample);
    }
}

/// Runs `measure` for each kind of values.
fn for_each_kind(
    criterion: &mut Criterion,
    name: &str,
    measure: impl Fn(&mut Bencher, &[(SeriesRef, Sample)]),
) {
    let mut benches = criterion.benchmark_group(name);
    benches.throughput(Throughput::Elements(u64::from(SERIES)));
    for values in Values::ALL {
        let samples = samples(values);
        let parameters = format!("values={}", values.name());
        benches.bench_function(parameters, |bencher| measure(bencher, &samples));
    }
    benches.finish();
}

fn encode(criterion: &mut Criterion) {
    for_each_kind(criterion, "wal_encode", |bencher, samples| {
        let mut group = Group::default();
        bencher.iter(|| {
            group.clear();
            fill(&mut group, black_box(samples));
            black_box(group.parts());
        });
    });
}

fn decode(criterion: &mut Criterion) {
    for_each_kind(criterion, "wal_decode", |bencher, samples| {
        let mut group = Group::default();
        fill(&mut group, samples);
        let payload = group.parts().concat();
        bencher.iter(|| sum(black_box(&payload)));
    });
}

fn sum(payload: &[u8]) -> f64 {
    let mut sum = 0.0;
    for record in records(payload) {
        let Ok(Record::Samples(samples)) = record else { panic!("a group of samples alone") };
        for sample in &samples {
            let LoggedSample { series, sample, .. } = sample.unwrap();
            sum += sample.value + f64::from(series.0) + sample.timestamp_ms as f64;
        }
    }
    sum
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
