//! What a shard tells its log of the changes that it makes.

use crate::wal::record::{Claim, OpenHistogramBytes};
use silverback_model::gorilla::SealedChunk;
use silverback_model::histogram::SealedHistogram;
use silverback_model::histogram::wire::{HistogramTimes, Untimed};
use silverback_model::{Exemplar, Metadata, Sample, SeriesId, SeriesRef};

/// Takes a shard's changes in the order in which they are made. A series ref means one series from
/// its creation to its removal.
pub trait Journal {
    /// A series was made. Labels are pairs of name and value, names ascending.
    fn created<'a>(
        &mut self,
        series: SeriesRef,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    );

    /// A sample was stored, the newest of its series.
    fn stored(&mut self, series: SeriesRef, sample: Sample);

    /// A sample was stored that is older than the newest of its series.
    fn stored_late(&mut self, series: SeriesRef, sample: Sample);

    /// The sample that was stored last has a start timestamp, in ms, which is not 0.
    fn started(&mut self, start_ms: i64);

    /// A native histogram was stored, the newest of its series. One in a message as it came has the start
    /// timestamp that is given beside it.
    fn stored_histogram(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>);

    /// The same of one that is older than the newest of its series.
    fn stored_late_histogram(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>);

    /// From here on a series has these histograms, in chunks that are cut, oldest first, and the open one, whatever it
    /// had: some were deleted, or it came from another shard.
    fn replaced_histograms(
        &mut self,
        series: SeriesRef,
        sealed: &[SealedHistogram],
        open: Option<OpenHistogramBytes<'_>>,
    );

    /// An exemplar of a series was accepted.
    fn exemplar(&mut self, series: SeriesRef, exemplar: &Exemplar<'_>);

    /// Something was said of a metric that wasn't known; when, in ms on the wall clock.
    fn metadata(&mut self, metadata: &Metadata<'_>, now_ms: i64);

    /// A series was removed. Returns when its ref may name another one.
    fn removed(&mut self, series: SeriesRef, id: SeriesId) -> RefReuse;

    /// Some of a series' samples were deleted: these are left, in chunks that are cut, oldest first, and the open
    /// one as if it were sealed now.
    fn replaced(&mut self, series: SeriesRef, sealed: &[SealedChunk], open: &[u8]);

    /// A series came from another shard with all that it holds.
    fn adopted(&mut self, series: SeriesRef, adopted: &AdoptedSeries<'_>);

    /// A cell came or went.
    fn claimed(&mut self, claim: Claim);
}

/// A series with all that it holds.
#[derive(Debug, Clone, Copy)]
pub struct AdoptedSeries<'a> {
    /// Its id.
    pub id: SeriesId,
    /// Names and values, names ascending.
    pub labels: &'a [(&'a [u8], &'a [u8])],
    /// Oldest first.
    pub sealed: &'a [SealedChunk],
    /// The open chunk as if it were sealed now.
    pub open: &'a [u8],
}

/// When the ref of a removed series may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefReuse {
    /// At once: nobody remembers it.
    AtOnce,
    /// After a whole checkpoint that began later: until then the log may name the old series by it.
    AfterCheckpoint,
}

/// Remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    #[inline]
    fn created<'a>(
        &mut self,
        _series: SeriesRef,
        _id: SeriesId,
        _labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
    }

    #[inline]
    fn stored(&mut self, _series: SeriesRef, _sample: Sample) {}

    fn stored_late(&mut self, _series: SeriesRef, _sample: Sample) {}

    fn started(&mut self, _start_ms: i64) {}

    fn stored_histogram(&mut self, _series: SeriesRef, _times: HistogramTimes, _histogram: Untimed<'_>) {}

    fn stored_late_histogram(&mut self, _series: SeriesRef, _times: HistogramTimes, _histogram: Untimed<'_>) {
    }

    fn replaced_histograms(
        &mut self,
        _series: SeriesRef,
        _sealed: &[SealedHistogram],
        _open: Option<OpenHistogramBytes<'_>>,
    ) {
    }

    fn exemplar(&mut self, _series: SeriesRef, _exemplar: &Exemplar<'_>) {}

    fn metadata(&mut self, _metadata: &Metadata<'_>, _now_ms: i64) {}

    #[inline]
    fn removed(&mut self, _series: SeriesRef, _id: SeriesId) -> RefReuse {
        RefReuse::AtOnce
    }

    fn replaced(&mut self, _series: SeriesRef, _sealed: &[SealedChunk], _open: &[u8]) {}

    fn adopted(&mut self, _series: SeriesRef, _adopted: &AdoptedSeries<'_>) {}

    fn claimed(&mut self, _claim: Claim) {}
}
