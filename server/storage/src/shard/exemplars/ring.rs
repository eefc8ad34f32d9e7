//! A bounded number of exemplars: each series' own in the order of time, and all of them in the order in which they
//! came, by which the oldest arrival makes room for a new one. Knows series by their refs alone.
//!
//! Every operation takes the logarithm of what is held, whatever is late or is at the same time; that a series goes
//! takes as many of them as it may have.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::cell::heap::heap_bytes;
use silverback_model::limits::SERIES_EXEMPLARS_MAX;
use silverback_model::{Exemplar, ExemplarRejected, LabelBlock, SeriesRef};

/// So many make room at one go: what a smaller bound leaves goes with the next ones.
const EVICTED_MAX: usize = 64;

/// Places of a tree's node.
const NODE_PLACES: usize = 11;
/// What an exemplar takes in the two trees: places of about 48 bytes, of which half to two thirds are used.
const PLACE_BYTES: usize = 2 * heap_bytes(NODE_PLACES * 48 + 16) / (NODE_PLACES * 3 / 5);
/// Beside the labels, in their own allocation: two counts of references.
const SHARED_BYTES: usize = 16;

/// Exemplars of a shard's series.
#[derive(Debug)]
pub(crate) struct ExemplarRing {
    by_series: BTreeMap<StoredExemplar, ExemplarNumber>,
    by_arrival: BTreeMap<ExemplarNumber, StoredExemplar>,
    /// How many each series has that has one.
    counts: HashMap<SeriesRef, u32>,
    next: ExemplarNumber,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
    evicted: u64,
}

/// The place of an exemplar among all that came since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExemplarNumber(u64);

/// An exemplar as it is kept; both trees share its labels.
#[derive(Debug, Clone)]
pub(crate) struct StoredExemplar {
    /// Whose.
    pub(crate) series: SeriesRef,
    timestamp_ms: i64,
    value: f64,
    labels: Arc<[u8]>,
}

/// What became of an exemplar that is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is kept now.
    Stored,
    /// It was kept already.
    Already,
}

impl StoredExemplar {
    fn new(series: SeriesRef, exemplar: &Exemplar<'_>) -> Self {
        let Exemplar { timestamp_ms, value, labels } = *exemplar;
        Self { series, timestamp_ms, value, labels: labels.0.into() }
    }

    /// Before all exemplars of a series from a time on.
    fn before(series: SeriesRef, timestamp_ms: i64) -> Self {
        // The first one in the order of all doubles.
        let value = f64::from_bits(u64::MAX);
        Self { series, timestamp_ms, value, labels: Arc::default() }
    }

    /// As the outside knows it.
    pub(crate) fn exemplar(&self) -> Exemplar<'_> {
        let Self { timestamp_ms, value, ref labels, .. } = *self;
        Exemplar { timestamp_ms, value, labels: LabelBlock(labels) }
    }

    fn bytes(&self) -> usize {
        PLACE_BYTES + heap_bytes(SHARED_BYTES + self.labels.len())
    }
}

impl Ord for StoredExemplar {
    fn cmp(&self, other: &Self) -> Ordering {
        self.series.cmp(&other.series).then_with(|| self.exemplar().order(&other.exemplar()))
    }
}

impl PartialOrd for StoredExemplar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StoredExemplar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StoredExemplar {}

impl Default for ExemplarRing {
    /// Without bounds, until they are set.
    fn default() -> Self {
        Self {
            by_series: BTreeMap::new(),
            by_arrival: BTreeMap::new(),
            counts: HashMap::new(),
            next: ExemplarNumber::default(),
            bytes: 0,
            count_max: usize::MAX,
            bytes_max: usize::MAX,
            evicted: 0,
        }
    }
}

impl ExemplarRing {
    /// Keeps at most so many from now on.
    pub(crate) fn set_count_max(&mut self, count_max: usize) {
        self.count_max = count_max;
        self.make_room();
    }

