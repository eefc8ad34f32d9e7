//! What the one who moves a cell asks of its shards, each step with the type of its answer. In which order is not
//! known here.

use super::{
    Call, ControlRequest, MigrationRejected, MigrationReply, MigrationRequest, MigrationStep, Piece,
    ShardCall, ShardReply, ShardRequest,
};
use silverback_model::{CellId, Epoch, ShardId};

/// A step, and how it is answered.
pub trait MigrationCall: Into<MigrationStep> {
    /// What its asker gets.
    type Reply;

    /// Takes the reply out; `None`: it is another step's.
    fn reply_of(reply: MigrationReply) -> Option<Self::Reply>;
}

/// Steps that are done, or refused.
#[derive(Debug)]
pub enum PlainStep {
    /// [`MigrationStep::Expect`]
    Expect,
    /// [`MigrationStep::Take`]
    Take(Piece),
    /// [`MigrationStep::Release`]
    Release {
        /// Whose it is.
        to: ShardId,
    },
    /// [`MigrationStep::Discard`]
    Discard {
        /// Whose it stays.
        from: ShardId,
    },
    /// [`MigrationStep::Keep`]
    Keep,
}

impl From<PlainStep> for MigrationStep {
    fn from(step: PlainStep) -> Self {
        match step {
            PlainStep::Expect => Self::Expect,
            PlainStep::Take(piece) => Self::Take(piece),
            PlainStep::Release { to } => Self::Release { to },
            PlainStep::Discard { from } => Self::Discard { from },
            PlainStep::Keep => Self::Keep,
        }
    }
}

impl MigrationCall for PlainStep {
    type Reply = ();

    fn reply_of(reply: MigrationReply) -> Option<()> {
        if let MigrationReply::Done = reply { Some(()) } else { None }
    }
}

/// Steps that the source answers with a piece.
#[derive(Debug, Clone, Copy)]
pub enum PieceStep {
    /// [`MigrationStep::Copy`]
    Copy,
    /// [`MigrationStep::Drain`]
    Drain,
}

impl From<PieceStep> for MigrationStep {
    fn from(step: PieceStep) -> Self {
        match step {
            PieceStep::Copy => Self::Copy,
            PieceStep::Drain => Self::Drain,
        }
    }
}

impl MigrationCall for PieceStep {
    type Reply = Piece;

    fn reply_of(reply: MigrationReply) -> Option<Piece> {
        if let MigrationReply::Copied(piece) = reply { Some(piece) } else { None }
    }
}

/// [`MigrationStep::Own`]; answered with the series that the cell has.
#[derive(Debug)]
pub struct OwnStep {
    /// Whose it was.
    pub from: ShardId,
    /// The last piece.
    pub rest: Piece,
}

impl From<OwnStep> for MigrationStep {
    fn from(OwnStep { from, rest }: OwnStep) -> Self {
        Self::Own { from, rest }
    }
}

impl MigrationCall for OwnStep {
    type Reply = u64;

    fn reply_of(reply: MigrationReply) -> Option<u64> {
        if let MigrationReply::Owned { series } = reply { Some(series) } else { None }
    }
}

/// Such a step of one migration, as a shard is asked it.
#[derive(Debug)]
pub struct MigrationOf<S> {
    /// Which cell.
    pub cell: CellId,
    /// From which on it is to be the target's.
    pub epoch: Epoch,
    /// What is to be done.
    pub step: S,
}

impl<S: MigrationCall> From<MigrationOf<S>> for ShardRequest {
    fn from(MigrationOf { cell, epoch, step }: MigrationOf<S>) -> Self {
        let request = MigrationRequest { cell, epoch, step: step.into() };
        Self::Ask(ControlRequest::Migration(Box::new(request)))
    }
}

impl<S: MigrationCall> ShardCall for MigrationOf<S> {}

impl<S: MigrationCall> Call for MigrationOf<S> {
    type Reply = Result<S::Reply, MigrationRejected>;

    fn reply_of(reply: ShardReply) -> Option<Self::Reply> {
        let ShardReply::Migration(reply) = reply else { return None };
        match *reply {
            Ok(reply) => S::reply_of(reply).map(Ok),
            Err(rejected) => Some(Err(rejected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_its_own_reply_and_no_other() {
        let owned = || MigrationReply::Owned { series: 7 };
        assert_eq!(OwnStep::reply_of(owned()), Some(7));
        assert_eq!((PieceStep::reply_of(owned()), PlainStep::reply_of(owned())), (None, None));
        let refused = ShardReply::Migration(Box::new(Err(MigrationRejected::Full)));
        assert_eq!(<MigrationOf<OwnStep>>::reply_of(refused), Some(Err(MigrationRejected::Full)));
    }
}
