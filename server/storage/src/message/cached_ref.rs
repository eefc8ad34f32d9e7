//! The ref of a series, kept by the sender of its samples: as Prometheus' appender gives a scrape loop the ref of a
//! series, to be passed with its next sample. It knows no sender.

use silverback_model::SeriesRef;

/// Where its owner had a series when it last took a sample of it in: 4 bytes. It may be out of date, or another shard's: the
/// owner looks whether the series is there, and searches for one that isn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRef(u32);

impl CachedRef {
    /// Of a sender that caches none.
    pub const NONE: Self = Self(u32::MAX);

    /// Of a sender that caches them, and has none yet.
    pub const NOT_YET: Self = Self(u32::MAX - 1);

    /// Where a series is.
    pub fn of(series: SeriesRef) -> Self {
        Self(series.0)
    }

    /// The same of one whose series has gone elsewhere.
    pub fn forgotten(self) -> Self {
        if self == Self::NONE { Self::NONE } else { Self::NOT_YET }
    }

    /// Where the series was, if that is known. The very highest refs are cached by nobody.
    #[inline]
    pub fn get(self) -> Option<SeriesRef> {
        (self.0 < Self::NOT_YET.0).then_some(SeriesRef(self.0))
    }
}

/// Where the series of a part are that aren't where their sender had them.
#[derive(Debug, Default)]
pub struct RefUpdates(Vec<(u32, CachedRef)>);

impl RefUpdates {
    /// What each takes, as the list grows by doubling.
    pub const BYTES_EACH: usize = 2 * size_of::<(u32, CachedRef)>();

    /// Adds one: its stream's ref, and where it is.
    pub fn push(&mut self, stream_ref: u32, cached: CachedRef) {
        self.0.push((stream_ref, cached));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Each by its stream's ref, and where it is.
    pub fn iter(&self) -> impl Iterator<Item = (u32, CachedRef)> {
        self.0.iter().copied()
    }
}
