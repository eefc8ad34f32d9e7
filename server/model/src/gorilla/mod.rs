//! Prometheus' XOR chunk, bit for bit: what memory holds is what reads and blocks send. And its XOR2 chunk, in which
//! blocks may be, the node's own where that is asked for.
//!
//! Pure and synchronous: knows neither series nor files, nor where an open chunk's words are.
//!
//! ```text
//! samples → OpenXor (state in the series' cache line) ─ full words → WordSink (the caller's memory)
//!              └─ seal(words) → SealedChunk (exact bytes) → XorIter → samples
//! ```
pub(crate) mod bit_writer;
pub mod bits;
mod floats;
pub mod iterate;
#[expect(unsafe_code, reason = "the processor's hint has no safe name")]
pub mod prefetch;
pub mod sealed;
pub(crate) mod varbit;
pub(crate) mod window;
pub(crate) mod xor;
pub(crate) mod xor2;

#[cfg(test)]
mod reference;

pub use bits::WordSink;
pub use floats::{FloatEncoding, FloatIter, OpenFloats, SealedFloats};
pub use iterate::{ChunkError, XorCursor, XorIter, XorPiece, read_columns};
pub use prefetch::prefetch;
pub use sealed::SealedChunk;
pub use xor::OpenXor;
pub use xor2::{OpenXor2, Xor2Iter};
