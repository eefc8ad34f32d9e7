//! Which reply a question gets: each names its type, so that no asker looks for another's. How questions
//! and replies cross cores is not known here.

use std::marker::PhantomData;

use crate::message::{
    ControlRequest, CoreStats, Deletion, DeletionReply, RouteChange, ShardReply, ShardRequest, WritePart,
    WriteReply,
};

/// What a core is asked.
pub trait Call {
    /// How it is answered.
    type Reply;

    /// Takes the reply out; `None`: it is another question's.
    fn reply_of(reply: ShardReply) -> Option<Self::Reply>;
}

/// What the shard of a core is asked.
pub trait ShardCall: Call + Into<ShardRequest> {}

impl<C: Call + Into<ShardRequest>> ShardCall for C {}

/// Asks for a core's counters.
#[derive(Debug, Clone, Copy)]
pub struct StatsRequest;

/// Asks for a checkpoint soon, though none may be due; answered with the shard's count of them once it is
/// on disk.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointRequest;

/// A question on its way. A refused one comes back as this, and is asked again without a copy.
#[derive(Debug)]
pub struct UnsentCall<C> {
    request: ShardRequest,
    call: PhantomData<fn() -> C>,
}

impl<C: ShardCall> From<C> for UnsentCall<C> {
    fn from(call: C) -> Self {
        Self { request: call.into(), call: PhantomData }
    }
}

impl<C> UnsentCall<C> {
    /// Asks with what `offer` does with the request, which it may give back.
    pub fn offer<T>(self, offer: impl FnOnce(ShardRequest) -> Result<T, ShardRequest>) -> Result<T, Self> {
        offer(self.request).map_err(|request| Self { request, call: PhantomData })
    }
}

/// A question of a kind, the request that it is, the reply that answers it, and what that is to its asker.
macro_rules! question {
    ($call:ty: $kind:ident($request_type:ident, $reply_type:ident),
     $question:pat => $request:expr, $reply:pat => $taken:expr, $taken_type:ty) => {
        impl From<$call> for $request_type {
            fn from($question: $call) -> Self {
                $request
            }
        }

        impl $kind for $call {
            type Reply = $taken_type;

            fn reply_of(reply: $reply_type) -> Option<$taken_type> {
                if let $reply = reply { Some($taken) } else { None }
            }
        }
    };
}
pub(super) use question;

question!(WritePart: Call(ShardRequest, ShardReply),
    part => Self::Write(part), ShardReply::Write(reply) => reply, WriteReply);
question!(Box<Deletion>: Call(ShardRequest, ShardReply),
    deletion => Self::Ask(ControlRequest::Delete(deletion)), ShardReply::Deleted(reply) => *reply, DeletionReply);
question!(CheckpointRequest: Call(ShardRequest, ShardReply),
    CheckpointRequest => Self::Ask(ControlRequest::Checkpoint), ShardReply::CheckpointAsked(count) => count, u64);
question!(StatsRequest: Call(ShardRequest, ShardReply),
    StatsRequest => Self::Ask(ControlRequest::Stats), ShardReply::Stats(stats) => *stats, CoreStats);

impl Call for RouteChange {
    type Reply = ();

    fn reply_of(reply: ShardReply) -> Option<()> {
        matches!(reply, ShardReply::Routed).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_takes_its_own_reply_and_no_other() {
        assert_eq!(CheckpointRequest::reply_of(ShardReply::CheckpointAsked(3)), Some(3));
        assert_eq!(CheckpointRequest::reply_of(ShardReply::Routed), None);
        assert_eq!(RouteChange::reply_of(ShardReply::Routed), Some(()));
        assert!(WritePart::reply_of(ShardReply::Write(WriteReply::MemoryFull)).is_some());
        assert!(WritePart::reply_of(ShardReply::Routed).is_none());
    }

    #[test]
    fn a_refused_question_comes_back_as_it_was() {
        let refuse = |request| -> Result<(), ShardRequest> { Err(request) };
        let back = UnsentCall::from(CheckpointRequest).offer(refuse).unwrap_err();
        let is_it = |request| matches!(request, ShardRequest::Ask(ControlRequest::Checkpoint));
        assert!(back.offer(|request| Ok(is_it(request))).unwrap());
    }
}
