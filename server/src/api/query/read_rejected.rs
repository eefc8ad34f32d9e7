//! Why a read wasn't answered, or a deletion not done: in words, by cause, and when to ask again.

use std::time::Duration;

use http::header::{ALLOW, CONNECTION, HeaderMap, HeaderValue, RETRY_AFTER};

use crate::api::core::CoreContext;
use crate::api::http::request_body::BodyError;
use crate::api::query::range_blocks::RangeBlocksError;
use crate::api::response::NodeResponse;
use crate::api::response::cause::Cause;
use crate::routing::fanout::FanoutError;
use crate::routing::{DeletionFanoutError, EvaluationError, ReadGateRejected, ReservationError};
use silverback_model::gorilla::ChunkError;
use silverback_model::histogram::HistogramChunkError;
use silverback_promql::QueryError;
use silverback_runtime::SideThreadError;
use silverback_storage::message::{Deleted, DeletionError, ShardReadError};
use silverback_storage::wal::progress::Replaying;

/// When to come again after the node had too much in flight.
const RETRY_AFTER_PASSING: Duration = Duration::from_secs(1);

/// Refuses reads, and what changes data on demand, until all data is back.
pub(crate) fn check_replayed(core: &CoreContext) -> Result<(), ReadRejected> {
    core.replaying().map_or(Ok(()), |replaying| Err(ReadRejected::Replaying(replaying)))
}

/// Why a read wasn't answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadRejected {
    /// The request means nothing.
    #[error("{0}")]
    BadRequest(String),
    /// Another method than the ones named.
    #[error("only {0} is allowed here")]
    Method(&'static str),
    /// The node was not started to do such things.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// One deletion at a time is all that a node has on.
    #[error("another deletion is in progress, and this node runs one at a time: try again once it has ended")]
    DeletionGoesOn,
    /// One snapshot at a time is all that a node writes.
    #[error(
        "another snapshot is being written, and this node writes one at a time: try again once it is there"
    )]
    SnapshotGoesOn,
    /// Blocks were not written.
    #[error(transparent)]
    Writing(RangeBlocksError),
    /// A deletion was not done to its end.
    #[error(transparent)]
    PartialDeletion(PartialDeletionError),
    /// A content type or encoding that isn't spoken here.
    #[error("{0}")]
    MediaType(String),
    /// The body couldn't be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The answer would be larger than an answer may be.
    #[error("the read touches more than {0} samples: ask for less, or for STREAMED_XOR_CHUNKS")]
    TooManySamples(u64),
    /// The answer is one message, and would be larger than one may be.
    #[error("the answer is larger than {bytes_max} bytes: ask for less")]
    AnswerTooLarge {
        /// What a message may have.
        bytes_max: usize,
    },
    /// The index's statistics are more than reads may hold.
    #[error(
        "the lists take more than the {bytes_max} bytes of memory that reads may have here: lower limit={limit}, for \
         which each shard returns up to {asked} entries of each list"
    )]
    ListsTooLarge {
        /// What a list shows.
        limit: usize,
        /// What each shard is asked for.
        asked: usize,
        /// What reads may have.
        bytes_max: usize,
    },
    /// What is made whole before it is sent, or waits, has no memory beside other reads.
    #[error("reads in flight have all the memory that reads may have: try again later")]
    BudgetExceeded,
    /// As many reads wait as may.
    #[error(transparent)]
    TooManyReads(#[from] ReadGateRejected),
    /// What would hold the core could not be done beside it.
    #[error(transparent)]
    SideThread(#[from] SideThreadError),
    /// Not all data is back yet.
    #[error("not ready: {0}")]
    Replaying(Replaying),
    /// The shards didn't answer.
    #[error(transparent)]
    Shards(#[from] FanoutError),
    /// It took too long.
    #[error("the read took longer than {0:?}")]
    TimedOut(Duration),
    /// A chunk in memory can't be read.
    #[error("a stored chunk can't be read: {0}")]
    Chunk(#[from] ChunkError),
    /// An expression that takes more to evaluate than a query may have, however often it is asked.
    #[error("{0}; or start the node with a larger --query-memory, or --memory-limit")]
    QueryTooLarge(QueryError),
    /// An expression that can't be evaluated.
    #[error(transparent)]
    Query(QueryError),
    /// A query whose turn didn't come.
    #[error(transparent)]
    QueryQueue(#[from] QueryQueueError),
    /// A chunk of native histograms in memory can't be read.
    #[error("a stored chunk of histograms can't be read: {0}")]
    Histograms(#[from] HistogramChunkError),
    /// Nothing to cancel.
    #[error(
        "no active query has the id {0}: it has ended, or never was; /api/v1/status/active_queries lists those there are"
    )]
    NoSuchQuery(String),
}

/// Why a query's turn didn't come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryQueueError {
    /// As many wait as may.
    #[error("as many queries wait for others to end as this node allows: try again later")]
    Full,
    /// Its time was over.
    #[error("query timed out in query queue")]
    TimedOut,
    /// Somebody had it cancelled before its turn.
    #[error("query was canceled in query queue")]
    Canceled,
}

/// How far a deletion came, and why no further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{why}: {} series were deleted whole and {} in part, {} samples in all, and others may be left: delete them again",
    deleted.series, deleted.series_cut, deleted.samples
)]
pub(crate) struct PartialDeletionError {
    /// What went.
    pub deleted: Deleted,
    /// Why not all of it did.
    pub why: DeletionFanoutError,
}

