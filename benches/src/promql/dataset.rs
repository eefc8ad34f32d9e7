//! Instances whose series are scraped every 15 seconds: counters, gauges, and a classic histogram. The same numbers give
//! the same samples, whoever they are sent to.

use silverback_load::random::SplitMix;
use silverback_load::values::{ValueKind, ValueStream};
use silverback_proto::prometheus::{Label, Sample, TimeSeries};

/// Between two samples of a series.
pub const INTERVAL_MS: i64 = 15_000;
/// Counters of each instance: paths by codes by methods.
pub const COUNTERS: usize = PATHS * CODES.len() * METHODS.len();
/// Instances of a rack: what questions about a few series are about.
pub const RACK_INSTANCES: usize = 10;
/// Series of each instance.
pub const INSTANCE_SERIES: usize = COUNTERS + 2 * CONTAINERS + BOUNDS.len();

const PATHS: usize = 10;
const CODES: [&str; 5] = ["200", "204", "404", "500", "503"];
const METHODS: [&str; 2] = ["get", "put"];
const CONTAINERS: usize = 10;
const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "+Inf"];
const JOBS: usize = 10;
/// One in so many instances begins again once.
const RESTARTED: u64 = 20;
/// One in so many scrapes is late, by up to so much.
const LATE: (u64, u64) = (16, 5);

/// How much data there is.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Instances.
    pub instances: usize,
    /// Scrapes of each.
    pub rounds: usize,
    /// When the first round begins.
    pub start_ms: i64,
}

impl Extent {
    /// Samples of all series.
    pub const fn samples(&self) -> u64 {
        (self.instances * INSTANCE_SERIES * self.rounds) as u64
    }

    /// The last step that is asked for.
    pub const fn end_ms(&self) -> i64 {
        self.start_ms + self.rounds as i64 * INTERVAL_MS
    }
}

/// One instance, from scrape to scrape.
#[derive(Debug)]
pub struct Instance {
    labels: Vec<Vec<Label>>,
    values: Vec<ValueStream>,
    observed: [f64; BOUNDS.len()],
    /// What counters had when they began again.
    base: Vec<f64>,
    random: SplitMix,
    next_ms: i64,
    restarts_at: Option<usize>,
    round: usize,
}

impl Instance {
    /// The instance of a number.
    pub fn new(number: usize, extent: &Extent) -> Self {
        let mut random = SplitMix::new(7, number as u64);
        let stream =
            |at: usize, kind, base| ValueStream::new(kind, base, SplitMix::new(number as u64, at as u64));
        let values = (0..COUNTERS + 2 * CONTAINERS)
            .map(|at| match at.checked_sub(COUNTERS) {
                None => stream(at, ValueKind::Count, 20.0),
                Some(gauge) if gauge < CONTAINERS => stream(at, ValueKind::Bytes, 2e8),
                Some(_) => stream(at, ValueKind::Constant, 4e8),
            })
            .collect();
        // Never at a step's own time, which Prometheus 2 and 3 count to different ranges.
        let offset_ms = 100 + (random.next_u64() % (INTERVAL_MS as u64 - 200)) as i64;
        let restarts_at =
            random.one_in(RESTARTED).then(|| (random.next_u64() % extent.rounds.max(1) as u64) as usize);
        Self {
            labels: labels(number),
            values,
            observed: [0.0; BOUNDS.len()],
            base: vec![0.0; COUNTERS],
            random,
            next_ms: extent.start_ms + offset_ms,
            restarts_at,
            round: 0,
        }
    }

    /// Its series with so many samples more.
    pub fn scrapes(&mut self, count: usize) -> Vec<TimeSeries> {
        let series = |labels: &Vec<Label>| TimeSeries {
            labels: labels.clone(),
            samples: Vec::with_capacity(count),
            ..TimeSeries::default()
        };
        let mut all: Vec<TimeSeries> = self.labels.iter().map(series).collect();
        for _ in 0..count {
            self.scrape(&mut all);
        }
        all
    }

