//! A piece of a checkpoint: some series with all that they hold, staged as records.
use super::chunks::ChunksWriter;
use super::claims::{Claim, ClaimsWriter};
use super::exemplars::ExemplarsWriter;
use super::histograms::{HistogramsWriter, OpenHistogramBytes};
use super::metadata::MetadataWriter;
use super::series::SeriesWriter;
use super::{HEAD_BYTES, RecordType, head};
use silverback_model::histogram::SealedHistogram;
use silverback_model::{Exemplar, Metadata, SeriesId, SeriesRef};

/// In how many parts a snapshot's payload comes, empty ones included.
pub const CHECKPOINT_FRAME_PARTS: usize = 15;

const END_BYTES: usize = HEAD_BYTES + 16;

/// The next frame of a checkpoint. Used again for the one after it.
#[derive(Debug, Default)]
pub struct CheckpointFrame {
    series: SeriesWriter,
    chunks: ChunksWriter,
    histograms: HistogramsWriter,
    exemplars: ExemplarsWriter,
    metadata: MetadataWriter,
    claims: ClaimsWriter,
    end: Option<[u8; END_BYTES]>,
}

impl CheckpointFrame {
    /// A series that there is. Labels are pairs of name and value, names ascending.
    pub fn created<'a>(
        &mut self,
        series: SeriesRef,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        self.series.push(series, id, labels);
    }

    /// Its chunks: the sealed ones as oldest and newest timestamp and bytes, oldest first; the open
    /// one as if it were sealed now, empty where there is none.
    pub fn chunks<'a>(
        &mut self,
        series: SeriesRef,
        sealed: impl Iterator<Item = (i64, i64, &'a [u8])>,
        open: &[u8],
    ) {
        self.chunks.push(series, sealed, open);
    }

    /// Its native histograms, where it has some: the chunks that are cut, oldest first, and the open one.
    pub fn histograms(
        &mut self,
        series: SeriesRef,
        sealed: &[SealedHistogram],
        open: Option<OpenHistogramBytes<'_>>,
    ) {
        self.histograms.push_chunks(series, sealed, open);
    }

    /// An exemplar of a series, which is in this frame or an earlier one.
    pub fn exemplar(&mut self, series: SeriesRef, exemplar: &Exemplar<'_>) {
        self.exemplars.push(series, exemplar);
    }

    /// What is said of a metric, and when it was said last, in ms on the wall clock.
    pub fn metadata(&mut self, metadata: &Metadata<'_>, seen_ms: i64) {
        self.metadata.push(metadata, seen_ms);
    }

    /// A cell that came to the shard and is there still.
    pub fn claimed(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// The checkpoint is whole with this frame: how many series and chunks (open ones too) it has
    /// in all its frames.
    pub fn end(&mut self, series: u64, chunks: u64) {
        let mut end = [0; END_BYTES];
        end[..HEAD_BYTES].copy_from_slice(&head(RecordType::CheckpointEnd, END_BYTES - HEAD_BYTES));
        end[HEAD_BYTES..].copy_from_slice([series, chunks].map(u64::to_le_bytes).as_flattened());
        self.end = Some(end);
    }

    /// The exact length of its payload.
    pub(crate) fn bytes(&self) -> usize {
        let end_bytes = self.end.map_or(0, |end| end.len());
        let chunks_bytes = self.chunks.bytes() + self.histograms.bytes();
        let bytes_beside = self.exemplars.bytes() + self.metadata.bytes() + self.claims.bytes();
        self.series.bytes() + chunks_bytes + bytes_beside + end_bytes
    }

    /// Its payload, to be written one part after the other.
    ///
    /// # Panics
    ///
    /// As [`Group::parts`](super::Group::parts).
    pub fn parts(&mut self) -> [&[u8]; CHECKPOINT_FRAME_PARTS] {
        self.series.finish();
        self.chunks.finish();
        self.histograms.finish();
        self.exemplars.finish();
        self.metadata.finish();
        self.claims.finish();
        let [a, b, c, d] = self.series.parts();
        let [e, f] = self.chunks.parts();
        let [g, h] = self.histograms.parts();
        let [i, j] = self.exemplars.parts();
        let [k, l] = self.metadata.parts();
        let [m, n] = self.claims.parts();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, self.end.as_ref().map_or(&[], |end| end)]
    }

    /// Forgets what it holds, and keeps the room for as much, within bounds.
    pub(crate) fn clear(&mut self) {
        self.series.clear();
        self.chunks.clear();
        self.histograms.clear();
        self.exemplars.clear();
        self.metadata.clear();
        self.claims.clear();
        self.end = None;
    }
}
