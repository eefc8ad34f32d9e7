//! What is scraped: series that come and go, and the samples that they send.

use silverback_model::{Labels, STALE_NAN_BITS, Sample};

use crate::histograms;
use crate::random::{Random, mixed};

/// One client's targets. Time goes forward in each of its series, but for some samples that come late.
#[derive(Debug)]
pub(crate) struct Fleet {
    client: usize,
    /// The series that send now: a window over all that ever will.
    first: u64,
    width: u64,
    newest_ms: Vec<i64>,
    retention_ms: i64,
    /// What is sent later than what was scraped after it.
    held_back: Vec<Scraped>,
    /// How many of that there may be.
    held_back_max: usize,
}

/// One of so many series sends native histograms.
const HISTOGRAMS_ONE_IN: u64 = 20;
/// One of so many samples comes late.
const LATE_ONE_IN: usize = 20;
/// One of so many has samples for a minute, in any order.
const BACKLOG_ONE_IN: usize = 512;
/// So many, at most.
const BACKLOG_MAX: usize = 250;
/// Series whose samples are held back at a time.
const HELD_BACK_MAX: usize = 100;

/// A series with some samples.
pub(crate) type Scraped = (Labels, Vec<Sample>);

impl Fleet {
    pub(crate) fn new(client: usize, width: usize, retention_ms: i64) -> Self {
        let (newest_ms, held_back) = (vec![i64::MIN; width], Vec::new());
        Self {
            client,
            first: 0,
            width: width as u64,
            newest_ms,
            retention_ms,
            held_back,
            held_back_max: HELD_BACK_MAX,
        }
    }

    /// One of which nothing comes late.
    pub(crate) fn in_order(self) -> Self {
        Self { held_back_max: 0, ..self }
    }

    /// Samples of some series, none younger than `now_ms`, each younger than those before; and of some that were held
    /// back.
    pub(crate) fn scrape(&mut self, random: &mut Random, now_ms: i64) -> Vec<Scraped> {
        let count = random.by_magnitude(self.width as usize);
        let begin = random.below(self.width as usize);
        let width = self.width as usize;
        let places = (0..count).map(|i| (begin + i) % width);
        let scraped: Vec<Scraped> =
            places.filter_map(|place| self.scrape_one(random, place, now_ms)).collect();
        let mut part = Vec::new();
        for one in scraped {
            let is_late = self.held_back.len() < self.held_back_max && random.one_in(LATE_ONE_IN);
            if is_late { self.held_back.push(one) } else { part.push(one) }
        }
        if random.one_in(4) {
            let left = random.below(self.held_back.len() + 1);
            part.extend(self.held_back.drain(left..));
        }
        part
    }

    fn scrape_one(&mut self, random: &mut Random, place: usize, now_ms: i64) -> Option<Scraped> {
        let now_ms = now_ms - self.lag_ms(place);
        let is_backlog =
            self.held_back_max > 0 && !self.has_histograms(place) && random.one_in(BACKLOG_ONE_IN);
        let samples = match is_backlog {
            true => random.within(1..BACKLOG_MAX),
            false if random.one_in(8) => random.within(1..6),
            false => 1,
        };
        let oldest_ms = (self.newest_ms[place].max(now_ms - 60_000) + 1).min(now_ms + 1);
        let step_ms = (now_ms - oldest_ms + 1) / samples as i64;
        if step_ms == 0 {
            return None;
        }
        let times = (0..samples as i64).map(|i| now_ms - (samples as i64 - 1 - i) * step_ms);
        self.newest_ms[place] = now_ms;
        let mut samples: Vec<Sample> = times.map(|at_ms| Sample::new(at_ms, value(random, place))).collect();
        if is_backlog {
            (1..samples.len()).for_each(|at| samples.swap(at, random.below(at + 1)));
        }
        Some((self.labels(place), samples))
    }

    /// Some series are sent when they are nearly too old: they expire again and again.
    fn lag_ms(&self, place: usize) -> i64 {
        let shape = self.shape(place);
        if shape.is_multiple_of(4) { self.retention_ms - (shape >> 40) as i64 % 30_000 } else { 0 }
    }

    /// The number of the series in a place: the window's lowest that falls on it.
    fn number(&self, place: usize) -> usize {
        let (first, width) = (self.first as usize, self.width as usize);
        first + (place + width - first % width) % width
    }

    /// What is drawn once for a series.
    fn shape(&self, place: usize) -> u64 {
        mixed(self.number(place) as u64 ^ (self.client as u64) << 32)
    }

    fn has_histograms(&self, place: usize) -> bool {
        (self.shape(place) >> 24).is_multiple_of(HISTOGRAMS_ONE_IN)
    }

    fn labels(&self, place: usize) -> Labels {
        let (number, shape) = (self.number(place), self.shape(place));
        let mut pairs = vec![
            ("__name__", format!("metric_{}", number % 7)),
            ("client", self.client.to_string()),
            ("pod", format!("pod-{number}")),
        ];
        if shape.is_multiple_of(3) {
            pairs.push(("image", "registry/image".repeat(1 + (shape >> 8) as usize % 8)));
        }
        if shape.is_multiple_of(5) {
            pairs.push(("zone", format!("zöne-{}", (shape >> 16) % 3)));
        }
        if self.has_histograms(place) {
            let (name, value) = histograms::LABEL;
            pairs.push((name, value.to_owned()));
        }
        Labels::from_pairs(pairs)
    }

    /// Some targets go for good, others come in their place.
    pub(crate) fn churn(&mut self, random: &mut Random) {
        for _ in 0..random.by_magnitude(self.width as usize) {
            let place = (self.first % self.width) as usize;
            self.newest_ms[place] = i64::MIN;
            self.first += 1;
        }
    }
}

/// Values of every kind that is coded in its own way.
fn value(random: &mut Random, place: usize) -> f64 {
    match random.below(10) {
        0 => f64::from_bits(random.next()),
        1 => f64::from_bits(STALE_NAN_BITS),
        2 => *random.pick(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, -1.0]),
        3 | 4 => random.by_magnitude(1 << 60) as f64,
        5 => random.below(1000) as f64 / 8.0,
        _ => place as f64,
    }
}

#[test]
fn a_series_time_goes_forward_but_for_late_samples_and_churn_brings_new_ones() {
    let (mut fleet, mut random) = (Fleet::new(0, 40, 3_600_000), Random::new(1));
    let mut newest = std::collections::BTreeMap::new();
    let (mut samples_sent, mut late) = (0, 0);
    for step in 0..200 {
        for (labels, mut samples) in fleet.scrape(&mut random, 1_000_000 + step * 10) {
            samples.sort_by_key(|sample| sample.timestamp_ms);
            let before = newest.entry(labels).or_insert(i64::MIN);
            for sample in samples {
                samples_sent += 1;
                late += usize::from(sample.timestamp_ms < *before);
                assert_ne!(sample.timestamp_ms, *before);
                *before = sample.timestamp_ms.max(*before);
            }
        }
        if step % 20 == 0 {
            fleet.churn(&mut random);
        }
    }
    assert!(newest.len() > 60, "{} series", newest.len());
    assert!((samples_sent / 50..samples_sent / 10).contains(&late), "{late} of {samples_sent} came late");
}
