//! What one or more connections counted of their requests and answers. It knows no connections and no clock.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::report::{MarkedLatencies, PhaseReport};
use crate::connection::Response;
use crate::figures::Quantiles;

const REFUSALS_KEPT: usize = 3;

/// What one or more connections counted.
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) samples_sent: u64,
    pub(super) samples_acked: u64,
    pub(super) answers: BTreeMap<String, u64>,
    pub(super) retries: u64,
    pub(super) resumed: u64,
    pub(super) refusals: Vec<String>,
    pub(super) latency_us: Histogram<u64>,
    pub(super) late_start_max: Duration,
    pub(super) marked: MarkedLatencies,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            requests: 0,
            samples_sent: 0,
            samples_acked: 0,
            answers: BTreeMap::new(),
            retries: 0,
            resumed: 0,
            refusals: Vec::new(),
            latency_us: Histogram::new(3).expect("three digits are allowed"),
            late_start_max: Duration::ZERO,
            marked: MarkedLatencies::default(),
        }
    }

    fn count(&mut self, answer: &str, excerpt: &str) {
        match self.answers.get_mut(answer) {
            Some(count) => *count += 1,
            None => {
                self.answers.insert(answer.to_owned(), 1);
            }
        }
        if !answer.starts_with('2') && self.refusals.len() < REFUSALS_KEPT {
            self.refusals.push(format!("{answer}: {excerpt}"));
        }
    }

    /// Counts what became of a request, and returns whether it is to be sent again.
    pub(super) fn answered(&mut self, samples: u32, answer: io::Result<Response>, acked: &AtomicU64) -> bool {
        match answer {
            Ok(answer) => {
                self.count(&answer.status.to_string(), &answer.excerpt);
                if answer.is_success() {
                    self.samples_acked += u64::from(samples);
                    acked.fetch_add(u64::from(samples), Ordering::Relaxed);
                }
                answer.asks_for_retry()
            }
            Err(error) => {
                self.count("broken", &error.to_string());
                true
            }
        }
    }

    /// Counts a request's latency.
    pub(super) fn took(&mut self, latency: Duration) {
        self.latency_us.record(latency.as_micros() as u64).expect("a histogram that grows by itself");
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.samples_sent += other.samples_sent;
        self.samples_acked += other.samples_acked;
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        self.retries += other.retries;
        self.resumed += other.resumed;
        self.refusals.extend(other.refusals);
        self.refusals.truncate(REFUSALS_KEPT);
        self.latency_us.add(&other.latency_us).expect("histograms that grow by themselves");
        self.late_start_max = self.late_start_max.max(other.late_start_max);
        self.marked.add(other.marked);
    }

    pub(super) fn into_report(self, wall_s: f64) -> PhaseReport {
        PhaseReport {
            requests: self.requests,
            samples_sent: self.samples_sent,
            samples_acked: self.samples_acked,
            answers: self.answers,
            retries: self.retries,
            resumed: self.resumed,
            refusals: self.refusals,
            wall_s,
            samples_per_s: self.samples_acked as f64 / wall_s.max(f64::MIN_POSITIVE),
            latency_ms: Quantiles::of_micros(&self.latency_us),
            late_start_max_ms: self.late_start_max.as_secs_f64() * 1e3,
            loader_cpu_s: 0.0,
            server: None,
            marked: Some(self.marked),
        }
    }
}
