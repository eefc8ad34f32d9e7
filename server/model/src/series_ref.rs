//! Series refs: a shard's own short names of its series.

/// A dense index of a series in its shard, and the series' name in that shard's log. Used again
/// after the series is gone: keep the id beside it where it outlives a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesRef(pub u32);
