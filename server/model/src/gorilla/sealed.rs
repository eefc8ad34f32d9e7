//! A chunk of floats that grows no more, and its samples.
use super::bits::BitReader;
use super::iterate::{ChunkError, XorIter};
use crate::sealed::Sealed;

/// What is in a chunk of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xor;

/// A cut XOR chunk.
pub type SealedChunk = Sealed<Xor>;
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
        Ok(Self { encoding: Xor, min_timestamp_ms, max_timestamp_ms, bytes })
    }

    /// Bytes that this node sealed itself and whose checksum was checked, with their bounds.
    pub const fn restored(min_timestamp_ms: i64, max_timestamp_ms: i64, bytes: Box<[u8]>) -> Self {
        Self { encoding: Xor, min_timestamp_ms, max_timestamp_ms, bytes }
    }

    /// Bytes of our own appender, whose newest sample is known already.
    pub(super) fn from_appender(bytes: Box<[u8]>, max_timestamp_ms: i64) -> Self {
        let first_timestamp = BitReader::new(&bytes[2..]).varint();
        let min_timestamp_ms = first_timestamp.expect("an open chunk begins with its first sample");
        Self { encoding: Xor, min_timestamp_ms, max_timestamp_ms, bytes }
    }

    /// How many samples it holds.
    pub fn count(&self) -> usize {
        self.samples().samples_left()
    }

    /// Its samples, oldest first.
    pub const fn samples(&self) -> XorIter<'_> {
        XorIter::new(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;
    use crate::gorilla::OpenXor;

    fn chunk(timestamps_ms: &[i64]) -> SealedChunk {
        let mut words = Vec::new();
        let mut open = OpenXor::start(Sample::new(timestamps_ms[0], 1.0), &mut words);
        for &timestamp_ms in &timestamps_ms[1..] {
            open.append(Sample::new(timestamp_ms, 1.0), &mut words);
        }
        open.seal(words.into_iter())
    }

    #[test]
    fn a_sealed_chunk_knows_its_bounds_and_its_count() {
        let chunk = chunk(&[-30_000, -15_000, -1]);
        assert_eq!((chunk.min_timestamp_ms(), chunk.max_timestamp_ms()), (-30_000, -1));
        assert_eq!((chunk.count(), chunk.samples().count()), (3, 3));
        assert_eq!(SealedChunk::from_bytes(chunk.bytes().into()), Ok(chunk));
    }

    #[test]
    fn chunks_overlap_a_time_at_their_first_and_last_sample() {
        let chunk = chunk(&[10, 20]);
        let overlaps = [(0, 9), (0, 10), (15, 16), (20, 30), (21, 30)];
        let expect = [false, true, true, true, false];
        assert_eq!(overlaps.map(|(min, max)| chunk.overlaps(min, max)), expect);
    }

    #[test]
    fn bytes_that_are_no_chunk_are_refused() {
        assert_eq!(SealedChunk::from_bytes(Box::new([0, 0])), Err(ChunkError::Empty));
        assert_eq!(SealedChunk::from_bytes(Box::new([0, 1, 0])), Err(ChunkError::Truncated));
    }
}
