//! A store with one series that gets samples in any order, beside a map that has what it should have.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cell::rest::Without;
use crate::cell::series::LabelRef;
use silverback_model::SeriesId;

const HOUR_MS: i64 = 3_600_000;

/// A series and what it should hold.
struct Checked {
    store: SeriesStore,
    at: SeriesRef,
    expect: BTreeMap<i64, f64>,
}

impl Checked {
    fn new(first_ms: i64) -> Self {
        let mut store = SeriesStore::default();
        let first = Sample::new(first_ms, 0.0);
        let at = store.create(SeriesId(7), vec![LabelRef(1)].into(), first).unwrap();
        Self { store, at, expect: BTreeMap::from([(first_ms, 0.0)]) }
    }

    fn newest_ms(&self) -> i64 {
        *self.expect.last_key_value().unwrap().0
    }

    /// Appends, and looks at what becomes of it.
    fn append(&mut self, timestamp_ms: i64, value: f64, window_ms: i64) {
        let (newest_ms, stored) = (self.newest_ms(), self.expect.get(&timestamp_ms).copied());
        let expect = match stored {
            Some(stored) if stored == value => Ok(Appended::Already),
            Some(_) => Err(AppendError::Duplicate),
            None if timestamp_ms > newest_ms => Ok(Appended::Stored),
            None if newest_ms - timestamp_ms <= window_ms => Ok(Appended::StoredLate),
            None => Err(AppendError::OutOfOrder),
        };
        let appended = self.store.append(self.at, Sample::new(timestamp_ms, value), window_ms);
        assert_eq!(appended, expect, "{timestamp_ms} behind {newest_ms}");
        if let Ok(Appended::Stored | Appended::StoredLate) = appended {
            self.expect.insert(timestamp_ms, value);
        }
    }

    fn append_all(&mut self, times_ms: impl IntoIterator<Item = i64>) {
        times_ms.into_iter().for_each(|at| self.append(at, at as f64, i64::MAX));
    }

    /// All that it holds is what it should hold, in chunks by time that don't overlap and cross no range.
    fn check(&mut self) {
        let (at, count) = (self.at, self.store.samples(self.at));
        self.store.fold_late(at);
        assert_eq!(self.store.samples(at), count, "to fold is to lose and to double nothing");
        let chunks = [self.store.sealed(at), &[self.store.open_chunk(at)]].concat();
        let read = chunks.iter().flat_map(SealedChunk::samples).map(Result::unwrap);
        let read: Vec<(i64, f64)> = read.map(|sample| (sample.timestamp_ms, sample.value)).collect();
        assert_eq!(read, self.expect.iter().map(|(at, value)| (*at, *value)).collect::<Vec<_>>());
        for chunk in &chunks {
            let times = [chunk.min_timestamp_ms(), chunk.max_timestamp_ms()];
            let ranges = times.map(|at| at.div_euclid(CHUNK_RANGE_MS));
            assert_eq!(ranges[0], ranges[1], "{times:?}");
            let ends = [chunk.samples().next(), chunk.samples().last()].map(|end| end.unwrap().unwrap());
            assert_eq!(ends.map(|end| end.timestamp_ms), times, "what a chunk says of its times is so");
        }
        assert_eq!(self.store.size().sealed_chunks, chunks.len() - 1);
        assert_eq!(self.store.size().late_chunks, 0);
        let newest = self.store.newest(at);
        assert_eq!(
            (newest.timestamp_ms, newest.value),
            self.expect.last_key_value().map(|(t, v)| (*t, *v)).unwrap()
        );
    }

    fn overlaps(&self, min_ms: i64, max_ms: i64) -> bool {
        self.store.overlaps(self.at, min_ms, max_ms)
    }

    fn chunks(&mut self) -> usize {
        self.check();
        self.store.size().sealed_chunks + 1
    }
}

/// Scrapes every 15 s.
fn scrapes(from_ms: i64, count: i64) -> impl Iterator<Item = i64> {
    (0..count).map(move |i| from_ms + i * 15_000)
}

#[test]
fn a_backlog_that_comes_after_the_newest_sample_lies_between_the_others() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(15_000, 99));
    series.append_all(scrapes(4 * HOUR_MS, 10));
    series.append_all(scrapes(100 * 15_000, 240));
    assert!(series.overlaps(150 * 15_000, 150 * 15_000), "what isn't folded yet is found, too");
    assert_eq!(series.chunks(), 4, "a hundred, twice 120, and the ten that are newer");
}

