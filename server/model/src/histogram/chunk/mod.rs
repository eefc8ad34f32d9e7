//! Prometheus' chunks of native histograms, bit for bit: of integer ones (encoding 2) and of float ones (3).
//!
//! ```text
//! header: u16 count of samples | two bits of what is known of a counter reset
//! layout: zero threshold | schema | spans of both sides | custom bounds          (once, for all samples)
//! first sample:  time, counts, sum, a word for each bucket
//! later samples: differences of differences, or XOR with the word before
//! ```
//!
//! All histograms of a chunk have its layout. One that has more buckets widens it, which writes the whole chunk again;
//! one that can't belong to it begins another chunk. Knows neither series nor files.
mod cut;
mod error;
mod fit;
mod iterate;
mod layout;
mod open;
mod sealed;
mod state;
mod track;

pub use cut::EndPlan;
pub use error::HistogramChunkError;
pub use iterate::HistogramIter;
pub use open::OpenHistogram;
pub use sealed::SealedHistogram;

use super::value::{HistogramKind, ResetHint};

/// The count of samples, and a byte with [`ResetHeader`].
const HEADER_BYTES: usize = 3;

impl HistogramKind {
    /// The number that Prometheus gives to chunks of this kind.
    pub const fn chunk_encoding(self) -> u8 {
        match self {
            Self::Integer => 2,
            Self::Float => 3,
        }
    }

    /// The kind of the chunks that Prometheus gives this number.
    pub const fn of_chunk_encoding(encoding: u8) -> Option<Self> {
        match encoding {
            2 => Some(Self::Integer),
            3 => Some(Self::Float),
            _other => None,
        }
    }
}

/// What a chunk says of a counter reset before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResetHeader {
    Unknown,
    NotReset,
    Reset,
    /// All of it is a gauge.
    Gauge,
}

impl ResetHeader {
    const fn byte(self) -> u8 {
        match self {
            Self::Unknown => 0b0000_0000,
            Self::NotReset => 0b0100_0000,
            Self::Reset => 0b1000_0000,
            Self::Gauge => 0b1100_0000,
        }
    }

    const fn of_byte(byte: u8) -> Self {
        match byte >> 6 {
            0b00 => Self::Unknown,
            0b01 => Self::NotReset,
            0b10 => Self::Reset,
            _ => Self::Gauge,
        }
    }

    /// What the n-th histogram of such a chunk says. Of the first nothing is known: what was before it may be gone.
    const fn hint(self, is_first: bool) -> ResetHint {
        match (self, is_first) {
            (Self::Gauge, _) => ResetHint::Gauge,
            (_, true) => ResetHint::Unknown,
            (_, false) => ResetHint::NotReset,
        }
    }
}

#[cfg(test)]
mod tests;