impl PartialDeletionError {
    /// What a read gets that was stopped by the same; `None`: no read is, because it is the log.
    fn as_read(&self) -> Option<ReadRejected> {
        match &self.why {
            DeletionFanoutError::Overloaded(overloaded) => Some(FanoutError::from(*overloaded).into()),
            DeletionFanoutError::Stopped(DeletionError::Read(error)) => {
                Some(FanoutError::from(*error).into())
            }
            DeletionFanoutError::Stopped(DeletionError::Log(_)) => None,
        }
    }
}

/// Of an answer that is made whole.
impl From<ReservationError> for ReadRejected {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Full => Self::BudgetExceeded,
            ReservationError::TooMuch { bytes_max } => Self::AnswerTooLarge { bytes_max },
        }
    }
}

impl From<QueryError> for ReadRejected {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::TooMuchMemory { .. } => Self::QueryTooLarge(error),
            other => Self::Query(other),
        }
    }
}

impl From<EvaluationError> for ReadRejected {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Shards(error) => Self::Shards(error),
            EvaluationError::Histograms(error) => Self::Histograms(error),
            EvaluationError::Query(error) => error.into(),
        }
    }
}

/// What a read answers over HTTP, or why it can't.
pub(crate) type ReadAnswer = Result<NodeResponse, ReadRejected>;

