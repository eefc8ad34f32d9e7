//! Epochs: the versions of who owns what.

/// The version of a routing table. Each change of it, of one cell's owner, is the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Cells are where a node's first start dealt them out.
    pub const FIRST: Self = Self(1);
    /// Beyond all that will ever be.
    pub const NEVER: Self = Self(u64::MAX);

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Default for Epoch {
    fn default() -> Self {
        Self::FIRST
    }
}
