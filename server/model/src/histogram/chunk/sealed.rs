//! A chunk of histograms that grows no more: its exact bytes and the time that it covers.
use super::error::HistogramChunkError;
use super::iterate::HistogramIter;
use crate::histogram::value::HistogramKind;

/// A cut chunk. Its bytes are what Prometheus would have written for the same histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedHistogram {
    kind: HistogramKind,
    min_timestamp_ms: i64,
    max_timestamp_ms: i64,
    bytes: Box<[u8]>,
}

impl SealedHistogram {
    /// Takes over bytes from elsewhere (a file, another node), after reading all of their histograms.
    pub fn from_bytes(kind: HistogramKind, bytes: Box<[u8]>) -> Result<Self, HistogramChunkError> {
        let mut iter = HistogramIter::new(kind, &bytes);
        let first = iter.skip_one()?;
        let (mut min_timestamp_ms, mut max_timestamp_ms) = (first, first);
        while iter.samples_left() > 0 {
            let timestamp_ms = iter.skip_one()?;
            min_timestamp_ms = min_timestamp_ms.min(timestamp_ms);
            max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
        }
        Ok(Self { kind, min_timestamp_ms, max_timestamp_ms, bytes })
    }

    /// Bytes that this node sealed itself and whose checksum was checked, with their bounds.
    pub const fn restored(
        kind: HistogramKind,
        min_timestamp_ms: i64,
        max_timestamp_ms: i64,
        bytes: Box<[u8]>,
    ) -> Self {
        Self { kind, min_timestamp_ms, max_timestamp_ms, bytes }
    }

    /// What histograms it holds.
    pub const fn kind(&self) -> HistogramKind {
        self.kind
    }

    /// The oldest histogram's timestamp.
    pub const fn min_timestamp_ms(&self) -> i64 {
        self.min_timestamp_ms
    }

    /// The newest histogram's timestamp.
    pub const fn max_timestamp_ms(&self) -> i64 {
        self.max_timestamp_ms
    }

    /// The chunk as files and protocols carry it, its count of samples in front.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many histograms it holds.
    pub fn count(&self) -> usize {
        self.histograms().samples_left()
    }

    /// Whether a histogram may lie between these two times, both included.
    pub const fn overlaps(&self, min_timestamp_ms: i64, max_timestamp_ms: i64) -> bool {
        self.min_timestamp_ms <= max_timestamp_ms && min_timestamp_ms <= self.max_timestamp_ms
    }

    /// Its histograms, oldest first.
    pub const fn histograms(&self) -> HistogramIter<'_> {
        HistogramIter::new(self.kind, &self.bytes)
    }
}