    /// Keeps what takes at most so many bytes from now on.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.make_room();
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.by_series.len()
    }

    /// How many made room for others since the start.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Series that have one.
    pub(crate) fn series_count(&self) -> usize {
        self.counts.len()
    }

    /// What they take.
    pub(crate) fn bytes(&self) -> usize {
        // A byte of each place is the map's own.
        self.bytes + heap_bytes(self.counts.capacity() * (size_of::<(SeriesRef, u32)>() + 1))
    }

    /// Whether none is kept, whatever comes.
    pub(crate) fn is_disabled(&self) -> bool {
        self.count_max == 0
    }

    /// Takes in a series' exemplar, which may be older than its newest one, but not by more than `window_ms`.
    pub(crate) fn put(
        &mut self,
        series: SeriesRef,
        exemplar: &Exemplar<'_>,
        window_ms: i64,
    ) -> Result<Put, ExemplarRejected> {
        if self.is_disabled() {
            return Err(ExemplarRejected::Disabled);
        }
        let newest_ms = self.newest_ms(series);
        if newest_ms.is_some_and(|newest| exemplar.timestamp_ms < newest.saturating_sub(window_ms)) {
            return Err(ExemplarRejected::OutOfOrder);
        }
        Ok(self.put_back(series, exemplar))
    }

    /// The same of one that was accepted before: by this shard's log, or by another shard.
    pub(crate) fn put_back(&mut self, series: SeriesRef, exemplar: &Exemplar<'_>) -> Put {
        let kept = StoredExemplar::new(series, exemplar);
        if self.by_series.contains_key(&kept) {
            return Put::Already;
        }
        self.bytes += kept.bytes();
        self.by_arrival.insert(self.next, kept.clone());
        self.by_series.insert(kept, self.next);
        self.next.0 += 1;
        let count = self.counts.entry(series).or_default();
        *count += 1;
        if *count > SERIES_EXEMPLARS_MAX {
            self.remove_oldest_of(series);
            self.evicted += 1;
        }
        self.make_room();
        Put::Stored
    }

    fn remove_oldest_of(&mut self, series: SeriesRef) -> bool {
        let oldest = self.of_series(series, (i64::MIN, i64::MAX), None).next().cloned();
        oldest.inspect(|oldest| self.remove(oldest)).is_some()
    }

    fn newest_ms(&self, series: SeriesRef) -> Option<i64> {
        let newest = self.by_series.range(..StoredExemplar::before(after(series), i64::MIN)).next_back();
        newest.filter(|(kept, _)| kept.series == series).map(|(kept, _)| kept.timestamp_ms)
    }

    /// Lets what came first go until the rest is within the bounds.
    fn make_room(&mut self) {
        for _ in 0..EVICTED_MAX {
            let is_full = self.count() > self.count_max || self.bytes > self.bytes_max;
            let oldest = self.by_arrival.first_key_value().filter(|_| is_full);
            let Some(oldest) = oldest.map(|(_, oldest)| oldest.clone()) else { return };
            self.remove(&oldest);
            self.evicted += 1;
        }
    }

    /// Lets the exemplars of a series go.
    pub(crate) fn forget(&mut self, series: SeriesRef) {
        while self.remove_oldest_of(series) {}
    }

    /// Lets one go, if it is still kept.
    pub(crate) fn remove(&mut self, kept: &StoredExemplar) {
        if let Some(arrival) = self.by_series.remove(kept) {
            self.by_arrival.remove(&arrival);
            self.bytes -= kept.bytes();
            match self.counts.get_mut(&kept.series) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) | None => drop(self.counts.remove(&kept.series)),
            }
        }
    }

    /// Where the next one will be among all that came.
    pub(crate) fn end(&self) -> ExemplarNumber {
        self.next
    }

    /// Those that came from `from` on and before `end`, in that order.
    pub(crate) fn arrived(
        &self,
        from: ExemplarNumber,
        end: ExemplarNumber,
    ) -> impl Iterator<Item = (ExemplarNumber, &StoredExemplar)> {
        self.by_arrival.range(from..end.max(from)).map(|(arrival, kept)| (*arrival, kept))
    }

    /// The first series with an exemplar, of those whose refs are not below `from`.
    pub(crate) fn series_from(&self, from: SeriesRef) -> Option<SeriesRef> {
        let from = Bound::Included(StoredExemplar::before(from, i64::MIN));
        self.by_series.range((from, Bound::Unbounded)).next().map(|(kept, _)| kept.series)
    }

    /// A series' exemplars up to `max_ms`, in their order: those after `passed`, or from `min_ms` on.
    pub(crate) fn of_series(
        &self,
        series: SeriesRef,
        (min_ms, max_ms): (i64, i64),
        passed: Option<&StoredExemplar>,
    ) -> impl Iterator<Item = &StoredExemplar> {
        let from = match passed {
            Some(passed) => Bound::Excluded(passed.clone()),
            None => Bound::Included(StoredExemplar::before(series, min_ms)),
        };
        let behind = self.by_series.range((from, Bound::Unbounded)).map(|(kept, _)| kept);
        behind.take_while(move |kept| kept.series == series && kept.timestamp_ms <= max_ms)
    }

    /// Whether a series has an exemplar in a range.
    pub(crate) fn has_any(&self, series: SeriesRef, range_ms: (i64, i64)) -> bool {
        self.of_series(series, range_ms, None).next().is_some()
    }
}

