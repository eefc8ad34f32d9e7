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
use crate::wal::{AdoptedSeries, Journal, RefReuse};
use silverback_model::gorilla::SealedChunk;
use silverback_model::histogram::{Histogram, SealedHistogram};
use silverback_model::{Exemplar, Metadata, Sample, SeriesId, SeriesRef};

/// In how many parts a group's payload comes, empty ones included.
pub const GROUP_PARTS: usize = 26;

/// The group that the next commit makes durable. Used again for the one after it.
#[derive(Debug, Default)]
pub struct Group {
    series: SeriesWriter,
    chunks: ChunksWriter,
    replaced: ReplacedWriter,
    samples: SamplesWriter,
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
    /// the node runs. Samples are refused before they come here.
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
        let samples_bytes = self.samples.bytes() + self.histograms.bytes();
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
        self.histograms.finish();
        self.exemplars.finish();
        self.metadata.finish();
        self.removed.finish();
        self.claims.finish();
        let [a, b, c, d] = self.series.parts();
        let [e, f] = self.chunks.parts();
        let [g, h] = self.replaced.parts();
        let [i, j, k, l, m, n, o, p] = self.samples.parts();
        let [q, r] = self.histograms.parts();
        let [s, t] = self.exemplars.parts();
        let [u, v] = self.metadata.parts();
        let [w, x] = self.removed.parts();
        let [y, z] = self.claims.parts();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z]
    }

    /// Forgets what it holds, and keeps the room for as much, within bounds.
    pub fn clear(&mut self) {
        self.series.clear();
        self.chunks.clear();
        self.replaced.clear();
        self.samples.clear();
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

    #[inline]
    fn stored(&mut self, series: SeriesRef, sample: Sample) {
        self.samples.push(series, sample);
    }

    fn stored_late(&mut self, series: SeriesRef, sample: Sample) {
        self.samples.push_late(series, sample);
    }

    fn stored_histogram(&mut self, series: SeriesRef, timestamp_ms: i64, histogram: &Histogram) {
        self.histograms.push(series, timestamp_ms, histogram);
    }

    fn stored_late_histogram(&mut self, series: SeriesRef, timestamp_ms: i64, histogram: &Histogram) {
        self.histograms.push_late(series, timestamp_ms, histogram);
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

/// Chunks as records tell them.
fn told(sealed: &[SealedChunk]) -> impl Iterator<Item = (i64, i64, &[u8])> {
    sealed.iter().map(|chunk| (chunk.min_timestamp_ms(), chunk.max_timestamp_ms(), chunk.bytes()))
}
