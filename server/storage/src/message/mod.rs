//! All that may cross cores, and nothing else.
pub mod batch;
pub mod body;
mod cached_ref;
pub mod call;
pub mod definitions;
pub mod deletion;
pub mod examples;
mod external;
mod held;
pub mod migration;
pub mod migration_call;
pub mod part;
pub mod read;
pub mod read_call;
pub mod stats;
pub mod ticket;
mod uncut;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::wal::{Durable, LogError};
use silverback_model::{ExemplarRejected, RefusedCounts, RefusedReason};

pub use batch::{ChunkOf, ChunkView, Rows, SeriesBatch, SeriesBatchBuilder, SeriesView, TextBatch};
pub use body::{
    BodyBytes, LabelSource, LabelSpan, MessageSpan, PartExemplar, PartHistogram, PartMetadata, PartSeries,
    PartStart, WriteBody,
};
pub use cached_ref::{CachedRef, RefUpdates};
pub use call::{Call, CheckpointRequest, ShardCall, StatsRequest, UnsentCall};
pub use definitions::{DefinitionBlock, Definitions};
pub use deletion::{Deleted, Deletion, DeletionError, DeletionReply};
pub use examples::{Example, Examples, shortened};
pub use external::{ExternalView, HashedLabels, QueryShard};
pub use held::HeldSamples;
pub use migration::{
    MigrationPiece, MigrationRejected, MigrationReply, MigrationRequest, MigrationStep, OwnStep, PieceStep,
    PlainStep, RouteChange,
};
pub use migration_call::{MigrationCall, MigrationOf};
pub use part::{Part, PartBuffer, PartPool, PartSamples};
pub use read::{
    CursorId, MetadataPage, MetadataWanted, OwnedMetadata, Read, ReadReply, ReadRequest, Selection,
    SeriesWanted, ShardReadError, TextsWanted, Wanted,
};
pub use read_call::{
    Batch, CardinalityRequest, CellsRequest, CloseCursors, FetchRows, OpenRows, Page, ReadCall, ReadOf,
    RowCursor,
};
pub use stats::{
    AcceptorCounts, Cardinality, CellStats, CoreStats, MemoryPressure, NameCount, ShardMemory, ShardStats,
};
pub use ticket::ReadTicket;
pub use uncut::{CutReply, CutStep, UncutRange};

/// Names a request among those that a core waits for. Good for one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Correlation {
    /// The place in the waiting core's table.
    pub slot: u32,
    /// Tells the place's users apart, so that a late reply wakes nobody else.
    pub generation: u32,
}

/// What a shard is asked.
#[derive(Debug)]
pub enum ShardRequest {
    /// Take in one part of a write request.
    Write(WritePart),
    /// Anything else.
    Ask(ControlRequest),
}

/// What a shard is asked that isn't a write.
#[derive(Debug)]
pub enum ControlRequest {
    /// Read something, in slices beside the traffic, of the cells that the shard owns at an epoch.
    Read(Box<Read>),
    /// Delete samples, in slices beside the traffic, from the cells that the shard owns at an epoch.
    Delete(Box<Deletion>),
    /// Take a step of a cell's migration.
    Migration(Box<MigrationRequest>),
    /// Write a checkpoint soon, though none may be due.
    Checkpoint,
    /// Report the core's counters.
    Stats,
}

/// What a shard answers.
#[derive(Debug)]
pub enum ShardReply {
    /// To a part of a write request.
    Write(WriteReply),
    /// To a step of a migration.
    Migration(Box<Result<MigrationReply, MigrationRejected>>),
    /// A checkpoint will be written: it is on disk once the shard's count of them is this.
    CheckpointAsked(u64),
    /// The routing is changed.
    Routed,
    /// To a read.
    Read(Result<Box<ReadReply>, ShardReadError>),
    /// To a deletion.
    Deleted(Box<DeletionReply>),
    /// The core's counters.
    Stats(Box<CoreStats>),
}

/// What became of a part of a write request.
#[derive(Debug)]
pub enum WriteReply {
    /// The part's samples are as durable as the node was started to make them.
    Written(WriteAck),
    /// The shard's log takes nothing: neither this part nor, until that changes, another.
    NotDurable(LogError),
    /// The shard's memory is full: it takes no part before some of it is freed.
    MemoryFull,
}

/// One shard's part of a write request, and the bytes that it refers to.
#[derive(Debug)]
pub struct WritePart {
    /// The request.
    pub body: Arc<WriteBody>,
    /// Its series and samples that this shard owns.
    pub part: Part,
}

