//! What a shard is asked and answers of ranges of two hours that are cut to blocks: whether it holds samples of them
//! that are in no block. Who makes blocks is not known here.

use super::HeldSamples;

/// A step of a cut of the range that begins then, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutStep {
    /// What of it is there.
    Count {
        /// The range.
        begin_ms: i64,
    },
    /// It begins: what comes from now on is for the next cut.
    Begin {
        /// The range.
        begin_ms: i64,
    },
    /// A block has all that it began with.
    End {
        /// The range.
        begin_ms: i64,
    },
}

/// What a shard says to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutReply {
    /// This is there.
    Counted(HeldSamples),
    /// This is in no block.
    Begun(UncutRange),
    /// It is noted.
    Ended,
}

/// What of a range is in no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncutRange {
    /// Its begin, in ms.
    pub begin_ms: i64,
    /// Series that took samples of it since the last cut began.
    pub series: u64,
    /// Whether there may be others: a series that had some is gone, or elsewhere.
    pub is_unknown: bool,
}

impl UncutRange {
    /// There is nothing.
    pub(crate) const fn nothing(begin_ms: i64) -> Self {
        Self { begin_ms, series: 0, is_unknown: false }
    }
}
