//! A store with one series that gets histograms in any order, beside a map that has what it should have.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cell::series::Retained;
use silverback_model::SeriesId;
use silverback_model::histogram::{Buckets, HistogramIter, HistogramKind, ResetHint, Span};

const HOUR_MS: i64 = 3_600_000;
const STEP_MS: i64 = 15_000;

/// A series and what it should hold.
struct Checked {
    store: SeriesStore,
    at: SeriesRef,
    expect: BTreeMap<i64, Histogram>,
}

/// A counter with so many observations in so many buckets.
fn counting(n: u64, buckets: u32) -> Histogram {
    let mut words = vec![0; buckets as usize];
    words[0] = n;
    Histogram {
        schema: 2,
        count: n * u64::from(buckets),
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive: Buckets { spans: vec![Span { offset: 0, length: buckets }], words },
        ..Histogram::default()
    }
}

fn float(n: u64) -> Histogram {
    let words = (0..4).map(|bucket| ((n + bucket) as f64 / 3.0).to_bits()).collect();
    Histogram {
        kind: HistogramKind::Float,
        count: (n as f64 * 4.0).to_bits(),
        sum_bits: (n as f64).to_bits(),
        positive: Buckets { spans: vec![Span { offset: 0, length: 4 }], words },
        ..Histogram::default()
    }
}

/// Of every kind: counters of both, some that fall, gauges, custom buckets, staleness markers.
fn any_kind(n: u64) -> Histogram {
    match n % 9 {
        0 => {
            Histogram::stale(if n.is_multiple_of(2) { HistogramKind::Integer } else { HistogramKind::Float })
        }
        1 | 2 => float(n),
        3 => Histogram { hint: ResetHint::Gauge, ..counting(n % 50, 3) },
        4 => Histogram { hint: ResetHint::Gauge, ..float(n % 50) },
        5 => Histogram { schema: -53, bounds: vec![0.5, 1.0], ..counting(n, 3) },
        6 => Histogram { hint: ResetHint::Reset, ..counting(n % 7, 2) },
        7 => Histogram { hint: ResetHint::NotReset, ..counting(n, 1 + n as u32 % 20) },
        _ => counting(n, 8),
    }
}

impl Checked {
    fn new(first_ms: i64, first: Histogram) -> Self {
        let mut store = SeriesStore::default();
        let at = store.create_with_histogram(SeriesId(7), vec![].into(), first_ms, &first).unwrap();
        Self { store, at, expect: BTreeMap::from([(first_ms, first)]) }
    }

    fn newest_ms(&self) -> i64 {
        *self.expect.last_key_value().unwrap().0
    }

    /// Appends, and looks at what becomes of it.
    fn append(&mut self, timestamp_ms: i64, histogram: &Histogram, window_ms: i64) {
        let (newest_ms, stored) = (self.newest_ms(), self.expect.get(&timestamp_ms));
        let expect = match stored {
            Some(stored) if stored.is_same(histogram) => Ok(Appended::Already),
            Some(_) => Err(AppendError::Duplicate),
            None if timestamp_ms > newest_ms => Ok(Appended::Stored),
            None if newest_ms - timestamp_ms <= window_ms => Ok(Appended::StoredLate),
            None => Err(AppendError::OutOfOrder),
        };
        let appended = self.store.append_histogram(self.at, timestamp_ms, histogram, window_ms);
        assert_eq!(appended, expect, "{timestamp_ms} behind {newest_ms}");
        if let Ok(Appended::Stored | Appended::StoredLate) = appended {
            self.expect.insert(timestamp_ms, histogram.clone());
        }
    }

    /// Counters that grow with time.
    fn append_all(&mut self, times_ms: impl IntoIterator<Item = i64>) {
        let uneven = |at: i64| at + at / STEP_MS * 7919 % 9973;
        let one = |at: i64| counting(uneven(at) as u64, 6);
        times_ms.into_iter().for_each(|at| self.append(at, &one(at), i64::MAX));
    }

