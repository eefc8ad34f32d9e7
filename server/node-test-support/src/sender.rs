//! A client that writes as agents do, and remembers what it was answered: new series all the time, odd
//! values, native histograms, exemplars, both versions, late requests, retries of what a crash left unanswered,
//! and what is stored already sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use silverback::api::ingest::remote_write::Version;
use silverback_model::STALE_NAN_BITS;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::home::{NodeProcess, connect};
use silverback_test_support::http::{Answer, request, try_read_answer};
use silverback_test_support::random::Random;

use crate::histograms::histogram;
use crate::ledger::{Sent, SentExemplar, Verdict, compare};
use crate::request::{PATH, Series, VERSIONS, body, headers};
use crate::written::{READ_HEADERS, frames_of, histogram_bits, query, read_body, series_of};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A new series in one of so many requests. Requests are small, so that the log outgrows what the
/// shards hold, and is started over, again and again.
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

/// Of so many series one has native histograms beside floats, and two have nothing but histograms.
const SERIES_PER_HISTOGRAMS: usize = 10;
/// Acknowledged requests that may be sent again, of all that there were.
const REMEMBERED: usize = 16;
/// One of so many series of a request has an exemplar, by default: no series gets more than it may keep.
const SERIES_PER_EXEMPLAR: u64 = 100;

/// Long enough that the test's own work leaves the node its cores.
const PAUSE: Duration = Duration::from_millis(1);

/// One client, the only one to write its series.
pub struct Sender {
    name: String,
    start_ms: i64,
    random: Random,
    /// The samples of each series.
    sent: Vec<Vec<Sent>>,
    /// The exemplars by their traces.
    exemplars: BTreeMap<String, SentExemplar>,
    /// What is not answered yet.
    pending: Option<Sending>,
    /// What is sent late.
    held_back: Option<Sending>,
    /// Some that were acknowledged.
    acknowledged: Vec<Sending>,
    /// One of so many series of a request has an exemplar.
    series_per_exemplar: u64,
    /// What the node refused though it must not.
    pub refused: Vec<String>,
    /// Native histograms that it has taken in a special way.
    pub histograms: HistogramTally,
}

/// Native histograms that were acknowledged, ...
#[derive(Debug, Clone, Copy, Default)]
pub struct HistogramTally {
    /// ... after a newer one of their series.
    pub late: usize,
    /// ... once more.
    pub again: usize,
}

impl HistogramTally {
    /// Of all of these together.
    pub fn of(senders: &[Sender]) -> Self {
        let tallies = senders.iter().map(|sender| sender.histograms);
        tallies.fold(Self::default(), |all, one| Self {
            late: all.late + one.late,
            again: all.again + one.again,
        })
    }
}

/// A request, and which samples are in it.
struct Sending {
    version: Version,
    body: Vec<u8>,
    /// Each series with its first sample in the request and their number.
    samples: Vec<(usize, usize, usize)>,
    /// The trace of its exemplar.
    trace: Option<String>,
}

impl Sender {
    /// One that has sent nothing yet, whose samples begin a day before `now_ms`.
    pub fn new(name: impl ToString, seed: u64, now_ms: i64) -> Self {
        Self {
            name: name.to_string(),
            start_ms: now_ms - DAY_MS,
            random: Random::new(seed),
            sent: Vec::new(),
            exemplars: BTreeMap::new(),
            pending: None,
            held_back: None,
            acknowledged: Vec::new(),
            series_per_exemplar: SERIES_PER_EXEMPLAR,
            refused: Vec::new(),
            histograms: HistogramTally::default(),
        }
    }