#[test]
fn a_backlog_takes_one_look_into_a_chunk() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(HOUR_MS, 10));
    series.store.begin_piece();
    series.append_all(scrapes(15_000, 100));
    assert!(series.store.extra_work() < 2 * CHUNK_SAMPLES, "{}", series.store.extra_work());
    series.check();
}

#[test]
fn a_backlog_from_new_to_old_is_kept() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(HOUR_MS, 10));
    series.append_all(scrapes(15_000, 200).collect::<Vec<_>>().into_iter().rev());
    assert!(series.chunks() <= 5);
}

#[test]
fn a_series_that_comes_from_new_to_old_has_chunks_of_a_usual_size() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(-15_000 * 2000, 2000).collect::<Vec<_>>().into_iter().rev());
    let chunks = series.chunks();
    assert!(chunks <= 2000 / 60, "{chunks} chunks");
    series.check();
}

#[test]
fn whatever_order_late_samples_come_in_among_values_without_a_pattern_chunks_have_a_usual_size() {
    const SAMPLES: i64 = 3000;
    let noise = |at: i64| f64::from_bits((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
    let orders: [fn(i64) -> i64; 3] = [|i| i, |i| SAMPLES - 1 - i, |i| i * 1009 % SAMPLES];
    for order in orders {
        let mut series = Checked::new(-1);
        for i in 0..SAMPLES {
            series.append(i * 100, noise(i), i64::MAX);
        }
        let before = series.chunks();
        for at in (0..SAMPLES - 1).map(order).map(|i| i * 100 + 50) {
            series.append(at, noise(at), i64::MAX);
        }
        let chunks = series.chunks();
        assert!(chunks <= 4 * before, "{chunks} chunks, {before} before");
        series.check();
    }
}

#[test]
fn late_samples_among_others_leave_chunks_of_a_usual_size() {
    let mut series = Checked::new(0);
    for at in scrapes(15_000, 2400) {
        series.append(at, 1.0, i64::MAX);
        if at % (100 * 15_000) == 0 {
            series.append(at - 600_007, 2.0, i64::MAX);
        }
    }
    let chunks = series.chunks();
    assert!(chunks <= 2400 / 96 + 2, "{chunks} chunks");
}

#[test]
fn what_is_later_than_the_window_is_refused_and_what_is_stored_is_not() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(15_000, 1000));
    let newest_ms = series.newest_ms();
    series.append(newest_ms - HOUR_MS + 1, 1.0, HOUR_MS - 2);
    series.append(newest_ms - HOUR_MS + 1, 1.0, HOUR_MS - 1);
    series.append(newest_ms - 2, 1.0, 0);
    series.append(30_000, 30_000.0, 0);
    series.append(30_000, 1.0, HOUR_MS);
    series.check();
}

#[test]
fn late_samples_go_with_their_series_and_its_memory_comes_back() {
    let mut series = Checked::new(0);
    series.append_all(scrapes(HOUR_MS, 10));
    let before = series.store.size();
    series.append_all(scrapes(15_000, 3));
    assert_eq!(series.store.size().late_chunks, 1);
    assert!(series.store.size().series_bytes > before.series_bytes, "it is counted");
    series.store.remove(series.at);
    series.store.free(series.at);
    let after = series.store.size();
    assert_eq!((after.late_chunks, after.sealed_chunks), (0, 0));
}

#[test]
fn a_series_with_a_late_sample_is_not_one_of_a_single_sample() {
    let mut series = Checked::new(HOUR_MS);
    assert!(series.store.is_single(series.at));
    series.append(1, 1.0, i64::MAX);
    assert!(!series.store.is_single(series.at));
}

#[test]
fn the_work_of_a_late_sample_is_bounded_however_many_chunks_there_are() {
    let mut series = Checked::new(0);
    // A range of many chunks, and late samples at its two ends in turn.
    series.append_all((1..7_000).map(|i| i * 1000));
    for i in 0..20 {
        series.store.begin_piece();
        series.append(500 + 1000 * i, 1.0, i64::MAX);
        series.append(6_990_500 - 1000 * i, 1.0, i64::MAX);
        assert!(series.store.extra_work() < 10 * CHUNK_SAMPLES, "{}", series.store.extra_work());
    }
    series.check();
}