    /// All that it holds is what it should hold, in chunks by time that don't overlap and cross no range; and it takes
    /// what is counted. Returns how many chunks there are.
    fn check(&self) -> usize {
        let (mut read, mut chunks, mut before_ms) = (Vec::new(), 0, i64::MIN);
        for chunk in self.store.histogram_chunks(self.at, i64::MIN, i64::MAX) {
            let (mut bytes, (min_ms, max_ms), from) = (Vec::new(), chunk.times(), read.len());
            chunk.put_bytes(&mut bytes);
            assert!(min_ms > before_ms && max_ms >= min_ms, "{min_ms} to {max_ms} behind {before_ms}");
            assert_eq!(min_ms.div_euclid(CHUNK_RANGE_MS), max_ms.div_euclid(CHUNK_RANGE_MS));
            let mut iter = HistogramIter::new(chunk.kind(), &bytes);
            while iter.samples_left() > 0 {
                let mut histogram = Histogram::default();
                read.push((iter.next_into(&mut histogram).unwrap(), histogram));
            }
            assert_eq!((read[from].0, read[read.len() - 1].0), (min_ms, max_ms), "it says its times");
            assert!(bytes.len() < 3 * HISTOGRAM_CHUNK_BYTES || read.len() - from < 30, "{}", bytes.len());
            (chunks, before_ms) = (chunks + 1, max_ms);
        }
        assert_eq!(read.len(), self.expect.len());
        for ((at, found), (expect_at, expect)) in read.iter().zip(&self.expect) {
            assert!(at == expect_at && found.is_same(expect), "at {at}: {found:?}\n{expect:?}");
            let is_gauge = |histogram: &Histogram| histogram.hint == ResetHint::Gauge;
            assert!(is_gauge(found) == is_gauge(expect), "at {at}");
        }
        let fresh = self.store.all_histograms(self.at).unwrap();
        assert_eq!(fresh.sealed.len() + 1, chunks);
        let own = self.store.histories.get(self.at.0).histograms.as_ref().unwrap();
        assert_eq!(self.store.histogram_bytes, own.bytes(), "what is counted is what it takes");
        chunks
    }

    fn without(&mut self, range_ms: std::ops::RangeInclusive<i64>) {
        let gone = self.expect.keys().filter(|at| range_ms.contains(at)).count();
        let without = self.store.without_histograms(self.at, &range_ms);
        assert_eq!(without.as_ref().map_or(0, |without| without.gone), gone);
        if let Some(without) = without {
            self.store.replace_histograms(self.at, without.rest).unwrap();
            self.expect.retain(|at, _| !range_ms.contains(at));
        }
    }
}

fn steps(from: i64, count: i64) -> impl DoubleEndedIterator<Item = i64> {
    (from..from + count).map(|step| step * STEP_MS)
}

/// In how many chunks so many scrapes lie that came in order.
fn chunks_in_order(count: i64) -> usize {
    let mut series = Checked::new(0, counting(0, 6));
    series.append_all(steps(1, count - 1));
    series.check()
}

#[test]
fn a_backlog_in_any_order_lies_in_about_as_many_chunks_as_one_in_order() {
    let (count, in_order) = (1200, chunks_in_order(1200));
    assert!(in_order >= 5, "{in_order}");
    let shuffled: Vec<i64> = (1..count).map(|i| i * 7919 % count * STEP_MS).collect();
    let orders: [Vec<i64>; 3] =
        [steps(1, count - 1).collect(), steps(1, count - 1).rev().collect(), shuffled];
    for order in orders {
        let mut series = Checked::new(0, counting(0, 6));
        series.append_all([count * STEP_MS]);
        series.append_all(order);
        let chunks = series.check();
        assert!(chunks <= 2 * in_order + 2, "{chunks} in place of {in_order}");
    }
}

#[test]
fn large_ones_that_come_late_lie_in_chunks_of_ten_and_more() {
    let mut series = Checked::new(0, counting(1, 800));
    let at = |i: i64| i * STEP_MS;
    let big = |i: i64| Histogram { hint: ResetHint::Gauge, ..counting(i as u64 * 977 % 50, 800) };
    series.append(at(400), &big(400), 0);
    for i in (1..400).map(|i| i * 151 % 400) {
        series.append(at(i), &big(i), i64::MAX);
    }
    let chunks = series.check();
    assert!((20..=45).contains(&chunks), "{chunks} of 401");
}