    /// The same, but one of so many series of a request has an exemplar.
    pub fn with_exemplar_in(self, series_per_exemplar: u64) -> Self {
        Self { series_per_exemplar, ..self }
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
                self.remember(sending);
            }
            // Come again later.
            Some(429 | 503) | None => self.pending = Some(sending),
            Some(status) => self.refused.push(format!("{status}: {}", answer.as_ref()?.text())),
        }
        answer.map(|_| ())
    }

    /// The very same samples again count as stored, however long ago they were.
    fn send_again(&mut self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        let of = self.acknowledged.len() as u64;
        let Some(at) = (of > 0).then(|| self.random.below(of) as usize) else { return Some(()) };
        let sending = &self.acknowledged[at];
        let answer = exchange(stream, sending)?;
        match answer.status {
            204 => self.histograms.again += self.sent_in(sending).filter(|sent| sent.is_histogram).count(),
            429 | 503 => {}
            status => self.refused.push(format!("sent again: {status}: {}", answer.text())),
        }
        Some(())
    }

    fn sent_in(&self, sending: &Sending) -> impl Iterator<Item = &Sent> {
        sending.samples.iter().flat_map(|&(series, first, count)| &self.sent[series][first..first + count])
    }

    fn acknowledge(&mut self, sending: &Sending) {
        for &(series, first, count) in &sending.samples {
            let (known, newer) = self.sent[series].split_at_mut(first + count);
            let is_late = newer.iter().any(|sent| sent.is_acknowledged && sent.is_histogram);
            for sample in &mut known[first..] {
                sample.is_acknowledged = true;
                self.histograms.late += usize::from(is_late && sample.is_histogram);
            }
        }
        if let Some(exemplar) = sending.trace.as_ref().and_then(|trace| self.exemplars.get_mut(trace)) {
            exemplar.is_acknowledged = true;
        }
    }

    fn remember(&mut self, sending: Sending) {
        if self.acknowledged.len() < REMEMBERED {
            return self.acknowledged.push(sending);
        }
        if self.random.once_in(4) {
            let at = self.random.below(REMEMBERED as u64) as usize;
            self.acknowledged[at] = sending;
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
        let mut trace = None;
        for number in chosen.into_iter().map(|number| number as usize) {
            let (first, count) = (self.sent[number].len(), 1 + self.random.below(2) as usize);
            let mut made = Series::new(self.labels(number));
            let is_of_histograms = self.is_of_histograms(number);
            for _ in 0..count {
                made = self.make_sample(number, is_of_histograms, made);
            }
            if trace.is_none() && self.random.once_in(self.series_per_exemplar) {
                let id = format!("{}-{}", self.name, self.exemplars.len());
                let (time_ms, value) = (self.sent[number][first].time_ms, self.exemplars.len() as f64 / 3.0);
                made = made.trace(&id, time_ms, value);
                let exemplar = SentExemplar { time_ms, bits: value.to_bits(), is_acknowledged: false };
                self.exemplars.insert(id.clone(), exemplar);
                trace = Some(id);
            }
            series.push(made);
            samples.push((number, first, count));
        }
        Sending { version, body: body(version, &series), samples, trace }
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

    /// Adds a sample to a series of a request: seconds after the last one, and minutes from time to time.
    fn make_sample(&mut self, series: usize, is_histogram: bool, of_request: Series) -> Series {
        let step_max_ms = if self.random.once_in(64) { 300_000 } else { 3000 };
        let step_ms = 1 + self.random.below(step_max_ms);
        let last_ms = self.sent[series].last().map_or(self.start_ms, |sample| sample.time_ms);
        let time_ms = last_ms + step_ms as i64;
        let (bits, of_request) = if is_histogram {
            let number = series / SERIES_PER_HISTOGRAMS;
            let (histogram, mut message) =
                (histogram(number, self.sent[series].len(), &mut self.random), Vec::new());
            let times = HistogramTimes { timestamp_ms: time_ms, ..HistogramTimes::default() };
            histogram.put_message(times, &mut message);
            (histogram_bits(&histogram), of_request.histogram(message))
        } else {
            let bits = self.value_bits();
            (bits, of_request.sample(time_ms, f64::from_bits(bits)))
        };
        self.sent[series].push(Sent { time_ms, bits, is_histogram, is_acknowledged: false });
        of_request
    }

    /// Whether a series has histograms in a request: version 2 has one kind in a message.
    fn is_of_histograms(&mut self, series: usize) -> bool {
        match series % SERIES_PER_HISTOGRAMS {
            7 => self.random.once_in(2),
            8 | 9 => true,
            _floats => false,
        }
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
        let mut verdict = compare(&self.sent, &series_of(&frames_of(&answer)));
        verdict.exemplars(&self.exemplars, &self.exemplars_of(node));
        verdict
    }

    /// Time and value of all exemplars that the node has of its series, by their traces.
    fn exemplars_of(&self, node: &mut NodeProcess) -> BTreeMap<String, (i64, u64)> {
        let (from_s, to_s) = (self.start_ms / 1000 - 1, (self.start_ms + 2 * DAY_MS) / 1000);
        let path = format!(
            "/api/v1/query_exemplars?query=%7Bsender=%22{}%22%7D&start={from_s}&end={to_s}",
            self.name
        );
        let answer = node.get(&path);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let body = answer.json();
        let series = body["data"].as_array().unwrap().iter();
        let exemplars = series.flat_map(|series| series["exemplars"].as_array().unwrap());
        let found = exemplars.map(|exemplar| {
            let trace = exemplar["labels"]["trace_id"].as_str().unwrap().to_owned();
            let time_ms = (exemplar["timestamp"].as_f64().unwrap() * 1000.0).round() as i64;
            let value = exemplar["value"].as_str().unwrap().parse::<f64>().unwrap();
            (trace, (time_ms, value.to_bits()))
        });
        found.collect()
    }
}

/// The answer to a request; nothing where the node is gone.
fn exchange(stream: &mut BufReader<TcpStream>, sending: &Sending) -> Option<Answer> {
    let request = request("POST", PATH, &headers(sending.version), &sending.body);
    stream.get_mut().write_all(&request).ok()?;
    try_read_answer(stream).ok().filter(|answer| !answer.is_cut)
}
