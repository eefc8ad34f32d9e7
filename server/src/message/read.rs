//! Reads as a shard is asked and answers them. A select is fetched in batches, so that a slow
//! client holds one batch and a place, never the shard.

use std::sync::Arc;

use crate::gorilla::SealedChunk;
use crate::message::{Cardinality, CellStats};
use crate::model::{Labels, Matcher};

/// A select that is open on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelectId {
    /// The place in the shard's table.
    pub slot: u32,
    /// Tells the place's users apart.
    pub generation: u32,
}

/// Series by matchers, over a range of ms with both ends inclusive.
#[derive(Debug, Clone)]
pub struct Selection {
    /// All must match.
    pub matchers: Arc<[Matcher]>,
    /// The oldest sample asked for.
    pub min_ms: i64,
    /// The newest sample asked for.
    pub max_ms: i64,
}

impl Selection {
    /// Whether every series of every time is meant, so that an index answers without its series.
    pub fn is_everything(&self) -> bool {
        self.matchers.is_empty() && self.min_ms == i64::MIN && self.max_ms == i64::MAX
    }
}

/// What is fetched of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectContent {
    /// Labels and the chunks that overlap the range.
    Chunks,
    /// Labels of the series that have a sample in the range.
    LabelsOnly,
}

/// One read.
#[derive(Debug, Clone)]
pub enum ReadRequest {
    /// Find and sort the series, and keep them ready to be fetched.
    Select(Selection, SelectContent),
    /// The next series of a select, about `bytes` of them.
    Fetch {
        /// Which.
        select: SelectId,
        /// Labels and chunks in bytes; one series may exceed it.
        bytes: usize,
    },
    /// The select is not wanted any more.
    Close(SelectId),
    /// All label names of the series that match.
    LabelNames(Selection),
    /// All values of one label of the series that match.
    LabelValues(Box<str>, Selection),
    /// The labels, values and names with the most series, `limit` of each.
    Cardinality {
        /// Entries of each list.
        limit: usize,
    },
    /// The cells that hold a series.
    Cells,
}

/// One series of a select.
#[derive(Debug, Clone)]
pub struct SelectedSeries {
    /// Its labels.
    pub labels: Labels,
    /// Its chunks, oldest first. They may exceed the range at both ends.
    pub chunks: Vec<SealedChunk>,
}

/// The answer to one read.
#[derive(Debug)]
pub enum ReadReply {
    /// Open, with so many series.
    Selected(SelectId, usize),
    /// A batch, label sets ascending; whether there may be more.
    Series(Vec<SelectedSeries>, Remaining),
    /// Closed.
    Closed,
    /// Names or values, ascending.
    Strings(Vec<Box<str>>),
    /// Top lists.
    Cardinality(Cardinality),
    /// Cells by number.
    Cells(Vec<CellStats>),
}

/// Whether a select has more series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// Fetch again.
    More,
    /// That was all; the select is closed.
    Nothing,
}

/// Why a read was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The shard has as many selects open as it may.
    #[error("too many reads are open: try again")]
    TooManySelects,
    /// The series that open selects have found take what they may.
    #[error("the reads that are open have found too many series for this one: try again, or ask for less")]
    SelectsTooLarge,
    /// A cell has left the shard since the read's epoch. Asked again by the next one, it is answered.
    #[error("a part of the data moved to another core meanwhile: try again")]
    Moved,
    /// The select expired or never was.
    #[error("the read was idle for too long and was closed")]
    UnknownSelect,
    /// The shard's side of it panicked.
    #[error("the read failed inside the node, which tells more in its log")]
    Panicked,
}
