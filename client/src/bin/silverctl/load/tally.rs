//! Adds up what connections report: over the whole run, and second by second. It knows no clock but the
//! one it is given, and sends nothing.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use silverback_load::figures::{Quantiles, ServerReport};
use silverback_load::usage::{Process, Usage};

use super::event::Event;

/// Different words of the receiver that are kept.
const SAID_MAX: usize = 3;

/// What was counted in a run. Each sample that was sent is in exactly one of `samples_written`,
/// `samples_refused`, `samples_failed` and `samples_unanswered`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Totals {
    /// Requests, each counted once however often it was sent.
    pub requests: u64,
    /// Samples in them.
    pub samples_sent: u64,
    /// Samples that were acknowledged.
    pub samples_written: u64,
    /// Samples that the receiver refused, by its reasons.
    pub samples_refused: BTreeMap<String, u64>,
    /// Samples of requests that were given up, by the last status.
    pub samples_failed: BTreeMap<String, u64>,
    /// Samples whose request had no answer when the run was ended.
    pub samples_unanswered: u64,
    /// Samples that were due in an open loop and never sent.
    pub samples_overdue: u64,
    /// Samples that were refused or given up in the warm-up, of which nothing else is counted.
    #[serde(default)]
    pub samples_not_written_in_warmup: u64,
    /// Requests that were sent again, by the status before.
    pub sent_again: BTreeMap<String, u64>,
    /// Some of the receiver's words.
    pub said: Vec<String>,
}

impl Totals {
    /// Samples that the receiver refused or that were given up.
    pub(super) fn samples_not_written(&self) -> u64 {
        self.samples_refused.values().chain(self.samples_failed.values()).sum()
    }

    /// Whether any sample that was sent is known not to be stored, in the warm-up too.
    pub(super) fn has_losses(&self) -> bool {
        self.samples_not_written() + self.samples_not_written_in_warmup > 0
    }
}

/// One second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Second {
    /// How long it was.
    pub span_s: f64,
    /// Acknowledged samples.
    pub samples_written: u64,
    /// Refused and given up.
    pub samples_not_written: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were sent again.
    pub sent_again: u64,
    /// Requests without an answer at its end.
    pub in_flight: u64,
    /// Of the requests that were answered; none were if it is missing.
    pub latency_ms: Option<Quantiles>,
    /// CPU time of the server.
    pub server_cpu_s: Option<f64>,
    /// Resident memory of the server at its end.
    pub server_resident_bytes: Option<u64>,
}

/// The counting of one run.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    totals: Totals,
    latency_us: Histogram<u64>,
    seconds: Vec<Second>,
    now: Second,
    /// Refused of what the second counts as written.
    refused_now: u64,
    now_latency_us: Histogram<u64>,
    now_started: Instant,
    requests_in_flight: u64,
    samples_in_flight: u64,
    server: Option<Server>,
}

/// The process under measurement.
#[derive(Debug)]
struct Server {
    /// Until it has ended.
    process: Option<Process>,
    at_start: Usage,
    latest: Usage,
}

/// All that was counted.
#[derive(Debug)]
pub(super) struct LoadResults {
    /// Over the run.
    pub totals: Totals,
    /// Of every answered request, in µs.
    pub latency_us: Histogram<u64>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// From the start of the measurement to its end.
    pub wall_s: f64,
    /// What the server spent.
    pub server: Option<ServerReport>,
}

impl Tally {
    /// Begins to count.
    pub(super) fn new(now: Instant, server: Option<Process>) -> io::Result<Self> {
        let server = match server {
            Some(process) => {
                let usage = process.usage()?;
                Some(Server { process: Some(process), at_start: usage, latest: usage })
            }
            None => None,
        };
        Ok(Self::begun(now, server))
    }

    fn begun(now: Instant, server: Option<Server>) -> Self {
        Self {
            started: now,
            totals: Totals::default(),
            latency_us: histogram(),
            seconds: Vec::new(),
            now: Second::default(),
            refused_now: 0,
            now_latency_us: histogram(),
            now_started: now,
            requests_in_flight: 0,
            samples_in_flight: 0,
            server,
        }
    }

