//! All that goes from one core to another, and what comes back by which question.

use crate::routing::active::{QueriesCall, QueriesReply};
use crate::routing::fold::{FoldReply, FoldRequest};
use silverback_storage::message::{Call, Correlation, RouteChange, ShardReply, ShardRequest};

/// All that goes from one core to another.
#[derive(Debug)]
pub enum LaneMessage {
    /// For the shard of the core that gets it.
    Request(Correlation, ShardRequest),
    /// To a request of the core that gets it.
    Reply(Correlation, CoreReply),
    /// For the routing of the core that gets it, answered by [`ShardReply::Routed`].
    Route(Correlation, RouteChange),
    /// For the queries of the core that gets it.
    Fold(Correlation, Box<FoldRequest>),
    /// About the queries of the core that gets it.
    Queries(Correlation, QueriesCall),
}
// A lane copies messages: what is large goes in a box.
const _: () = assert!(size_of::<LaneMessage>() <= 64);

/// What a core answers.
#[derive(Debug)]
pub enum CoreReply {
    /// Its shard, or its routing.
    Shard(ShardReply),
    /// Its queries.
    Folded(Box<FoldReply>),
    /// What is asked about its queries.
    Queries(Box<QueriesReply>),
}

impl From<ShardReply> for CoreReply {
    fn from(reply: ShardReply) -> Self {
        Self::Shard(reply)
    }
}

impl From<QueriesReply> for CoreReply {
    fn from(reply: QueriesReply) -> Self {
        Self::Queries(Box::new(reply))
    }
}

impl From<FoldReply> for CoreReply {
    fn from(reply: FoldReply) -> Self {
        Self::Folded(Box::new(reply))
    }
}

/// What a core is asked.
pub trait CoreCall {
    /// How it is answered.
    type Reply;

    /// Takes the reply out; `None`: it is another question's.
    fn reply_of(reply: CoreReply) -> Option<Self::Reply>;
}

impl<C: Call> CoreCall for C {
    type Reply = C::Reply;

    fn reply_of(reply: CoreReply) -> Option<C::Reply> {
        if let CoreReply::Shard(reply) = reply { C::reply_of(reply) } else { None }
    }
}
