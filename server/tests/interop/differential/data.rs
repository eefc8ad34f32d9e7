//! The data: counters that start over, gauges with what isn't a number, classic and native histograms, series that
//! come, end, and are sparse; some samples late. By a seed of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;
use silverback_model::STALE_NAN_BITS;
use silverback_proto::prometheus::histogram::{Count, ResetHint, ZeroCount};
use silverback_proto::prometheus::{BucketSpan, Histogram, Label, Sample, TimeSeries, WriteRequest};
use silverback_test_support::random::Random;

use super::expressions::Knowledge;

const SEED: u64 = 20;
/// Between two samples of a series.
const INTERVAL_MS: i64 = 15_000;
const SAMPLES: i64 = 240;
const JOBS: [&str; 3] = ["api", "db", "web"];
const LE: [(&str, f64); 5] = [("0.1", 0.1), ("0.5", 0.5), ("1", 1.0), ("5", 5.0), ("+Inf", f64::INFINITY)];

/// What both have.
pub(super) struct Data {
    /// Requests of remote write 1, in the order in which they are sent.
    pub(super) bodies: Vec<Vec<u8>>,
    /// The first and last time, in ms, at whole minutes.
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// A time of a sample, as good as any.
    pub(super) sample_ms: i64,
}

impl Data {
    pub(super) fn new(knows: Knowledge) -> Self {
        let now_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_millis() as i64;
        let end_ms = (now_ms / 60_000 - 1) * 60_000;
        let start_ms = end_ms - SAMPLES * INTERVAL_MS;
        let mut making = Making { random: Random::new(SEED), start_ms, series: Vec::new(), late: Vec::new() };
        making.all(knows);
        let body = |series: &[TimeSeries]| {
            let request = WriteRequest { timeseries: series.to_vec(), metadata: Vec::new() };
            snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).expect("it is small")
        };
        let bodies = making.series.chunks(16).chain([&*making.late]).map(body).collect();
        Self { bodies, start_ms, end_ms, sample_ms: making.time(0, 100) }
    }
}

struct Making {
    random: Random,
    start_ms: i64,
    series: Vec<TimeSeries>,
    late: Vec<TimeSeries>,
}

fn labels(name: &str, others: &[(&str, &str)]) -> Vec<Label> {
    let all = [("__name__", name)].into_iter().chain(others.iter().copied());
    let mut labels: Vec<_> =
        all.map(|(name, value)| Label { name: name.into(), value: value.into() }).collect();
    labels.sort_by(|left, right| left.name.cmp(&right.name));
    labels
}

impl Making {
    fn all(&mut self, knows: Knowledge) {
        for job in JOBS {
            for instance in ["0", "1", "2", "3"] {
                let target = [("job", job), ("instance", instance)];
                for code in ["200", "500"] {
                    self.counter(&[("job", job), ("instance", instance), ("code", code)]);
                }
                self.gauge(&target);
                self.constant(
                    "build_info",
                    &[&target[..], &[("version", if instance < "2" { "v1" } else { "v2" })]].concat(),
                );
            }
            self.sparse(&[("job", job)]);
            self.large(&[("job", job)]);
        }
        for (job, instance) in [("api", "0"), ("api", "1"), ("web", "0"), ("web", "1")] {
            self.classic(job, instance);
        }
        if knows == Knowledge::Current {
            for (job, instance, schema) in [
                ("api", "0", 0),
                ("api", "1", 0),
                ("api", "2", 2),
                ("db", "0", 1),
                ("web", "0", 3),
                ("web", "1", -1),
            ] {
                self.native(&[("job", job), ("instance", instance)], schema);
            }
        }
    }

    /// The time of a series' sample: each series has an offset of its own, and no time is a whole second.
    fn time(&self, series: usize, at: i64) -> i64 {
        self.start_ms + at * INTERVAL_MS + 137 + (series as i64 * 1009) % 14_000
    }

    /// Samples by number; `None` where there is none.
    fn put(&mut self, labels: Vec<Label>, mut value: impl FnMut(&mut Random, i64) -> Option<f64>) {
        let series = self.series.len();
        let mut samples = Vec::new();
        for at in 0..SAMPLES {
            if let Some(value) = value(&mut self.random, at) {
                samples.push(Sample { timestamp: self.time(series, at), value });
            }
        }
        self.series.push(TimeSeries { labels, samples, ..TimeSeries::default() });
    }