    /// Counts from here on: what was before was warm-up. Requests in flight go on to be.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.end_second(now);
        let (requests, samples) = (self.requests_in_flight, self.samples_in_flight);
        let said = std::mem::take(&mut self.totals.said);
        let samples_not_written_in_warmup = self.totals.samples_not_written();
        let server = self.server.take().map(|server| Server { at_start: server.latest, ..server });
        *self = Self::begun(now, server);
        (self.requests_in_flight, self.samples_in_flight) = (requests, samples);
        let samples_sent = samples;
        self.totals =
            Totals { requests, samples_sent, samples_not_written_in_warmup, said, ..Totals::default() };
    }

    /// Counts an event.
    pub(super) fn add(&mut self, event: Event) {
        match event {
            Event::Sent { samples } => {
                self.requests_in_flight += 1;
                self.samples_in_flight += samples;
                self.totals.requests += 1;
                self.totals.samples_sent += samples;
            }
            Event::Answered { latencies, samples } => self.add_answered(&latencies, samples),
            Event::Refused { reason, samples } => {
                self.now.samples_not_written += samples;
                self.refused_now += samples;
                self.totals.samples_written = self.totals.samples_written.saturating_sub(samples);
                *self.totals.samples_refused.entry(reason).or_default() += samples;
            }
            Event::SentAgain { status } => {
                self.now.sent_again += 1;
                *self.totals.sent_again.entry(status).or_default() += 1;
            }
            Event::Said(words) => {
                if self.totals.said.len() < SAID_MAX && !self.totals.said.contains(&words) {
                    self.totals.said.push(words);
                }
            }
            Event::Failed { status, requests, samples } => {
                self.end(requests, samples);
                self.now.samples_not_written += samples;
                *self.totals.samples_failed.entry(status).or_default() += samples;
            }
        }
    }

    fn add_answered(&mut self, latencies: &[Duration], samples: u64) {
        self.end(latencies.len() as u64, samples);
        self.now.requests += latencies.len() as u64;
        self.now.samples_written += samples;
        self.totals.samples_written += samples;
        for latency in latencies {
            let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
            // Within what the histogram was made for.
            self.latency_us.saturating_record(us);
            self.now_latency_us.saturating_record(us);
        }
    }

    fn end(&mut self, requests: u64, samples: u64) {
        self.requests_in_flight = self.requests_in_flight.saturating_sub(requests);
        self.samples_in_flight = self.samples_in_flight.saturating_sub(samples);
    }

    /// Ends a second, and returns what it came to.
    pub(super) fn end_second(&mut self, now: Instant) -> &Second {
        let mut second = std::mem::take(&mut self.now);
        second.span_s = (now - self.now_started).as_secs_f64();
        second.in_flight = self.requests_in_flight;
        second.samples_written = second.samples_written.saturating_sub(std::mem::take(&mut self.refused_now));
        second.latency_ms =
            (!self.now_latency_us.is_empty()).then(|| Quantiles::of_micros(&self.now_latency_us));
        self.now_latency_us.reset();
        self.now_started = now;
        if let Some((cpu_s, usage)) = self.server.as_mut().and_then(Server::look) {
            second.server_cpu_s = Some(cpu_s);
            second.server_resident_bytes = Some(usage.resident_bytes);
        }
        self.seconds.push(second);
        &self.seconds[self.seconds.len() - 1]
    }

    /// All that was counted until now. `samples_overdue` were due and not sent.
    pub(super) fn finish(&mut self, now: Instant, samples_overdue: u64) -> LoadResults {
        self.end_second(now);
        let wall_s = (now - self.started).as_secs_f64();
        let (samples, samples_unanswered) = (self.totals.samples_written, self.samples_in_flight);
        let between =
            |server: &Server| ServerReport::between(&server.at_start, &server.latest, wall_s, samples);
        LoadResults {
            totals: Totals { samples_unanswered, samples_overdue, ..self.totals.clone() },
            latency_us: self.latency_us.clone(),
            seconds: std::mem::take(&mut self.seconds),
            wall_s,
            server: self.server.as_ref().map(between),
        }
    }
}

