//! What the decoder has counted of one request.

use super::labels::CollectedLabels;
use silverback_model::{ExemplarRejectedCounts, MetadataRejectedCounts, RefusedCounts, RefusedReason};
use silverback_storage::message::Examples;

/// The counts of one request, as far as it is decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestTally {
    /// Series passed on to the sink.
    pub series: u64,
    /// Samples passed on to the sink.
    pub samples: u64,
    /// Native histograms passed on to the sink.
    pub histograms: u64,
    /// Samples, native histograms among them, that the decoder refused, by reason.
    pub refused: RefusedCounts,
    /// Series refused whole. One without any sample isn't seen in `refused`.
    pub series_refused: u64,
    /// Exemplars of good series.
    pub exemplars: u64,
    /// Those that the decoder refused, by reason.
    pub exemplars_refused: ExemplarRejectedCounts,
    /// Metadata entries.
    pub metadata: u64,
    /// Those that the decoder refused, by reason.
    pub metadata_refused: MetadataRejectedCounts,
    /// Bytes of those that were passed on.
    pub metadata_bytes: usize,
    /// Some of the refused, by job and reason.
    pub examples: Examples,
}

impl RequestTally {
    /// Counts a whole series as refused, by its labels that lie in `bytes`.
    pub(super) fn refuse_series(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        labels: &CollectedLabels,
        bytes: &[u8],
    ) {
        self.series_refused += 1;
        self.refuse_samples(reason, samples, labels, bytes);
    }

    /// Counts samples of a series as refused.
    pub(super) fn refuse_samples(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        labels: &CollectedLabels,
        bytes: &[u8],
    ) {
        self.refused.add(reason, samples);
        let words = || (labels.describe(bytes), reason.bound());
        self.examples.add(reason, samples, &labels.job(bytes), words);
    }
}