impl ExemplarNumber {
    /// The place after.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

fn after(series: SeriesRef) -> SeriesRef {
    // No series has the highest ref.
    SeriesRef(series.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: i64 = 3_600_000;
    const A: SeriesRef = SeriesRef(3);
    const B: SeriesRef = SeriesRef(4);

    fn exemplar(timestamp_ms: i64, value: f64) -> Exemplar<'static> {
        Exemplar { timestamp_ms, value, labels: LabelBlock(b"") }
    }

    fn put(
        ring: &mut ExemplarRing,
        series: SeriesRef,
        timestamp_ms: i64,
        value: f64,
    ) -> Result<Put, ExemplarRejected> {
        ring.put(series, &exemplar(timestamp_ms, value), WINDOW_MS)
    }

    /// Times and values of a series' exemplars.
    fn of(ring: &ExemplarRing, series: SeriesRef) -> Vec<(i64, f64)> {
        let all = ring.of_series(series, (i64::MIN, i64::MAX), None);
        all.map(|kept| (kept.timestamp_ms, kept.value)).collect()
    }

    #[test]
    fn a_series_exemplars_stand_in_the_order_of_time_whatever_the_order_in_which_they_came() {
        let mut ring = ExemplarRing::default();
        for (time, value) in [(50, 1.0), (70, 2.0), (60, 3.0), (70, 1.0), (10, 4.0)] {
            assert_eq!(put(&mut ring, A, time, value), Ok(Put::Stored));
        }
        put(&mut ring, B, 55, 9.0).unwrap();
        assert_eq!(of(&ring, A), [(10, 4.0), (50, 1.0), (60, 3.0), (70, 1.0), (70, 2.0)]);
        let between: Vec<_> = ring.of_series(A, (50, 60), None).cloned().collect();
        assert_eq!(between.iter().map(|kept| kept.timestamp_ms).collect::<Vec<_>>(), [50, 60]);
        let rest = ring.of_series(A, (50, 70), Some(&between[1]));
        assert_eq!(rest.map(|kept| kept.value).collect::<Vec<_>>(), [1.0, 2.0]);
        assert!(ring.has_any(B, (55, 55)) && !ring.has_any(B, (56, 90)));
    }

    #[test]
    fn the_same_again_is_accepted_and_kept_once_wherever_it_lies() {
        let mut ring = ExemplarRing::default();
        for time in [10, 20, 30] {
            put(&mut ring, A, time, f64::NAN).unwrap();
        }
        let bytes = ring.bytes();
        for time in [10, 20, 30] {
            assert_eq!(put(&mut ring, A, time, f64::NAN), Ok(Put::Already));
        }
        assert_eq!((ring.count(), ring.bytes()), (3, bytes));
        assert_eq!(put(&mut ring, B, 10, f64::NAN), Ok(Put::Stored), "another series'");
    }

    #[test]
    fn one_that_is_older_than_the_window_is_refused_by_its_own_series_newest() {
        let mut ring = ExemplarRing::default();
        put(&mut ring, A, WINDOW_MS + 100, 1.0).unwrap();
        assert_eq!(put(&mut ring, A, 99, 1.0), Err(ExemplarRejected::OutOfOrder));
        assert_eq!(put(&mut ring, A, 100, 1.0), Ok(Put::Stored));
        assert_eq!(put(&mut ring, B, 5, 1.0), Ok(Put::Stored));
        // Which is not asked of what was accepted before.
        assert_eq!(ring.put_back(A, &exemplar(7, 1.0)), Put::Stored);
    }

    #[test]
    fn what_came_first_goes_first_beyond_a_number_and_beyond_bytes() {
        let mut ring = ExemplarRing::default();
        ring.set_count_max(3);
        for time in [40, 10, 30, 20] {
            put(&mut ring, A, time, 0.0).unwrap();
        }
        assert_eq!(of(&ring, A), [(10, 0.0), (20, 0.0), (30, 0.0)]);
        let one = ring.bytes / 3;
        ring.set_bytes_max(2 * one);
        assert_eq!((of(&ring, A), ring.bytes), (vec![(20, 0.0), (30, 0.0)], 2 * one));
        ring.set_count_max(0);
        assert_eq!((ring.count(), ring.series_count(), ring.bytes), (0, 0, 0));
        assert_eq!(put(&mut ring, A, 1, 0.0), Err(ExemplarRejected::Disabled));
    }

    #[test]
    fn a_series_takes_its_exemplars_with_it_and_no_other_s() {
        let mut ring = ExemplarRing::default();
        (0..10)
            .for_each(|time| assert!(put(&mut ring, if time % 2 == 0 { A } else { B }, time, 0.0).is_ok()));
        ring.forget(A);
        assert_eq!((of(&ring, A).len(), of(&ring, B).len(), ring.count()), (0, 5, 5));
        assert_eq!((ring.series_from(SeriesRef(0)), ring.series_from(SeriesRef(5))), (Some(B), None));
        ring.forget(B);
        assert_eq!((ring.bytes, ring.by_arrival.len(), ring.series_count()), (0, 0, 0));
    }

    #[test]
    fn a_series_that_has_many_loses_its_own_oldest_and_nobody_else_s() {
        let mut ring = ExemplarRing::default();
        put(&mut ring, B, 1, 0.0).unwrap();
        let many = i64::from(SERIES_EXEMPLARS_MAX) + 5;
        (0..many).for_each(|time| assert!(put(&mut ring, A, time, 0.0).is_ok()));
        assert_eq!((of(&ring, A).len(), of(&ring, A)[0]), (SERIES_EXEMPLARS_MAX as usize, (5, 0.0)));
        assert_eq!((of(&ring, B).len(), ring.series_count()), (1, 2));
    }

    #[test]
    fn arrivals_are_walked_over_from_where_they_were_left() {
        let mut ring = ExemplarRing::default();
        (0..4).for_each(|time| assert!(put(&mut ring, A, 10 - time, 0.0).is_ok()));
        let end = ring.end();
        put(&mut ring, A, 99, 0.0).unwrap();
        let walk =
            |from, end| ring.arrived(from, end).map(|(at, kept)| (at, kept.timestamp_ms)).collect::<Vec<_>>();
        let first = walk(ExemplarNumber::default(), end);
        assert_eq!(first.iter().map(|(_, time)| *time).collect::<Vec<_>>(), [10, 9, 8, 7]);
        assert_eq!(walk(first[2].0.next(), ring.end()).len(), 2);
        assert!(walk(ring.end(), end).is_empty());
    }
}