impl Server {
    /// The CPU time since the last look, and all that it used. Nothing once the process has ended:
    /// what it spent until then counts.
    fn look(&mut self) -> Option<(f64, Usage)> {
        let usage = self.process?.usage().ok().filter(|usage| usage.resident_bytes > 0);
        match usage {
            Some(usage) => {
                let before = std::mem::replace(&mut self.latest, usage);
                Some((usage.cpu_s - before.cpu_s, usage))
            }
            None => {
                self.process = None;
                None
            }
        }
    }
}

/// From 1 µs to an hour, with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("three digits are allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tally: &mut Tally, latency_ms: u64, samples: u64, refused: &[(&str, u64)]) {
        tally.add(Event::Answered { latencies: vec![Duration::from_millis(latency_ms)], samples });
        for (reason, samples) in refused {
            tally.add(Event::Refused { reason: (*reason).to_owned(), samples: *samples });
        }
    }

    fn failed(samples: u64) -> Event {
        Event::Failed { status: "503".to_owned(), requests: 1, samples }
    }

    #[test]
    fn every_sample_that_was_sent_is_accounted_for() {
        let start = Instant::now();
        let mut tally = Tally::new(start, None).expect("no process");
        (0..4).for_each(|_| tally.add(Event::Sent { samples: 100 }));
        answer(&mut tally, 2, 100, &[("duplicate", 3), ("too_old", 2)]);
        answer(&mut tally, 4, 100, &[("duplicate", 1)]);
        tally.add(failed(100));
        let second = tally.end_second(start + Duration::from_secs(1)).clone();
        assert_eq!((second.requests, second.samples_written, second.samples_not_written), (2, 194, 106));
        assert_eq!((second.in_flight, second.span_s), (1, 1.0));
        let counted = tally.finish(start + Duration::from_secs(2), 7);
        let totals = counted.totals;
        assert_eq!((totals.samples_sent, totals.samples_written, totals.samples_unanswered), (400, 194, 100));
        assert_eq!(totals.samples_refused, [("duplicate".to_owned(), 4), ("too_old".to_owned(), 2)].into());
        assert_eq!(totals.samples_failed, [("503".to_owned(), 100)].into());
        assert_eq!((totals.samples_overdue, counted.wall_s, counted.seconds.len()), (7, 2.0, 2));
        assert_eq!(counted.latency_us.len(), 2);
        assert_eq!(counted.seconds[1].latency_ms, None);
    }

    #[test]
    fn a_warm_up_leaves_only_what_is_under_way() {
        let start = Instant::now();
        let mut tally = Tally::new(start, None).expect("no process");
        (0..3).for_each(|_| tally.add(Event::Sent { samples: 10 }));
        answer(&mut tally, 2, 10, &[("duplicate", 4)]);
        tally.add(failed(10));
        tally.begin_anew(start + Duration::from_secs(1));
        answer(&mut tally, 9, 10, &[]);
        let counted = tally.finish(start + Duration::from_secs(2), 0);
        assert_eq!((counted.totals.samples_not_written_in_warmup, counted.totals.has_losses()), (14, true));
        assert_eq!(counted.totals.samples_not_written(), 0);
        assert_eq!((counted.totals.requests, counted.totals.samples_written), (1, 10));
        assert_eq!((counted.wall_s, counted.latency_us.len()), (1.0, 1));
    }

    #[test]
    fn a_server_that_ends_leaves_what_it_spent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let process = Process::open(child.id().cast_signed()).expect("it runs");
        let start = Instant::now();
        let mut tally = Tally::new(start, Some(process)).expect("it runs");
        assert!(tally.end_second(start + Duration::from_secs(1)).server_cpu_s.is_some());
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(tally.end_second(start + Duration::from_secs(2)).server_cpu_s.is_none());
        tally.begin_anew(start + Duration::from_secs(2));
        assert!(
            tally.finish(start + Duration::from_secs(3), 0).server.is_some_and(|server| server.cpu_s >= 0.0)
        );
    }

    #[test]
    fn the_receivers_words_are_kept_once_and_few() {
        let mut tally = Tally::new(Instant::now(), None).expect("no process");
        for n in 0..100 {
            tally.add(Event::Said(format!("no {}", n / 30)));
        }
        assert_eq!(tally.totals.said, ["no 0", "no 1", "no 2"]);
    }
}
