//! What the decoder has counted of one request.

use crate::model::{RefusedCounts, RefusedReason};

/// The counts of one request, as far as it is decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Series passed on to the sink.
    pub series: u64,
    /// Samples passed on to the sink.
    pub samples: u64,
    /// Samples, native histograms among them, that the decoder refused, by reason.
    pub refused: RefusedCounts,
    /// Series refused whole. One without any sample isn't seen in `refused`.
    pub series_refused: u64,
    /// Exemplars that were skipped.
    pub exemplars_ignored: u64,
    /// Metadata entries that were skipped.
    pub metadata_ignored: u64,
    /// The first refusal: why, and the series in words.
    pub example: Option<(RefusedReason, String)>,
}

impl Tally {
    /// Counts a whole series as refused; `describe` tells which, and is asked only once.
    pub(super) fn refuse_series(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        describe: impl FnOnce() -> String,
    ) {
        self.series_refused += 1;
        self.refuse_samples(reason, samples, describe);
    }

    /// Counts samples of a series as refused.
    pub(super) fn refuse_samples(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        describe: impl FnOnce() -> String,
    ) {
        self.refused.add(reason, samples);
        if self.example.is_none() {
            self.example = Some((reason, describe()));
        }
    }
}
