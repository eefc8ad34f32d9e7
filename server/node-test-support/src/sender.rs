//! A client that writes as agents do, and remembers what it was told: new series all the time, odd
//! values, both versions, late requests, retries of what a crash left unanswered.

use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use silverback::api::ingest::remote_write::Version;
use silverback_model::STALE_NAN_BITS;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::home::{NodeProcess, connect};
use silverback_test_support::http::{Answer, request, try_read_answer};
use silverback_test_support::random::Random;

use crate::ledger::{Sent, Verdict, compare};
use crate::request::{PATH, Series, VERSIONS, body, headers};
use crate::written::{READ_HEADERS, frames_of, query, read_body, series_of};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A new series in one of so many requests. Requests are small, so that the log outgrows what the
/// shards hold, and is begun anew, again and again.
const REQUESTS_PER_NEW_SERIES: u64 = 6;
/// In every request: drawn from the first ones, so that chunks fill up and are cut.
const HOT_SERIES: u64 = 2;
/// The first ones.
const HOT: u64 = 40;
/// In every request: drawn from all.
const ANY_SERIES: u64 = 3;
/// One of so many requests is sent after what comes after it, ...
const LATE_REQUESTS: u64 = 20;
/// ... so many requests later, about.
const LATE_BY: u64 = 10;

/// Long enough that the test's own work leaves the node its cores.
const PAUSE: Duration = Duration::from_millis(1);

/// One client, the only one to write its series.
pub struct Sender {
    name: String,
    start_ms: i64,
    random: Random,
    /// The samples of each series.
    sent: Vec<Vec<Sent>>,
    /// What is not answered yet.
    pending: Option<Sending>,
    /// What is sent late.
    held_back: Option<Sending>,
    /// The last one that was acknowledged.
    acknowledged: Option<Sending>,
    /// What the node refused though it must not.
    pub refused: Vec<String>,
}

/// A request, and which samples are in it.
struct Sending {
    version: Version,
    body: Vec<u8>,
    /// Each series with its first sample in the request and their number.
    samples: Vec<(usize, usize, usize)>,
}

impl Sender {
    /// One that has sent nothing yet, whose samples begin a day before `now_ms`.
    pub fn new(name: impl ToString, seed: u64, now_ms: i64) -> Self {
        Self {
            name: name.to_string(),
            start_ms: now_ms - DAY_MS,
            random: Random::new(seed),
            sent: Vec::new(),
            pending: None,
            held_back: None,
            acknowledged: None,
            refused: Vec::new(),
        }
    }

    /// How many series it has made.
    pub fn series(&self) -> usize {
        self.sent.len()
    }

