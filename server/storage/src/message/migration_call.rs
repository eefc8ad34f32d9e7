//! What the one who moves a cell asks of its shards, each step with the type of its answer. In which order is not
//! known here.

use super::call::question;
use super::{
    Call, ControlRequest, MigrationPiece, MigrationRejected, MigrationReply, MigrationRequest, MigrationStep,
    OwnStep, PieceStep, PlainStep, ShardReply, ShardRequest,
};
use silverback_model::{CellId, Epoch};

/// A step, and how it is answered.
pub trait MigrationCall: Into<MigrationStep> {
    /// What its asker gets.
    type Reply;

    /// Takes the reply out; `None`: it is another step's.
    fn reply_of(reply: MigrationReply) -> Option<Self::Reply>;
}

question!(PlainStep: MigrationCall(MigrationStep, MigrationReply),
    step => Self::Plain(step), MigrationReply::Done => (), ());
question!(PieceStep: MigrationCall(MigrationStep, MigrationReply),
    step => Self::Piece(step), MigrationReply::Copied(piece) => piece, MigrationPiece);
question!(OwnStep: MigrationCall(MigrationStep, MigrationReply),
    step => Self::Own(step), MigrationReply::Owned { series } => series, u64);

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
