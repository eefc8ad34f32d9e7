//! What a shard is asked, and answers, while a cell moves from one shard to another.
//!
//! The one who moves it asks both shards in turn; neither speaks to the other.

use crate::wal::LogError;
use silverback_model::{CellId, Epoch, ShardId};

/// A step of a cell's migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationRequest {
    /// Which cell.
    pub cell: CellId,
    /// From which on it is to be the target's: tells migrations of the same cell apart.
    pub epoch: Epoch,
    /// What is to be done.
    pub step: MigrationStep,
}

/// What is asked of the *source*, which has the cell, or of the *target*, which gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationStep {
    /// Done, or refused.
    Plain(PlainStep),
    /// Answered with a piece.
    Piece(PieceStep),
    /// Answered with the series that the cell has.
    Own(OwnStep),
}

/// Steps that are done, or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlainStep {
    /// To the target: make ready to take the cell in.
    Expect,
    /// To the target: take a piece in.
    Take(MigrationPiece),
    /// To the source: it is the target's; release it.
    Release {
        /// Whose it is.
        to: ShardId,
    },
    /// To the target: it won't get the cell after all.
    Discard {
        /// Whose it stays.
        from: ShardId,
    },
    /// To the source: it keeps the cell after all. From the next epoch on it takes writes again: those
    /// of earlier ones stay refused, so that none overtakes one that was refused before.
    Keep,
}

/// Steps that the source answers with a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceStep {
    /// To the source: the next piece of a pass over the cell's series. The first pass has all of
    /// them, each later one what came since the one before.
    Copy,
    /// To the source: take no more writes for the cell, and give the first piece of its last pass. Reads
    /// of earlier epochs are answered on.
    Drain,
}

/// To the target: with this piece it has all of the cell; it is to own it for good, and to answer
/// reads for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnStep {
    /// Whose it was.
    pub from: ShardId,
    /// The last piece.
    pub rest: MigrationPiece,
}

/// Series of a cell, or what came to them since, as records.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MigrationPiece {
    /// As a frame of the log has them.
    pub payload: Vec<u8>,
    /// Series in it, whole or in part.
    pub series: u64,
    /// Whether it ends its pass. Only such a piece may be empty.
    pub is_last: bool,
    /// Whether it is of a drained cell: writes wait until the target has it.
    pub is_waited_for: bool,
}

impl std::fmt::Debug for MigrationPiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {} series", self.payload.len(), self.series)
    }
}

/// How a shard answers a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationReply {
    /// It is done.
    Done,
    /// A piece of the pass.
    Copied(MigrationPiece),
    /// The cell is the target's, with so many series.
    Owned {
        /// Series.
        series: u64,
    },
}

/// Why a shard doesn't take a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRejected {
    /// The cell isn't its own to give, or it has begun to give it away already.
    #[error("the shard doesn't have the cell to give")]
    NotHeld,
    /// It takes a cell in, or gives this one away, or still holds what it gave away for reads.
    #[error("the shard is busy with an earlier migration, or with reads from before it")]
    Busy,
    /// The step doesn't follow from the one before.
    #[error("the shard does not expect this step of the migration")]
    OutOfStep,
    /// Its memory, or its number of series, has no room for the cell.
    #[error("the shard has no room for the cell")]
    Full,
    /// A piece can't be read.
    #[error("the cell's copy can't be read: {0}")]
    Unreadable(Box<str>),
    /// Its log accepts nothing.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A change of the routing that a core takes over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange {
    /// Reads are asked by this epoch from now on.
    Reads(Epoch),
    /// A cell's writes go to this shard from now on, reads by the same epoch.
    Writes {
        /// Of the changed table.
        epoch: Epoch,
        /// Which.
        cell: CellId,
        /// Its shard.
        owner: ShardId,
    },
}