/// The bytes of a series of so many scrapes, of which each hundredth comes ten minutes late or in its turn.
fn bytes_of(count: i64, late_by_ms: i64) -> usize {
    let mut series = Checked::new(0);
    for (i, at) in (1..).zip(scrapes(15_000, count)) {
        let value = (i * i % 1013) as f64 / 7.0;
        let is_late = i % 100 == 50;
        if !is_late {
            series.append(at, value, HOUR_MS);
        }
        let due_ms = at - late_by_ms;
        if (due_ms / 15_000) % 100 == 50 && due_ms > 0 {
            series.append(due_ms, 1.5, HOUR_MS);
        }
    }
    let size = series.store.size();
    // What a label set of a usual length takes besides.
    size.series_bytes - series.store.series.bytes() - series.store.histories.bytes() + size.chunk_bytes
        - series.store.blocks.bytes()
        + 400
}

#[test]
fn one_late_sample_in_a_hundred_takes_a_tenth_more_memory_at_the_most() {
    for count in [240, 960, 2400, 6240] {
        let (in_order, late) = (bytes_of(count, 0), bytes_of(count, 600_000));
        assert!(late * 10 <= in_order * 11, "{count} scrapes: {in_order} and {late} bytes");
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// So long after the newest, in ms.
    Next(i64),
    /// So long before the newest, and the one after that.
    Late(i64, i64),
    /// One that is stored, again, with its value or another.
    Again(prop::sample::Index, bool),
    Fold,
    Without(i64, i64),
    DropBefore(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (1i64..60_000).prop_map(Step::Next),
        2 => (HOUR_MS..5 * HOUR_MS).prop_map(Step::Next),
        20 => (1i64..4 * HOUR_MS, 1i64..30_000).prop_map(|(before, step)| Step::Late(before, step)),
        10 => (1i64..40_000, 1i64..5).prop_map(|(before, step)| Step::Late(before, step)),
        10 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(of, same)| Step::Again(of, same)),
        2 => Just(Step::Fold),
        1 => (0i64..3 * HOUR_MS, 0i64..HOUR_MS).prop_map(|(before, long)| Step::Without(before, long)),
        1 => (HOUR_MS..6 * HOUR_MS).prop_map(Step::DropBefore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn samples_in_any_order_are_read_back_in_theirs(steps in vec(step(), 1..600)) {
        let mut series = Checked::new(-HOUR_MS);
        for (i, step) in (0..).zip(steps) {
            let (newest_ms, value) = (series.newest_ms(), f64::from(i));
            match step {
                Step::Next(after_ms) => series.append(newest_ms + after_ms, value, HOUR_MS),
                Step::Late(before_ms, step_ms) => {
                    series.append(newest_ms - before_ms, value, 2 * HOUR_MS);
                    series.append(newest_ms - before_ms + step_ms.min(before_ms), value, 2 * HOUR_MS);
                }
                Step::Again(of, is_same) => {
                    let (at, value) = series.expect.iter().nth(of.index(series.expect.len())).unwrap();
                    let (at, value) = (*at, if is_same { *value } else { -1.0 });
                    series.append(at, value, HOUR_MS);
                }
                Step::Fold => series.check(),
                Step::Without(before_ms, long_ms) => {
                    let range = newest_ms - before_ms..=newest_ms - before_ms + long_ms;
                    if let Without::Rest(rest) = series.store.without(series.at, &range) {
                        series.store.replace(series.at, rest.sealed, rest.open.bytes()).unwrap();
                        series.expect.retain(|at, _| !range.contains(at));
                    }
                }
                Step::DropBefore(before_ms) => {
                    series.store.drop_before(series.at, newest_ms - before_ms);
                    let oldest_ms = series.store.sealed(series.at).first().map(SealedChunk::min_timestamp_ms);
                    let oldest_ms = oldest_ms.unwrap_or(series.store.open_times(series.at).0);
                    series.expect.retain(|at, _| *at >= oldest_ms);
                }
            }
            let (any_ms, to_ms) = (newest_ms - 50_000, newest_ms - 20_000);
            let expect = series.expect.range(any_ms..=to_ms).next().is_some();
            prop_assert!(series.overlaps(any_ms, to_ms) || !expect, "what is there is not found");
        }
        series.check();
    }
}
