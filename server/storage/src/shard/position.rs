//! How far a part is appended, and whether what comes next is to be sorted first.

use std::ops::Range;

use crate::message::PartBuffer;
use crate::shard::append::TimeBounds;
use silverback_model::Sample;

/// How far a part is appended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartPosition {
    /// Series that are, all of them.
    pub(super) series: usize,
    /// Samples of the next series that are.
    pub(super) of_next: usize,
    /// Samples of all series that are.
    pub(super) samples: usize,
    /// So many of the part's samples are sorted as far as they are to be.
    pub(super) sorted: usize,
}

/// So many samples of a series are appended as they come: to end a piece and sort them is no less work.
const UNSORTED_MAX: usize = 32;

/// Whether a sample of a series, of which these are all, is older than the one before it, and there are many from it on.
pub(super) fn begins_unsorted(samples: &[Sample], at: usize) -> bool {
    samples.len() - at > UNSORTED_MAX && at > 0 && samples[at].timestamp_ms < samples[at - 1].timestamp_ms
}

impl PartPosition {
    /// The places of a series' samples that come next, where they are to be sorted first: the first of them is older than
    /// the one before it, and they are many. There are none among deltas, which are summed in the order in which they came,
    /// nor where no late samples are accepted: each of them is refused for itself.
    pub(super) fn unsorted(&self, part: &PartBuffer, bounds: TimeBounds) -> Option<Range<usize>> {
        let may_be = self.of_next > 0 && self.samples >= self.sorted && bounds.late_window_ms > 0;
        let entry = part.series.get(self.series).filter(|_| may_be)?;
        let own = self.samples..self.samples + entry.samples as usize - self.of_next;
        (!entry.labels.is_deltas() && begins_unsorted(&part.samples[..own.end], own.start)).then_some(own)
    }

    /// Drops from a part what is appended.
    pub(super) fn drain_taken(&mut self, part: &mut PartBuffer) {
        part.drain_first(self.series, self.samples);
        if let Some(next) = part.series.first_mut() {
            next.samples -= self.of_next as u32;
        }
        // What is sorted may have gone: to sort it once more is no work.
        *self = Self::default();
    }

    /// Samples that were appended since another position.
    pub(super) fn samples_since(&self, before: Self) -> usize {
        self.samples - before.samples
    }

    /// Whether all series of a part are appended that has so many.
    pub(crate) fn is_end(&self, series: usize) -> bool {
        self.series >= series
    }

    /// Series and samples that were appended since another one.
    #[cfg(test)]
    pub(super) fn since(&self, before: Self) -> (usize, usize) {
        (self.series - before.series, self.samples - before.samples)
    }
}