/// Names one stream on every core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u64);

impl StreamId {
    /// For a stream that begins now.
    pub fn issue() -> Self {
        static ISSUED: AtomicU64 = AtomicU64::new(0);
        Self(ISSUED.fetch_add(1, Ordering::Relaxed))
    }
}

/// What became of a request's exemplars, or of a part's, of which there are few.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExemplarOutcome {
    /// Kept now, retries of kept ones among them.
    pub kept: u32,
    /// Not kept, by a node that keeps some.
    pub refused: u32,
    /// Why the first of them wasn't.
    pub reason: Option<ExemplarRejected>,
}

impl ExemplarOutcome {
    /// Adds what became of others.
    pub fn add(&mut self, other: Self) {
        self.kept += other.kept;
        self.refused += other.refused;
        self.reason = self.reason.or(other.reason);
    }

    /// Counts some that aren't kept. That a node keeps none is nobody's fault.
    pub fn refuse(&mut self, reason: ExemplarRejected, exemplars: u32) {
        if exemplars > 0 && reason != ExemplarRejected::Disabled {
            self.add(Self { kept: 0, refused: exemplars, reason: Some(reason) });
        }
    }
}

/// A part's acknowledgement. Only something durable can be acknowledged.
#[derive(Debug)]
pub struct WriteAck {
    /// Samples stored, retries of stored ones among them.
    pub written: u64,
    /// Native histograms, likewise: no more than a request has bytes.
    pub histograms: u32,
    /// What became of its exemplars.
    pub exemplars: ExemplarOutcome,
    /// The part's other samples.
    pub refusals: Option<Box<RejectedSamples>>,
    /// Where series are that aren't where their sender had them.
    pub ref_updates: Option<Box<RefUpdates>>,
    /// Those that were not looked at, because they are another shard's.
    pub moved: Option<Box<MovedSeries>>,
}

/// Series of a part whose cells are another shard's by now, or are about to be. Nothing of them was
/// accepted.
#[derive(Debug)]
pub struct MovedSeries {
    /// The request.
    pub body: Arc<WriteBody>,
    /// They, with their samples, and the epoch of the table that they were split by.
    pub parts: PartBuffer,
}

impl WriteAck {
    /// Acknowledges what a commit made durable.
    pub(crate) fn new(
        _commit: &Durable,
        (written, histograms, exemplars): (u64, u64, ExemplarOutcome),
        refusals: Option<Box<RejectedSamples>>,
        (ref_updates, moved): (Option<Box<RefUpdates>>, Option<Box<MovedSeries>>),
    ) -> Self {
        Self { written, histograms: histograms as u32, exemplars, refusals, ref_updates, moved }
    }
}

/// Samples that were not accepted: how many for which reason, and some of them in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedSamples {
    /// Samples by reason.
    pub counts: RefusedCounts,
    /// Some of them, by job and reason.
    pub examples: Examples,
    /// A stream's refused series, each: its sender knows them by their refs.
    pub by_ref: Vec<RejectedRef>,
}

/// Samples of one series of a stream that were not accepted, all for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedRef {
    /// The stream's number for the series.
    pub stream_ref: u32,
    /// Why.
    pub reason: RefusedReason,
    /// How many.
    pub samples: u64,
}

impl RejectedSamples {
    /// Counts `samples` of a job under `reason`; `words` is asked as [`Examples::add`] asks it.
    pub fn refuse(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        job: &str,
        words: impl FnOnce() -> (String, String),
    ) {
        self.counts.add(reason, samples);
        self.examples.add(reason, samples, job, words);
    }

    /// Notes samples of a stream's series, which are counted already.
    pub fn note_ref(&mut self, stream_ref: u32, reason: RefusedReason, samples: u64) {
        match self.by_ref.last_mut() {
            Some(last) if (last.stream_ref, last.reason) == (stream_ref, reason) => last.samples += samples,
            Some(_) | None => self.by_ref.push(RejectedRef { stream_ref, reason, samples }),
        }
    }

    /// Adds what another part refused.
    pub(crate) fn merge(&mut self, other: Self) {
        self.counts.merge(&other.counts);
        for RejectedRef { stream_ref, reason, samples } in other.by_ref {
            self.note_ref(stream_ref, reason, samples);
        }
        self.examples.merge(other.examples);
    }
}
