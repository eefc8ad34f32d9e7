//! What the requests of each second came to.

use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// One second.
#[derive(Debug, Clone)]
pub struct Second {
    /// Samples that were acknowledged.
    pub samples: u64,
    /// Requests that were not answered well.
    pub errors: u64,
    latency_us: Histogram<u64>,
}

impl Default for Second {
    fn default() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 120_000_000, 3).expect("bounds that are in order");
        Self { samples: 0, errors: 0, latency_us }
    }
}

/// Seconds since a begin.
#[derive(Debug, Clone)]
pub struct Seconds {
    began: Instant,
    all: Vec<Second>,
}

impl Seconds {
    /// None yet.
    pub fn since(began: Instant) -> Self {
        Self { began, all: Vec::new() }
    }

    /// Adds a request that was answered just now.
    pub fn answered(&mut self, took: Duration, samples: u64) {
        let second = self.now();
        second.samples += samples;
        second.latency_us.saturating_record(took.as_micros() as u64);
    }

    /// Adds one that wasn't, or not well.
    pub fn failed(&mut self) {
        self.now().errors += 1;
    }

    fn now(&mut self) -> &mut Second {
        let second = self.began.elapsed().as_secs() as usize;
        if self.all.len() <= second {
            self.all.resize(second + 1, Second::default());
        }
        &mut self.all[second]
    }

    /// Adds what another connection counted.
    pub fn merge(&mut self, other: &Self) {
        if self.all.len() < other.all.len() {
            self.all.resize(other.all.len(), Second::default());
        }
        for (second, other) in self.all.iter_mut().zip(&other.all) {
            second.samples += other.samples;
            second.errors += other.errors;
            second.latency_us.add(&other.latency_us).expect("the same bounds");
        }
    }

    /// The whole seconds from one to before another.
    pub fn between(&self, from: usize, to: usize) -> &[Second] {
        &self.all[from.min(self.all.len())..to.min(self.all.len())]
    }
}

impl Second {
    /// The latency that 99 % of its requests stayed below, in ms.
    pub fn p99_ms(&self) -> f64 {
        self.latency_us.value_at_quantile(0.99) as f64 / 1e3
    }

    /// Its slowest request, in ms.
    pub fn max_ms(&self) -> f64 {
        self.latency_us.max() as f64 / 1e3
    }
}

/// What a typical second of a stage came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Typical {
    /// Samples a second: the median.
    pub samples: u64,
    /// The median of the seconds' p99, in ms.
    pub p99_ms: f64,
}

impl Typical {
    /// Of these seconds; nothing of none.
    pub fn of(seconds: &[Second]) -> Self {
        let mut samples: Vec<u64> = seconds.iter().map(|second| second.samples).collect();
        let mut p99_ms: Vec<f64> = seconds.iter().map(Second::p99_ms).collect();
        samples.sort_unstable();
        p99_ms.sort_by(f64::total_cmp);
        let middle = seconds.len() / 2;
        Self {
            samples: samples.get(middle).copied().unwrap_or(0),
            p99_ms: p99_ms.get(middle).copied().unwrap_or(0.0),
        }
    }
}

impl fmt::Display for Typical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} k samples/s, p99 {:.1} ms", self.samples / 1000, self.p99_ms)
    }
}

/// A Markdown table of seconds, counted from `first`.
pub fn table(seconds: &[Second], first: i64) -> String {
    let mut text =
        String::from("| second | k samples | p99 ms | slowest ms | errors |\n|--:|--:|--:|--:|--:|\n");
    for (number, second) in (first..).zip(seconds) {
        let (samples, p99, max) = (second.samples / 1000, second.p99_ms(), second.max_ms());
        writeln!(text, "| {number} | {samples} | {p99:.1} | {max:.1} | {} |", second.errors)
            .expect("text takes text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typical_second_is_the_middle_one() {
        let second = |samples, took_us| {
            let mut second = Second { samples, ..Second::default() };
            second.latency_us.record(took_us).unwrap();
            second
        };
        let typical = Typical::of(&[second(5, 1000), second(100, 9000), second(7, 2000)]);
        assert_eq!((typical.samples, typical.p99_ms.round()), (7, 2.0));
        assert_eq!(Typical::of(&[]), Typical { samples: 0, p99_ms: 0.0 });
    }

    #[test]
    fn connections_add_up() {
        let began = Instant::now();
        let (mut one, mut other) = (Seconds::since(began), Seconds::since(began));
        one.answered(Duration::from_millis(1), 10);
        other.answered(Duration::from_millis(5), 20);
        other.failed();
        one.merge(&other);
        let all = &one.between(0, 1)[0];
        assert_eq!((all.samples, all.errors, all.max_ms().round()), (30, 1, 5.0));
    }
}
