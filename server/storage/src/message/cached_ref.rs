//! The ref of a series, kept by who sends its samples: as Prometheus' appender gives a scrape loop the ref of a series, to
//! be passed with its next sample. It knows no sender.

use silverback_model::SeriesRef;

/// Where its owner had a series when it last took a sample of it in: 4 bytes. It may be out of date, or another shard's: the
/// owner looks whether the series is there, and searches for one that isn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRef(u32);

impl CachedRef {
    /// Of a sender that keeps none.
    pub const NONE: Self = Self(u32::MAX);

    /// Of a sender that keeps them, and has none yet.
    pub const NOT_YET: Self = Self(u32::MAX - 1);

    /// Where a series is.
    pub fn of(series: SeriesRef) -> Self {
        Self(series.0)
    }

    /// Where the series was, if that is known. The very highest refs are kept by nobody.
    #[inline]
    pub fn get(self) -> Option<SeriesRef> {
        (self.0 < Self::NOT_YET.0).then_some(SeriesRef(self.0))
    }

    /// Whether its sender wants to know that the series is elsewhere.
    #[inline]
    pub(crate) fn is_outdated(self, series: SeriesRef) -> bool {
        self.0 != series.0 && self != Self::NONE
    }
}

/// Series of a part that aren't where their sender had them.
#[derive(Debug, Default)]
pub struct FoundSeries(Vec<(u32, CachedRef)>);

impl FoundSeries {
    /// What each takes.
    pub const BYTES_EACH: usize = size_of::<(u32, CachedRef)>();

    /// Adds one: its stream's ref, and where it is.
    pub fn push(&mut self, stream_ref: u32, series: SeriesRef) {
        self.0.push((stream_ref, CachedRef::of(series)));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Each by its stream's ref, and where it is.
    pub fn iter(&self) -> impl Iterator<Item = (u32, CachedRef)> {
        self.0.iter().copied()
    }
}
