//! Series that took a sample of a range of two hours after that was cut to a block, or while it was: what is in no block
//! yet. A block of its own takes them.
//!
//! A bit for each series and range, set where a part has such samples; one that was stored before sets it, too, and then
//! is written again. Where a marked series leaves the shard, of its range nothing is known any more: who asks has to count
//! what there is. After a start nobody has cut anything, and nothing is marked. Knows nothing of blocks.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::message::{PartSeries, UncutRange};
use crate::shard::Shard;
use crate::shard::append::TimeBounds;
use silverback_model::Sample;
use silverback_model::limits::CHUNK_RANGE_MS;

/// About what a marked series takes, in bytes.
const MARK_BYTES: usize = 2;
/// What a range takes beside its series.
const RANGE_BYTES: usize = 256;

/// The marks of a shard.
#[derive(Debug)]
pub(super) struct LateMarks {
    /// What is older is of a range that was cut, or is about to be.
    border_ms: i64,
    /// By the begins of their ranges, in ms.
    ranges: BTreeMap<i64, Marks>,
    /// About what they take.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Marks {
    /// Since the last cut of the range began.
    fresh: RoaringBitmap,
    /// Of those before, what no cut has ended with.
    taken: RoaringBitmap,
    /// Whether there may be others.
    is_unknown: bool,
    was_unknown: bool,
}

impl Default for LateMarks {
    fn default() -> Self {
        Self { border_ms: i64::MIN, ranges: BTreeMap::new(), bytes: 0 }
    }
}

impl LateMarks {
    /// What is older needs a mark, in ms.
    #[inline]
    pub(super) fn border_ms(&self) -> i64 {
        self.border_ms
    }

    /// A series took a sample that is older than the border.
    #[cold]
    pub(super) fn mark(&mut self, series: SeriesRef, at_ms: i64) {
        self.mark_range(series, begin_of(at_ms));
    }

    fn mark_range(&mut self, series: SeriesRef, begin_ms: i64) {
        let marks = self.ranges.entry(begin_ms).or_insert_with(|| {
            self.bytes += RANGE_BYTES;
            Marks::default()
        });
        if marks.fresh.insert(series.0) {
            self.bytes += MARK_BYTES;
        }
    }

    /// A cut of the range that begins then begins: what comes from now on is for the next one.
    pub(super) fn begin_cut(&mut self, begin_ms: i64) -> UncutRange {
        self.border_ms = self.border_ms.max(begin_ms.saturating_add(CHUNK_RANGE_MS));
        let Some(marks) = self.ranges.get_mut(&begin_ms) else { return UncutRange::nothing(begin_ms) };
        marks.taken |= std::mem::take(&mut marks.fresh);
        marks.was_unknown |= std::mem::take(&mut marks.is_unknown);
        UncutRange { begin_ms, series: marks.taken.len(), is_unknown: marks.was_unknown }
    }

    /// A block of the range has all that its cut began with, but for series that `has` says no of.
    pub(super) fn end_cut(&mut self, begin_ms: i64, has: impl Fn(SeriesRef) -> bool) {
        let Some(marks) = self.ranges.get_mut(&begin_ms) else { return };
        let taken = std::mem::take(&mut marks.taken);
        marks.was_unknown = false;
        marks.is_unknown |= taken.iter().any(|series| !has(SeriesRef(series)));
        if marks.fresh.is_empty() && !marks.is_unknown {
            self.ranges.remove(&begin_ms);
        }
        self.measure();
    }

    /// The series that the cut of the range that begins then is of.
    pub(super) fn taken(&self, begin_ms: i64) -> RoaringBitmap {
        self.ranges.get(&begin_ms).map(|marks| marks.taken.clone()).unwrap_or_default()
    }

    /// Ranges with something that is in no block, oldest first.
    pub(super) fn uncut(&self) -> Vec<UncutRange> {
        let uncut = |(begin_ms, marks): (&i64, &Marks)| UncutRange {
            begin_ms: *begin_ms,
            series: marks.fresh.len().max(marks.taken.len()),
            is_unknown: marks.is_unknown || marks.was_unknown,
        };
        self.ranges.iter().map(uncut).collect()
    }

    /// A series goes, to another shard or for good.
    pub(super) fn forget(&mut self, series: SeriesRef) {
        for marks in self.ranges.values_mut() {
            marks.is_unknown |= marks.fresh.remove(series.0) | marks.taken.remove(series.0);
        }
    }

    /// What lies before is gone.
    pub(super) fn drop_before(&mut self, horizon_ms: i64) {
        self.ranges.retain(|begin_ms, _| begin_ms.saturating_add(CHUNK_RANGE_MS) > horizon_ms);
        self.measure();
    }

