//! The window of bits that a changed value is written in: the same for writers and for readers.
use super::bits::{BitReader, BitRun};
use super::iterate::ChunkError;

/// More leading zeros than this aren't counted: the format has five bits for them.
const LEADING_MAX: u32 = 31;

/// The bits between the leading zeros and the trailing ones of what changed; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitWindow {
    pub(crate) leading: u32,
    pub(crate) trailing: u32,
}

impl BitWindow {
    /// Of all bits. Readers begin with it: Prometheus, taking up a chunk of equal values after a restart, writes
    /// into this window before it has opened any.
    pub(crate) const ALL: Self = Self { leading: 0, trailing: 0 };

    /// How a window is written: its leading zeros, and how many significant bits follow.
    pub(crate) const WIDTH: u32 = 5 + 6;

    /// The narrowest that can be written for these bits, of which one is set.
    pub(crate) fn of(changed: u64) -> Self {
        Self { leading: changed.leading_zeros().min(LEADING_MAX), trailing: changed.trailing_zeros() }
    }

    /// The narrowest that holds both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self { leading: self.leading.min(other.leading), trailing: self.trailing.min(other.trailing) }
    }

    /// Whether all of its bits are the other's too.
    pub(crate) const fn lies_in(self, other: Self) -> bool {
        self.leading >= other.leading && self.trailing >= other.trailing
    }

    /// How many bits are significant: 1 to 64.
    #[inline(always)]
    pub(crate) const fn significant(self) -> u32 {
        64 - self.leading - self.trailing
    }

    /// What a chunk says of it.
    pub(crate) fn run(self) -> BitRun {
        // 64 significant bits become the six bits' 0.
        BitRun::new(u64::from(self.leading << 6 | self.significant() & 63), Self::WIDTH)
    }

    /// Reads what a chunk says of it.
    #[inline(always)]
    pub(crate) fn read(reader: &mut BitReader) -> Result<Self, ChunkError> {
        Self::of_told(reader.bits(Self::WIDTH)? as u32).ok_or(ChunkError::BadWindow)
    }

    /// The window that a chunk says something of; `None`: there is no such window.
    #[inline(always)]
    pub(crate) fn of_told(told: u32) -> Option<Self> {
        let (leading, significant) = (told >> 6, told & 63);
        // None significant would have been "the same value": zero stands for 64.
        let significant = if significant == 0 { 64 } else { significant };
        let trailing = 64_u32.checked_sub(leading + significant)?;
        Some(Self { leading, trailing })
    }

    /// Reads which bits of a value changed.
    #[inline(always)]
    pub(crate) fn read_changed(self, reader: &mut BitReader) -> Result<u64, ChunkError> {
        Ok(reader.bits(self.significant())? << self.trailing)
    }
}
