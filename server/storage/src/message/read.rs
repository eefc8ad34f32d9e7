//! Reads as a shard is asked and answers them. What matches is found once and fetched in batches, so
//! that a slow client holds one batch and a cursor, never the shard.

use std::sync::Arc;

use crate::message::{
    Cardinality, CellStats, CutReply, CutStep, ExternalView, ReadTicket, SeriesBatch, TextBatch,
};
use silverback_model::{Epoch, Matcher, MetricType};

/// A cursor that is open on a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CursorId {
    /// The slot in the shard's table.
    pub slot: u32,
    /// Tells the slot's users apart.
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
    /// Every series of every time.
    pub fn everything() -> Self {
        Self { matchers: Arc::new([]), min_ms: i64::MIN, max_ms: i64::MAX }
    }

    /// Whether every series of every time is meant, so that an index answers without its series.
    pub fn is_everything(&self) -> bool {
        self.matchers.is_empty() && self.is_always()
    }

    /// Whether samples of any time are meant.
    pub(crate) fn is_always(&self) -> bool {
        self.min_ms == i64::MIN && self.max_ms == i64::MAX
    }
}

/// What is read of the series that have a sample in the range, or an exemplar where these are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Themselves.
    Series(SeriesWanted),
    /// Texts of their labels, each once.
    Texts(TextsWanted),
}

/// What is read of series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeriesWanted {
    /// Labels and the chunks that overlap the range.
    Chunks,
    /// The same of the series that the cut of the range is of: those that took samples of it since the cut before.
    UncutChunks,
    /// Labels and the exemplars in the range, of those alone that have one: as a chunk each, of one time, whose bytes are
    /// the value's, little endian, and the exemplar's labels in canonical form
    /// ([`SeriesView::exemplars`](super::SeriesView::exemplars)).
    Exemplars,
    /// Labels alone.
    LabelSets,
    /// Labels as they are seen from outside, in whose order the series come, and the chunks that overlap the range.
    /// Series of the same labels follow each other.
    ExternalChunks(Arc<ExternalView>),
    /// Such labels alone.
    ExternalLabelSets(Arc<ExternalView>),
}

/// Which texts are read, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextsWanted {
    /// The names of labels.
    LabelNames,
    /// The values of one label.
    LabelValues(Box<str>),
}

impl SeriesWanted {
    /// Whether chunks are read.
    pub(crate) fn has_chunks(&self) -> bool {
        matches!(self, Self::Chunks | Self::UncutChunks | Self::ExternalChunks(_))
    }

    /// How label sets are seen; `None`: as they are.
    pub(crate) fn view(&self) -> Option<&ExternalView> {
        if let Self::ExternalChunks(view) | Self::ExternalLabelSets(view) = self { Some(view) } else { None }
    }
}

impl From<SeriesWanted> for Wanted {
    fn from(wanted: SeriesWanted) -> Self {
        Self::Series(wanted)
    }
}

impl From<TextsWanted> for Wanted {
    fn from(wanted: TextsWanted) -> Self {
        Self::Texts(wanted)
    }
}

/// A read of a shard: for whom, and by which epoch its cells are answered for.
#[derive(Debug, Clone)]
pub struct Read {
    /// The read that this is a part of.
    pub ticket: ReadTicket,
    /// All shards are asked by the same, so that each cell is answered for by one of them.
    pub epoch: Epoch,
    /// What is asked.
    pub request: ReadRequest,
}

/// What a shard is asked to read.
#[derive(Debug, Clone)]
pub enum ReadRequest {
    /// Find and sort what matches; answered with the first batch of about `bytes`.
    Open {
        /// Which series.
        selection: Selection,
        /// What of them.
        wanted: Wanted,
        /// One series may exceed it.
        bytes: usize,
    },
    /// The next batch.
    Fetch {
        /// Of which cursor.
        cursor: CursorId,
        /// One series may exceed it.
        bytes: usize,
    },
    /// These cursors are not wanted any more.
    Close(Vec<CursorId>),
    /// The labels, values and names with the most series, `limit` of each.
    Cardinality {
        /// Entries of each list.
        limit: usize,
    },
    /// The cells that hold a series.
    Cells,
    /// Do a step of a cut.
    Cut(CutStep),
    /// What is said of metrics whose names are the shard's.
    Metadata(MetadataWanted),
}