impl ReadRejected {
    /// What its caller can do about it.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::BadRequest(_) => Cause::Invalid,
            Self::SnapshotGoesOn => Cause::Conflict,
            Self::Writing(fault) => of_writing(fault),
            Self::Method(_) => Cause::Method,
            Self::NotAllowed(_) => Cause::NotAllowed,
            Self::MediaType(_) => Cause::MediaType,
            Self::Body(BodyError::TooLarge(_)) => Cause::TooLarge,
            Self::Body(BodyError::TimedOut(_)) => Cause::LateBody,
            Self::Body(BodyError::BrokeOff(_)) => Cause::BrokeOff,
            Self::TooManySamples(_)
            | Self::AnswerTooLarge { .. }
            | Self::ListsTooLarge { .. }
            | Self::Shards(FanoutError::Refused(ShardReadError::TooLarge { .. })) => Cause::AsksTooMuch,
            Self::PartialDeletion(stopped) => {
                stopped.as_read().map_or(Cause::NotReady, |fault| fault.cause())
            }
            Self::Body(BodyError::BudgetExceeded)
            | Self::BudgetExceeded
            | Self::TooManyReads(_)
            | Self::DeletionGoesOn
            | Self::SideThread(SideThreadError::Busy)
            | Self::Shards(
                FanoutError::Overloaded(_)
                | FanoutError::Refused(
                    ShardReadError::TooManyCursors | ShardReadError::MemoryFull | ShardReadError::Moved,
                ),
            ) => Cause::Overloaded,
            Self::Shards(FanoutError::Refused(ShardReadError::UnknownCursor | ShardReadError::Overtaken))
            | Self::TimedOut(_) => Cause::TimedOut,
            Self::Replaying(_) => Cause::NotReady,
            Self::Shards(FanoutError::Refused(ShardReadError::Cancelled)) => Cause::Cancelled,
            Self::SideThread(SideThreadError::Panicked)
            | Self::Shards(FanoutError::Refused(
                ShardReadError::Panicked
                | ShardReadError::BlockDamaged
                | ShardReadError::BlockUnreadable
                | ShardReadError::BlockSetAside
                | ShardReadError::BlockNotWritten,
            )) => Cause::Internal,
            Self::Chunk(_) | Self::Histograms(_) | Self::Query(QueryError::Storage(_)) => Cause::DataLoss,
            Self::Query(QueryError::BadData(_)) => Cause::Invalid,
            Self::QueryTooLarge(_)
            | Self::Query(
                QueryError::Execution(_) | QueryError::TooManySamples | QueryError::TooMuchMemory { .. },
            ) => Cause::Unanswerable,
            Self::Query(QueryError::Source) => Cause::Internal,
            Self::Query(QueryError::BudgetExceeded) | Self::QueryQueue(QueryQueueError::Full) => {
                Cause::Overloaded
            }
            Self::Query(QueryError::Timeout) | Self::QueryQueue(QueryQueueError::TimedOut) => Cause::TimedOut,
            Self::Query(QueryError::Canceled) | Self::QueryQueue(QueryQueueError::Canceled) => {
                Cause::Cancelled
            }
            Self::NoSuchQuery(_) => Cause::NotFound,
        }
    }

    /// Whether others have the memory that it takes.
    pub(crate) fn is_for_room(&self) -> bool {
        matches!(self, Self::BudgetExceeded | Self::Query(QueryError::BudgetExceeded))
    }

    /// When the same may be asked again, where it passes by itself.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let passes = match (self.cause(), self) {
            // Whoever had it cancelled doesn't want it back.
            (_, Self::Query(QueryError::Canceled) | Self::QueryQueue(QueryQueueError::Canceled)) => false,
            // Not before somebody makes room.
            (Cause::NotReady, Self::Writing(_)) => false,
            (Cause::Overloaded | Cause::NotReady | Cause::TimedOut | Cause::Cancelled, _) => true,
            // A shard's panic was that of one read.
            (Cause::Internal, Self::Shards(_) | Self::PartialDeletion(_)) => true,
            _stays => false,
        };
        passes.then_some(RETRY_AFTER_PASSING)
    }

    /// Adds the headers that the status calls for.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        if let Self::Method(allowed) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        if let Self::Body(_) = self {
            // The rest of the body is not waited for.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(after) = self.retry_after() {
            headers.insert(RETRY_AFTER, after.as_secs().into());
        }
    }
}

fn of_writing(fault: &RangeBlocksError) -> Cause {
    match fault {
        RangeBlocksError::StorageNearlyFull { .. } | RangeBlocksError::StorageFull(_) => Cause::NotReady,
        RangeBlocksError::Disk(_) => Cause::Internal,
        RangeBlocksError::Stored(_) => Cause::DataLoss,
        RangeBlocksError::TooLarge { .. } | RangeBlocksError::TooManyRanges { .. } => Cause::Unanswerable,
        RangeBlocksError::Deleted | RangeBlocksError::Ended => Cause::Cancelled,
    }
}
