//! A chunk that grows no more, of whatever encoding: its exact bytes and the time that it covers. What is in the bytes
//! is its encoding's.

/// A cut chunk. Its bytes are what Prometheus would have written for the same samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed<E> {
    pub(crate) encoding: E,
    pub(crate) min_timestamp_ms: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) bytes: Box<[u8]>,
}

impl<E> Sealed<E> {
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

    /// Whether a sample may lie between these two times, both included.
    pub const fn overlaps(&self, min_timestamp_ms: i64, max_timestamp_ms: i64) -> bool {
        self.min_timestamp_ms <= max_timestamp_ms && min_timestamp_ms <= self.max_timestamp_ms
    }
}