    /// Sends until the node is gone.
    pub fn run(&mut self, address: SocketAddr) {
        let Ok(stream) = connect(address) else { return };
        let mut stream = BufReader::new(stream);
        // Half of what a crash left unanswered is never sent again.
        if self.random.once_in(2) {
            self.pending = None;
        }
        while self.send(&mut stream).is_some() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends what is pending, or something new, or what was acknowledged before once more. Nothing:
    /// the node is gone.
    fn send(&mut self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        if self.pending.is_none() && self.random.once_in(8) {
            self.send_again(stream)?;
        }
        let sending = self.pending.take().unwrap_or_else(|| self.next_request());
        let answer = exchange(stream, &sending);
        match answer.as_ref().map(|answer| answer.status) {
            Some(204) => {
                self.acknowledge(&sending);
                self.acknowledged = Some(sending);
            }
            // Come again later.
            Some(429 | 503) | None => self.pending = Some(sending),
            Some(status) => self.refused.push(format!("{status}: {}", answer.as_ref()?.text())),
        }
        answer.map(|_| ())
    }

    /// The very same samples again count as stored.
    fn send_again(&mut self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let Some(sending) = &self.acknowledged else { return Some(()) };
        let answer = exchange(stream, sending)?;
        if ![204, 429, 503].contains(&answer.status) {
            self.refused.push(format!("sent again: {}: {}", answer.status, answer.text()));
        }
        Some(())
    }

    fn acknowledge(&mut self, sending: &Sending) {
        for &(series, first, count) in &sending.samples {
            for sample in &mut self.sent[series][first..first + count] {
                sample.is_acknowledged = true;
            }
        }
    }

    /// A new request, or one that was held back.
    fn next_request(&mut self) -> Sending {
        match self.held_back.take_if(|_| self.random.once_in(LATE_BY)) {
            Some(late) => return late,
            None if self.held_back.is_none() && self.random.once_in(LATE_REQUESTS) => {
                self.held_back = Some(self.make_request());
            }
            None => {}
        }
        self.make_request()
    }

    fn make_request(&mut self) -> Sending {
        let known = self.sent.len() as u64;
        let mut chosen = BTreeSet::new();
        if known == 0 || self.random.once_in(REQUESTS_PER_NEW_SERIES) {
            chosen.insert(known);
            self.sent.push(Vec::new());
        }
        let known = self.sent.len() as u64;
        chosen.extend((0..HOT_SERIES).map(|_| self.random.below(known.min(HOT))));
        chosen.extend((0..ANY_SERIES).map(|_| self.random.below(known)));
        let version = VERSIONS[self.random.below(2) as usize];
        let (mut series, mut samples) = (Vec::new(), Vec::new());
        for number in chosen.into_iter().map(|number| number as usize) {
            let (first, count) = (self.sent[number].len(), 1 + self.random.below(2) as usize);
            (0..count).for_each(|_| self.make_sample(number));
            let labelled = Series::new(self.labels(number));
            let made = self.sent[number][first..].iter();
            series.push(made.fold(labelled, |s, made| s.sample(made.time_ms, f64::from_bits(made.bits))));
            samples.push((number, first, count));
        }
        Sending { version, body: body(version, &series), samples }
    }

    fn labels(&self, number: usize) -> [(String, String); 4] {
        let metric = format!("metric_{}", number % 50);
        let labels = [("__name__", metric), ("i", number.to_string())];
        let labels = labels
            .into_iter()
            .chain([("pod", format!("{}-pod-{}", self.name, number / 50)), ("sender", self.name.clone())]);
        let labels: Vec<_> = labels.map(|(name, value)| (name.to_owned(), value)).collect();
        labels.try_into().unwrap()
    }

    /// Seconds apart, and minutes from time to time.
    fn make_sample(&mut self, series: usize) {
        let step_max_ms = if self.random.once_in(64) { 300_000 } else { 3000 };
        let step_ms = 1 + self.random.below(step_max_ms);
        let last_ms = self.sent[series].last().map_or(self.start_ms, |sample| sample.time_ms);
        let (time_ms, bits) = (last_ms + step_ms as i64, self.value_bits());
        self.sent[series].push(Sent { time_ms, bits, is_acknowledged: false });
    }

    fn value_bits(&mut self) -> u64 {
        let bits = self.random.next();
        match self.random.below(8) {
            0 => STALE_NAN_BITS,
            1 => f64::NAN.to_bits() | (bits & 0xffff_ffff),
            2 => bits,
            3 => (-0.0f64).to_bits(),
            4 => f64::INFINITY.to_bits(),
            5 => ((bits % 1000) as f64).to_bits(),
            _ => ((bits % 1_000_000) as f64 / 1000.0).to_bits(),
        }
    }

    /// Reads all of its series back and holds them against what it sent.
    pub fn compare(&self, node: &mut NodeProcess) -> Verdict {
        let query = query(&[("sender", Type::Eq, &self.name)], (i64::MIN, i64::MAX));
        let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(vec![query], &[1]));
        compare(&self.sent, &series_of(&frames_of(&answer)))
    }
}

/// The answer to a request; nothing where the node is gone.
fn exchange(stream: &mut BufReader<TcpStream>, sending: &Sending) -> Option<Answer> {
    let request = request("POST", PATH, &headers(sending.version), &sending.body);
    stream.get_mut().write_all(&request).ok()?;
    try_read_answer(stream).ok().filter(|answer| !answer.is_cut)
}