    fn counter(&mut self, others: &[(&str, &str)]) {
        let (mut total, first) = (0.0, if self.random.once_in(4) { self.random.below(90) as i64 } else { 0 });
        let last = if self.random.once_in(4) { 100 + self.random.below(100) as i64 } else { SAMPLES };
        self.put(labels("requests_total", others), |random, at| {
            total = if random.once_in(70) { 0.0 } else { total + random.below(50) as f64 };
            match at {
                at if at == last => Some(f64::from_bits(STALE_NAN_BITS)),
                at if at < first || at > last || random.once_in(25) => None,
                _there => Some(total),
            }
        });
    }

    fn gauge(&mut self, others: &[(&str, &str)]) {
        self.put(labels("load", others), |random, _| {
            let value = random.next() as f64 / u64::MAX as f64 * 200.0 - 60.0;
            Some(match random.below(400) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3..6 => 0.0,
                6..16 => return None,
                _plain => value,
            })
        });
        // What is taken out here is sent when all else is there.
        let (mut late, random) = (Vec::new(), &mut self.random);
        let series = self.series.last_mut().expect("one was put");
        series.samples.retain(|sample| {
            let goes = random.once_in(30);
            if goes {
                late.push(*sample);
            }
            !goes
        });
        // The newest has to be there before what is late.
        let labels = series.labels.clone();
        self.late.push(TimeSeries { labels, samples: late, ..TimeSeries::default() });
    }

    fn constant(&mut self, name: &str, others: &[(&str, &str)]) {
        self.put(labels(name, others), |_, _| Some(1.0));
    }

    fn sparse(&mut self, others: &[(&str, &str)]) {
        self.put(labels("sparse", others), |random, _| {
            random.once_in(22).then(|| random.below(1000) as f64 / 8.0)
        });
    }

    fn large(&mut self, others: &[(&str, &str)]) {
        self.put(labels("large", others), |random, _| {
            Some(match random.below(3) {
                0 => 1e6 + random.below(9) as f64,
                1 => 1e200 * (1.0 + random.below(100) as f64),
                _small => random.below(9) as f64 * 1e-200,
            })
        });
    }

    fn classic(&mut self, job: &str, instance: &str) {
        let mut counts = [0.0; LE.len()];
        let mut all = Vec::new();
        for _ in 0..SAMPLES {
            let begins_anew = self.random.once_in(90);
            for count in &mut counts {
                *count = if begins_anew { 0.0 } else { *count + self.random.below(9) as f64 };
            }
            all.push(counts);
        }
        for (at_bound, (le, _)) in LE.iter().enumerate() {
            let others = [("job", job), ("instance", instance), ("le", le)];
            let total = |at: i64| all[at as usize][..=at_bound].iter().sum::<f64>();
            self.put(labels("latency_bucket", &others), |_, at| Some(total(at)));
        }
        let others = [("job", job), ("instance", instance)];
        self.put(labels("latency_count", &others), |_, at| Some(all[at as usize].iter().sum()));
        self.put(labels("latency_sum", &others), |_, at| Some(all[at as usize].iter().sum::<f64>() * 0.75));
    }

    fn native(&mut self, others: &[(&str, &str)], schema: i32) {
        let series = self.series.len();
        let (mut counts, mut histograms) = ([0_u64; 8], Vec::new());
        for at in 0..SAMPLES {
            let begins_anew = self.random.once_in(60);
            for count in &mut counts {
                *count = if begins_anew { 0 } else { *count + self.random.below(7) };
            }
            if self.random.once_in(30) {
                continue;
            }
            let mut before = 0;
            let deltas = counts[1..].iter().map(|count| {
                let delta = *count as i64 - before;
                before = *count as i64;
                delta
            });
            histograms.push(Histogram {
                count: Some(Count::CountInt(counts.iter().sum())),
                sum: counts.iter().enumerate().map(|(at, count)| at as f64 * *count as f64).sum(),
                schema,
                zero_threshold: 0.001,
                zero_count: Some(ZeroCount::ZeroCountInt(counts[0])),
                positive_spans: vec![
                    BucketSpan { offset: -2, length: 3 },
                    BucketSpan { offset: 2, length: 4 },
                ],
                positive_deltas: deltas.collect(),
                reset_hint: ResetHint::Unknown.into(),
                timestamp: self.time(series, at),
                ..Histogram::default()
            });
        }
        self.series.push(TimeSeries { labels: labels("sizes", others), histograms, ..TimeSeries::default() });
    }
}
