//! Start timestamps on their way into the log, with the samples that were stored. Nothing else keeps them: chunks can't
//! hold them.

use crate::message::PartStart;
use crate::shard::Shard;
use crate::wal::Journal;
use silverback_model::histogram::wire::HistogramTimes;

/// What the samples of a part say of their start.
pub(super) trait Starts {
    /// A series' samples are appended, the first of which has this place in the part.
    fn begin(&mut self, first: usize);

    /// The `i`-th of them was stored, as the journal knows already.
    fn stored(&mut self, i: usize, timestamp_ms: i64, journal: &mut impl Journal);
}

/// They say nothing, and nothing is done for them.
pub(super) struct NoStarts;

impl Starts for NoStarts {
    #[inline(always)]
    fn begin(&mut self, _first: usize) {}

    #[inline(always)]
    fn stored(&mut self, _i: usize, _timestamp_ms: i64, _journal: &mut impl Journal) {}
}

/// Some say when it was.
pub(super) struct PartStarts<'a> {
    /// Those of samples that come yet.
    left: std::slice::Iter<'a, PartStart>,
    first: usize,
    counts: StartCounts,
}

impl<'a> PartStarts<'a> {
    /// Of the samples of a part from one on.
    pub(super) fn behind(starts: &'a [PartStart], sample: usize) -> Self {
        let begin = starts.partition_point(|start| (start.sample as usize) < sample);
        Self { left: starts[begin..].iter(), first: sample, counts: StartCounts::default() }
    }

    /// What became of those that were met.
    pub(super) fn counts(&self) -> StartCounts {
        self.counts
    }
}

impl Starts for PartStarts<'_> {
    fn begin(&mut self, first: usize) {
        self.first = first;
    }

    fn stored(&mut self, i: usize, timestamp_ms: i64, journal: &mut impl Journal) {
        let place = self.first + i;
        // Those of samples that weren't stored are passed over.
        while let Some(start) = self.left.as_slice().first().filter(|start| start.sample as usize <= place) {
            self.left.next();
            if start.sample as usize == place && self.counts.takes(start.start_ms, timestamp_ms) {
                journal.started(start.start_ms);
            }
        }
    }
}

/// What became of start timestamps of samples that were stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StartCounts {
    logged: u64,
    ignored: u64,
}

impl StartCounts {
    /// Whether a start timestamp is taken. Prometheus ignores one that is at its sample's time or later, too, and takes
    /// the sample.
    fn takes(&mut self, start_ms: i64, timestamp_ms: i64) -> bool {
        let is_taken = start_ms < timestamp_ms;
        self.logged += u64::from(is_taken);
        self.ignored += u64::from(!is_taken);
        is_taken
    }
}

impl Shard {
    pub(super) fn count_starts(&mut self, StartCounts { logged, ignored }: StartCounts) {
        self.counters.start_timestamps += logged;
        self.counters.start_timestamps_ignored += ignored;
    }

    /// The times of a histogram that was stored, as the log is to have them.
    pub(super) fn logged_times(&mut self, times: HistogramTimes) -> HistogramTimes {
        let HistogramTimes { timestamp_ms, start_timestamp_ms } = times;
        let mut counts = StartCounts::default();
        let is_taken = start_timestamp_ms != 0 && counts.takes(start_timestamp_ms, timestamp_ms);
        self.count_starts(counts);
        HistogramTimes { start_timestamp_ms: if is_taken { start_timestamp_ms } else { 0 }, ..times }
    }
}

#[cfg(test)]
mod tests;