    fn scrape(&mut self, all: &mut [TimeSeries]) {
        let late = if self.random.one_in(LATE.0) { 1 + self.random.next_u64() % LATE.1 } else { 0 };
        let timestamp = self.next_ms + late as i64;
        let restarts = self.restarts_at == Some(self.round);
        let (own, buckets) = all.split_at_mut(self.values.len());
        for (at, (series, stream)) in own.iter_mut().zip(&mut self.values).enumerate() {
            let mut value = stream.advance();
            if let Some(base) = self.base.get_mut(at) {
                if restarts {
                    *base = value;
                }
                value -= *base;
            }
            series.samples.push(Sample { value, timestamp });
        }
        if restarts {
            self.observed = [0.0; BOUNDS.len()];
        }
        let mut sum = 0.0;
        for (series, observed) in buckets.iter_mut().zip(&mut self.observed) {
            *observed += (self.random.next_u64() % 8) as f64;
            sum += *observed;
            series.samples.push(Sample { value: sum, timestamp });
        }
        self.next_ms += INTERVAL_MS;
        self.round += 1;
    }
}

/// The labels of all series of an instance, names ascending.
fn labels(number: usize) -> Vec<Vec<Label>> {
    let instance = format!("10.20.{}.{}:9100", number / 250, number % 250);
    let (job, rack) = (format!("job-{}", number % JOBS), format!("rack-{}", number / RACK_INSTANCES));
    let of = |name: &str, own: &[(&str, &str)]| {
        let all = [("__name__", name), ("instance", &instance), ("job", &job), ("rack", &rack)];
        let mut labels: Vec<Label> = all
            .iter()
            .chain(own)
            .map(|(name, value)| Label { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        labels.sort_by(|left, right| left.name.cmp(&right.name));
        labels
    };
    let mut all = Vec::with_capacity(INSTANCE_SERIES);
    for path in 0..PATHS {
        for code in CODES {
            for method in METHODS {
                let path = format!("/api/v1/resource-{path}");
                all.push(of("requests_total", &[("path", &path), ("code", code), ("method", method)]));
            }
        }
    }
    for name in ["memory_bytes", "limit_bytes"] {
        for container in 0..CONTAINERS {
            all.push(of(name, &[("container", &format!("container-{container}"))]));
        }
    }
    all.extend(BOUNDS.iter().map(|bound| of("latency_seconds_bucket", &[("le", bound)])));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { instances: 40, rounds: 12, start_ms: 1_000_000 };

    #[test]
    fn an_instance_has_the_same_samples_however_they_are_asked_for() {
        let whole = Instance::new(3, &EXTENT).scrapes(12);
        let mut instance = Instance::new(3, &EXTENT);
        let (first, then) = (instance.scrapes(5), instance.scrapes(7));
        assert_eq!(whole.len(), INSTANCE_SERIES);
        for (whole, (first, then)) in whole.iter().zip(first.iter().zip(&then)) {
            assert_eq!(whole.labels, first.labels);
            assert_eq!(whole.samples, [&first.samples[..], &then.samples].concat());
        }
    }

    #[test]
    fn no_sample_is_at_a_step_s_own_time_and_all_are_within_the_extent() {
        for number in 0..EXTENT.instances {
            for series in Instance::new(number, &EXTENT).scrapes(EXTENT.rounds) {
                for sample in series.samples {
                    let at_ms = sample.timestamp - EXTENT.start_ms;
                    assert!(at_ms % 1000 != 0 || at_ms % INTERVAL_MS != 0, "{at_ms}");
                    assert!(sample.timestamp < EXTENT.end_ms());
                }
            }
        }
    }

    #[test]
    fn buckets_are_cumulative() {
        let all = Instance::new(1, &EXTENT).scrapes(4);
        let buckets = &all[INSTANCE_SERIES - BOUNDS.len()..];
        assert!(buckets.windows(2).all(|pair| pair[0].samples[3].value <= pair[1].samples[3].value));
    }
}
