//! A chunk that grows no more: its exact bytes and the time that it covers.
use super::bits::BitReader;
use super::iterate::{ChunkError, XorIter};

/// A cut XOR chunk. Its bytes are what Prometheus would have written for the same samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedChunk {
    min_timestamp_ms: i64,
    max_timestamp_ms: i64,
    bytes: Box<[u8]>,
}
const _: () = assert!(size_of::<SealedChunk>() <= 32, "each series keeps some of these");

impl SealedChunk {
    /// Takes over bytes from elsewhere (a file, another node), after reading all of their samples.
    pub fn from_bytes(bytes: Box<[u8]>) -> Result<Self, ChunkError> {
        let mut bounds: Option<(i64, i64)> = None;
        for sample in XorIter::new(&bytes) {
            let timestamp_ms = sample?.timestamp_ms;
            let (min, max) = bounds.unwrap_or((timestamp_ms, timestamp_ms));
            bounds = Some((min.min(timestamp_ms), max.max(timestamp_ms)));
        }
        let (min_timestamp_ms, max_timestamp_ms) = bounds.ok_or(ChunkError::Empty)?;
        Ok(Self { min_timestamp_ms, max_timestamp_ms, bytes })
    }

    /// Bytes of our own appender, whose newest sample is known already.
    pub(super) fn from_appender(bytes: Box<[u8]>, max_timestamp_ms: i64) -> Self {
        let first_timestamp = BitReader::new(&bytes[2..]).varint();
        let min_timestamp_ms = first_timestamp.expect("an open chunk begins with its first sample");
        Self { min_timestamp_ms, max_timestamp_ms, bytes }
    }

    /// The oldest sample's timestamp.
    pub const fn min_timestamp_ms(&self) -> i64 {
        self.min_timestamp_ms
    }

    /// The newest sample's timestamp.
    pub const fn max_timestamp_ms(&self) -> i64 {
        self.max_timestamp_ms
    }

    /// The chunk as files and protocols carry it, its count of samples in front.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many samples it holds.
    pub fn count(&self) -> usize {
        self.samples().samples_left()
    }

    /// Whether a sample may lie between these two times, both included.
    pub const fn overlaps(&self, min_timestamp_ms: i64, max_timestamp_ms: i64) -> bool {
        self.min_timestamp_ms <= max_timestamp_ms && min_timestamp_ms <= self.max_timestamp_ms
    }

    /// Its samples, oldest first.
    pub const fn samples(&self) -> XorIter<'_> {
        XorIter::new(&self.bytes)
    }
}
