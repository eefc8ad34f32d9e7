//! Chunks of floats in any of Prometheus' encodings. The node's own are XOR; those of others may be XOR2.
use super::iterate::{ChunkError, XorIter};
use super::xor2::Xor2Iter;
use crate::Sample;

/// How a chunk of floats is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatEncoding {
    /// As every Prometheus reads it.
    Xor,
    /// Smaller, and with start timestamps where there are any. Prometheus before 3.12 doesn't read it.
    Xor2,
}

impl FloatEncoding {
    /// The number that Prometheus gives to chunks in this encoding.
    pub const fn chunk_encoding(self) -> u8 {
        match self {
            Self::Xor => 1,
            Self::Xor2 => 4,
        }
    }

    /// The encoding of the chunks of floats that Prometheus gives this number.
    pub const fn of_chunk_encoding(encoding: u8) -> Option<Self> {
        match encoding {
            1 => Some(Self::Xor),
            4 => Some(Self::Xor2),
            _other => None,
        }
    }
}

/// The samples of a chunk's bytes, in the order written. Ends after the first error.
#[derive(Debug, Clone)]
pub enum FloatIter<'a> {
    /// Of an XOR chunk.
    Xor(XorIter<'a>),
    /// Of an XOR2 chunk.
    Xor2(Xor2Iter<'a>),
}

impl<'a> FloatIter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(encoding: FloatEncoding, chunk: &'a [u8]) -> Self {
        match encoding {
            FloatEncoding::Xor => Self::Xor(XorIter::new(chunk)),
            FloatEncoding::Xor2 => Self::Xor2(Xor2Iter::new(chunk)),
        }
    }

    /// Samples not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        match self {
            Self::Xor(samples) => samples.samples_left(),
            Self::Xor2(samples) => samples.samples_left(),
        }
    }
}

impl Iterator for FloatIter<'_> {
    type Item = Result<Sample, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Xor(samples) => samples.next(),
            Self::Xor2(samples) => samples.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Xor(samples) => samples.size_hint(),
            Self::Xor2(samples) => samples.size_hint(),
        }
    }
}

impl std::iter::FusedIterator for FloatIter<'_> {}
