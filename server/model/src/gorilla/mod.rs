//! Prometheus' XOR chunk, bit for bit: what memory holds is what reads and blocks send.
//!
//! Pure and synchronous: knows neither series nor files, nor where an open chunk's words lie.
//!
//! ```text
//! samples → OpenXor (state in the series' cache line) ─ full words → WordSink (the caller's memory)
//!              └─ seal(words) → SealedChunk (exact bytes) → XorIter → samples
//! ```
pub mod bits;
pub mod iterate;
#[expect(unsafe_code, reason = "the processor's hint has no safe name")]
pub mod prefetch;
pub mod sealed;
pub(crate) mod xor;

#[cfg(test)]
mod reference;

pub use bits::WordSink;
pub use iterate::{ChunkError, XorCursor, XorIter};
pub use prefetch::prefetch;
pub use sealed::SealedChunk;
pub use xor::OpenXor;
