//! A group: what a shard changed since its last commit, staged as the records that it becomes.
use super::chunks::ChunksWriter;
use super::claims::{Claim, ClaimsWriter};
use super::exemplars::ExemplarsWriter;
use super::histograms::{HistogramsWriter, OpenHistogramBytes};
use super::metadata::MetadataWriter;
use super::removed::RemovedWriter;
use super::replaced::ReplacedWriter;
use super::samples::SamplesWriter;
use super::series::SeriesWriter;
use super::start_timestamps::StartTimestampsWriter;
use crate::wal::{AdoptedSeries, Journal, RefReuse};
use silverback_model::gorilla::SealedChunk;
use silverback_model::histogram::SealedHistogram;
use silverback_model::histogram::wire::{HistogramTimes, Untimed};
use silverback_model::{Exemplar, Metadata, Sample, SeriesId, SeriesRef};

/// In how many parts a group's payload comes, empty ones included.
pub const GROUP_PARTS: usize = 28;

/// The group that the next commit makes durable. Used again for the one after it.
#[derive(Debug, Default)]
pub struct Group {
    series: SeriesWriter,
    chunks: ChunksWriter,
    replaced: ReplacedWriter,
    samples: SamplesWriter,
    starts: StartTimestampsWriter,
    histograms: HistogramsWriter,
    exemplars: ExemplarsWriter,
    metadata: MetadataWriter,
    removed: RemovedWriter,
    claims: ClaimsWriter,
    /// Nobody writes it any more.
    is_closed: bool,
}

impl Group {
    /// Gives back what it holds, and takes no more: its log has failed, and retention goes on for as long as
    /// the node runs. Samples are refused before they come here, but for the rest of a part that is being appended:
    /// whoever has it acknowledged closes it once more.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// Whether it takes nothing.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        // Chunks come with their series.
        let has_no_series = self.series.is_empty() && self.removed.is_empty() && self.replaced.is_empty();
        let has_none_beside = self.exemplars.is_empty() && self.metadata.is_empty() && self.claims.is_empty();
        has_no_series && self.samples.count() == 0 && self.histograms.is_empty() && has_none_beside
    }

    /// How many samples it holds.
    pub(crate) fn samples(&self) -> usize {
        self.samples.count()
    }

    /// The exact length of its payload.
    pub fn bytes(&self) -> usize {
        let series_bytes = self.series.bytes() + self.chunks.bytes() + self.removed.bytes();
        let samples_bytes = self.samples.bytes() + self.starts.bytes() + self.histograms.bytes();
        let bytes_beside = self.exemplars.bytes() + self.metadata.bytes() + self.claims.bytes();
        series_bytes + self.replaced.bytes() + samples_bytes + bytes_beside
    }

    /// Its payload, to be written one part after the other. The group can still grow afterwards,
    /// and then has other parts.
    ///
    /// # Panics
    ///
    /// When a column is beyond 4 GiB: whoever fills a group commits it before it outgrows
    /// [`WAL_FRAME_PAYLOAD_MAX`](silverback_model::limits::WAL_FRAME_PAYLOAD_MAX).
    pub fn parts(&mut self) -> [&[u8]; GROUP_PARTS] {
        self.series.finish();
        self.chunks.finish();
        self.replaced.finish();
        self.samples.finish();
        self.starts.finish();
        self.histograms.finish();
        self.exemplars.finish();
        self.metadata.finish();
        self.removed.finish();
        self.claims.finish();
        let of_series =
            self.series.parts().into_iter().chain(self.chunks.parts()).chain(self.replaced.parts());
        let of_samples = self.samples.parts().into_iter().chain(self.starts.parts());
        let beside = self.histograms.parts().into_iter().chain(self.exemplars.parts());
        let others = self.metadata.parts().into_iter().chain(self.removed.parts()).chain(self.claims.parts());
        let mut all = [&[][..]; GROUP_PARTS];
        let mut parts = of_series.chain(of_samples).chain(beside).chain(others);
        all.fill_with(|| parts.next().unwrap_or_default());
        debug_assert!(parts.next().is_none(), "a record that has more parts than there are places");
        all
    }

    /// Forgets what it holds, and keeps the room for as much, within bounds.
    pub fn clear(&mut self) {
        self.series.clear();
        self.chunks.clear();
        self.replaced.clear();
        self.samples.clear();
        self.starts.clear();
        self.histograms.clear();
        self.exemplars.clear();
        self.metadata.clear();
        self.removed.clear();
        self.claims.clear();
    }
}

impl Journal for Group {
    fn created<'a>(
        &mut self,
        series: SeriesRef,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        if !self.is_closed {
            self.series.push(series, id, labels);
        }
    }

    #[inline(always)]
    fn stored(&mut self, series: SeriesRef, sample: Sample) {
        self.samples.push(series, sample);
    }

    fn stored_late(&mut self, series: SeriesRef, sample: Sample) {
        self.samples.push_late(series, sample);
    }

    fn started(&mut self, start_ms: i64) {
        if let Some(place) = self.samples.count().checked_sub(1) {
            self.starts.push(place, start_ms);
        }
    }

    fn stored_histogram(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>) {
        self.histograms.push(series, times, histogram);
    }

    fn stored_late_histogram(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>) {
        self.histograms.push_late(series, times, histogram);
    }

    fn replaced_histograms(
        &mut self,
        series: SeriesRef,
        sealed: &[SealedHistogram],
        open: Option<OpenHistogramBytes<'_>>,
    ) {
        if !self.is_closed {
            self.histograms.push_chunks(series, sealed, open);
        }
    }

    fn exemplar(&mut self, series: SeriesRef, exemplar: &Exemplar<'_>) {
        if !self.is_closed {
            self.exemplars.push(series, exemplar);
        }
    }

    fn metadata(&mut self, metadata: &Metadata<'_>, now_ms: i64) {
        if !self.is_closed {
            self.metadata.push(metadata, now_ms);
        }
    }

    fn removed(&mut self, series: SeriesRef, id: SeriesId) -> RefReuse {
        if self.is_closed {
            return RefReuse::AtOnce;
        }
        self.removed.push(series, id);
        RefReuse::AfterCheckpoint
    }

    fn replaced(&mut self, series: SeriesRef, sealed: &[SealedChunk], open: &[u8]) {
        if !self.is_closed {
            self.replaced.push(series, self.samples.count(), told(sealed), open);
        }
    }

    fn adopted(&mut self, series: SeriesRef, adopted: &AdoptedSeries<'_>) {
        if self.is_closed {
            return;
        }
        self.series.push(series, adopted.id, adopted.labels.iter().copied());
        self.chunks.push(series, told(adopted.sealed), adopted.open);
    }

    fn claimed(&mut self, claim: Claim) {
        if !self.is_closed {
            self.claims.push(claim);
        }
    }
}

/// Chunks as records have them.
fn told(sealed: &[SealedChunk]) -> impl Iterator<Item = (i64, i64, &[u8])> {
    sealed.iter().map(|chunk| (chunk.min_timestamp_ms(), chunk.max_timestamp_ms(), chunk.bytes()))
}