#[test]
fn what_is_too_late_or_contradicts_is_refused_and_what_is_stored_is_fine_however_old() {
    let mut series = Checked::new(0, counting(0, 6));
    series.append_all(steps(1, 500));
    let newest_ms = series.newest_ms();
    series.append(newest_ms - HOUR_MS - 1, &counting(3, 3), HOUR_MS);
    series.append(newest_ms - HOUR_MS + 1, &counting(3, 3), HOUR_MS);
    series.append(newest_ms - 1, &counting(3, 3), 0);
    series.append(0, &counting(0, 6), 0);
    let second = series.expect[&STEP_MS].clone();
    // The late one itself, the same and another, before and after others were looked up.
    for histogram in [counting(3, 3), counting(4, 3)] {
        series.append(newest_ms - HOUR_MS + 1, &histogram, 0);
        series.append(STEP_MS, &second, 0);
        series.append(newest_ms - HOUR_MS + 1, &histogram, 0);
    }
    series.check();
}

#[test]
fn many_that_are_looked_up_and_taken_in_among_them_keep_the_lookup_within_its_bounds() {
    let mut series = Checked::new(0, counting(0, 1));
    let stale = Histogram::stale(HistogramKind::Integer);
    series.append(20_000, &stale, 0);
    for at in (1..20_000).map(|i| i * 7919 % 20_000).take(9000) {
        series.append(at, &stale, i64::MAX);
        assert!(series.store.histogram_lookup.len(series.at) <= 4096);
    }
    series.check();
}

#[test]
fn late_ones_go_by_retention_and_deletion_as_others_do() {
    let mut series = Checked::new(0, counting(0, 6));
    series.append_all([6 * HOUR_MS]);
    series.append_all(steps(1, 1000).rev().step_by(3));
    series.without(100 * STEP_MS..=200 * STEP_MS);
    series.check();
    series.append_all(steps(90, 120));
    series.check();
    assert_eq!(series.store.drop_before(series.at, 2 * HOUR_MS), Retained::Kept);
    let oldest_ms = series.store.histogram_times(series.at).unwrap().0;
    assert_eq!(oldest_ms.div_euclid(CHUNK_RANGE_MS), 1, "whole chunks, of which none crosses a range");
    series.expect.retain(|at, _| *at >= oldest_ms);
    series.check();
    assert_eq!(series.store.drop_before(series.at, 6 * HOUR_MS + 1), Retained::Expired);
    series.check();
    series.store.remove(series.at);
    assert_eq!(series.store.histogram_bytes, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Append { at: i64, number: u64, window_ms: i64 },
    Delete { from: i64, len: i64 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..400_i64, 0..60_u64, prop_oneof![Just(i64::MAX), Just(60 * 60_000)])
            .prop_map(|(at, number, window_ms)| Step::Append { at, number, window_ms }),
        1 => (0..400_i64, 0..40_i64).prop_map(|(from, len)| Step::Delete { from, len }),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn any_histograms_in_any_order_are_kept_beside_each_other(steps in vec(step(), 1..300)) {
        let at_ms = |at: i64| at * 60_000;
        let mut series = Checked::new(at_ms(200), counting(1, 3));
        for step in steps {
            match step {
                Step::Append { at, number, window_ms } => {
                    series.append(at_ms(at), &any_kind(number), window_ms);
                }
                // One is left.
                Step::Delete { from, len } if !(from..=from + len).contains(&(series.newest_ms() / 60_000)) => {
                    series.without(at_ms(from)..=at_ms(from + len));
                }
                Step::Delete { .. } => {}
                Step::Restart => {
                    let chunks = series.store.all_histograms(series.at).unwrap();
                    series.store.replace_histograms(series.at, chunks).unwrap();
                }
            }
        }
        series.check();
    }
}

#[test]
fn scrapes_that_are_sent_again_look_into_each_chunk_once() {
    let mut store = SeriesStore::default();
    let made = (1..=50).map(|id| {
        let first = counting(0, 6);
        store.create_with_histogram(SeriesId(id), Vec::new().into(), 0, &first).unwrap()
    });
    let all: Vec<_> = made.collect();
    let scrape = |store: &mut SeriesStore, step: i64, expect| {
        for at in &all {
            let histogram = counting(step.unsigned_abs(), 6);
            let appended = store.append_histogram(*at, step * STEP_MS, &histogram, HOUR_MS);
            assert_eq!(appended, Ok(expect), "{at:?} {step}");
        }
    };
    (1..300).for_each(|step| scrape(&mut store, step, Appended::Stored));
    let chunks: usize = all.iter().map(|at| store.histogram_chunks(*at, i64::MIN, i64::MAX).count()).sum();
    assert!(chunks > 2 * all.len());
    (0..300).for_each(|step| scrape(&mut store, step, Appended::Already));
    assert_eq!(store.histogram_lookup.decoded, chunks);
}