    /// About what it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn measure(&mut self) {
        let of = |marks: &Marks| RANGE_BYTES + MARK_BYTES * (marks.fresh.len() + marks.taken.len()) as usize;
        self.bytes = self.ranges.values().map(of).sum();
    }
}

/// The begin of the range that a time is in, both in ms.
fn begin_of(at_ms: i64) -> i64 {
    at_ms - at_ms.rem_euclid(CHUNK_RANGE_MS)
}

impl Shard {
    /// Marks the series of a part, from one of them on, that have a sample in the bounds before the border.
    #[cold]
    #[inline(never)]
    pub(super) fn mark_late(
        &mut self,
        series: &[PartSeries],
        mut of_first: usize,
        mut samples: &[Sample],
        bounds: TimeBounds,
    ) {
        for entry in series {
            let count = (entry.samples as usize - std::mem::take(&mut of_first)).min(samples.len());
            let (own, rest) = samples.split_at(count);
            samples = rest;
            let border_ms = self.late_marks.border_ms();
            let mut late =
                own.iter().map(|sample| sample.timestamp_ms).filter(|at_ms| *at_ms < border_ms).peekable();
            if late.peek().is_some()
                && let Some(found) = self.find(entry.id)
            {
                // Times mostly ascend: a range is marked once for all of them.
                let mut marked_ms = None;
                for begin_ms in late.filter(|at_ms| *at_ms >= bounds.oldest_ms).map(begin_of) {
                    if marked_ms.replace(begin_ms) != Some(begin_ms) {
                        self.late_marks.mark_range(found, begin_ms);
                    }
                }
            }
            if samples.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H2: i64 = CHUNK_RANGE_MS;

    fn uncut(marks: &LateMarks) -> Vec<(i64, u64, bool)> {
        marks.uncut().iter().map(|range| (range.begin_ms / H2, range.series, range.is_unknown)).collect()
    }

    #[test]
    fn what_comes_after_a_cut_began_is_the_next_one_s_and_what_a_failed_cut_had_comes_again() {
        let mut marks = LateMarks::default();
        assert_eq!(marks.border_ms(), i64::MIN);
        assert_eq!(marks.begin_cut(H2), UncutRange::nothing(H2));
        assert_eq!(marks.border_ms(), 2 * H2);
        marks.mark(SeriesRef(1), H2);
        marks.mark(SeriesRef(1), 2 * H2 - 1);
        marks.mark(SeriesRef(2), 5);
        assert_eq!(uncut(&marks), [(0, 1, false), (1, 1, false)]);
        marks.end_cut(H2, |_| true);
        assert_eq!(uncut(&marks), [(0, 1, false), (1, 1, false)], "they came too late for it");
        assert_eq!(marks.begin_cut(H2).series, 1);
        marks.mark(SeriesRef(3), H2);
        // It failed: the next one has both.
        assert_eq!(marks.begin_cut(H2).series, 2);
        assert_eq!(marks.taken(H2).iter().collect::<Vec<_>>(), [1, 3]);
        marks.end_cut(H2, |_| true);
        assert_eq!(uncut(&marks), [(0, 1, false)]);
        assert_eq!(marks.border_ms(), 2 * H2, "an older range moves no border");
        marks.begin_cut(0);
        marks.end_cut(0, |_| true);
        assert_eq!(uncut(&marks), []);
    }

    #[test]
    fn of_a_range_whose_marked_series_went_nothing_is_known_until_it_is_cut_whole() {
        let mut marks = LateMarks::default();
        marks.begin_cut(0);
        marks.mark(SeriesRef(1), 5);
        marks.forget(SeriesRef(2));
        assert_eq!(uncut(&marks), [(0, 1, false)]);
        marks.forget(SeriesRef(1));
        assert_eq!(uncut(&marks), [(0, 0, true)]);
        assert!(marks.begin_cut(0).is_unknown);
        assert!(marks.begin_cut(0).is_unknown, "and after a failure still");
        marks.end_cut(0, |_| true);
        assert_eq!(uncut(&marks), []);
        // Another shard answered for one when the cut was read.
        marks.mark(SeriesRef(1), 5);
        marks.mark(SeriesRef(2), 5);
        marks.begin_cut(0);
        marks.end_cut(0, |series| series != SeriesRef(2));
        assert_eq!(uncut(&marks), [(0, 0, true)]);
        marks.drop_before(H2 - 1);
        assert!(marks.bytes() > 0);
        marks.drop_before(H2);
        assert_eq!((uncut(&marks), marks.bytes()), (vec![], 0));
    }
}
