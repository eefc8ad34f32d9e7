//! A chunk of histograms that grows no more, and its histograms.
use super::error::HistogramChunkError;
use super::iterate::HistogramIter;
use crate::histogram::value::HistogramKind;
use crate::sealed::Sealed;

/// A cut chunk of histograms of one kind.
pub type SealedHistogram = Sealed<HistogramKind>;

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
        Ok(Self { encoding: kind, min_timestamp_ms, max_timestamp_ms, bytes })
    }

    /// Bytes that this node sealed itself and whose checksum was checked, with their bounds.
    pub const fn restored(
        kind: HistogramKind,
        min_timestamp_ms: i64,
        max_timestamp_ms: i64,
        bytes: Box<[u8]>,
    ) -> Self {
        Self { encoding: kind, min_timestamp_ms, max_timestamp_ms, bytes }
    }

    /// What histograms it holds.
    pub const fn kind(&self) -> HistogramKind {
        self.encoding
    }

    /// How many histograms it holds.
    pub fn count(&self) -> usize {
        self.histograms().samples_left()
    }

    /// Its histograms, oldest first.
    pub const fn histograms(&self) -> HistogramIter<'_> {
        HistogramIter::new(self.encoding, &self.bytes)
    }
}