/// Which metadata is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataWanted {
    /// Of one metric; `None`: of all.
    pub name: Option<Box<str>>,
    /// Of those after this one.
    pub after: Option<Box<str>>,
    /// Of so many metrics.
    pub metrics_max: usize,
    /// So much of each.
    pub per_metric_max: usize,
    /// Of a page. One metric may exceed it.
    pub bytes: usize,
}

/// A part of what is said of metrics, names ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MetadataPage {
    /// Each metric whole.
    pub said: Vec<OwnedMetadata>,
    /// The name after which there is more.
    pub next: Option<Box<str>>,
}

/// What is said of a metric, on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedMetadata {
    /// Of which.
    pub name: Box<str>,
    /// Its type.
    pub kind: MetricType,
    /// What it means.
    pub help: Box<str>,
    /// What it is measured in.
    pub unit: Box<str>,
}

/// The answer to one read.
#[derive(Debug)]
pub enum ReadReply {
    /// A batch of series, and where to get the next one: nowhere after the last.
    Series(SeriesBatch, Option<CursorId>),
    /// Likewise of names or values.
    Texts(TextBatch, Option<CursorId>),
    /// Closed.
    Closed,
    /// Top lists.
    Cardinality(Cardinality),
    /// Cells by number.
    Cells(Vec<CellStats>),
    /// What came of a step of a cut.
    Cut(CutReply),
    /// A page of what is said of metrics.
    Metadata(MetadataPage),
}

/// Why a read was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShardReadError {
    /// The shard has as many cursors open as it may.
    #[error("too many reads are open: try again")]
    TooManyCursors,
    /// What it found alone takes more memory than all reads may.
    #[error(
        "the read has found more than the {bytes_max} bytes of memory that reads may take on a core hold: ask for less"
    )]
    TooLarge {
        /// What all reads may take.
        bytes_max: usize,
    },
    /// Other reads have taken what it needs, and they may be waiting for it.
    #[error("other reads have taken the memory for reads on a core: try again")]
    MemoryFull,
    /// A cell has left the shard since the read's epoch. Asked again by the next one, it is answered.
    #[error("a part of the data moved to another core meanwhile: try again")]
    Moved,
    /// The cursor expired or never was.
    #[error("the read was idle for too long and was closed")]
    UnknownCursor,
    /// Nobody waits for it any more.
    #[error("the read was cancelled")]
    Cancelled,
    /// A block on disk that it read isn't what was written. It isn't read any more.
    #[error(
        "a block on disk is damaged and was set aside, and the node says more in its log: ask again for what is left"
    )]
    BlockDamaged,
    /// A block on disk can't be read at this moment.
    #[error("a block on disk could not be read, and the node says more in its log: ask again")]
    BlockUnreadable,
    /// A damaged block on disk may have some of what is to be deleted.
    #[error(
        "a block on disk that is damaged and set aside has samples of this time, and the next start may read it again: \
         remove it, the node says in its log which it is, and ask again"
    )]
    BlockSetAside,
    /// What is to go of a block on disk can't be written down there.
    #[error("a block on disk can't be changed, and the node says more in its log")]
    BlockNotWritten,
    /// It took so long that memory has dropped what it was still to read there.
    #[error("the read took so long that what it was to find in memory went to the blocks on disk: ask again")]
    Overtaken,
    /// The shard's side of it panicked.
    #[error("the read failed inside the node, which says more in its log")]
    Panicked,
}
