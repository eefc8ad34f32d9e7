//! A part of a query that another core does where the series are: what it is asked, and what it answers.
//! How series become rows is not known here.

use std::rc::Rc;
use std::sync::Arc;

use crate::routing::fanout::{FanoutError, MayBeMoved};
use crate::routing::lane_message::{CoreCall, CoreReply};
use crate::routing::router::Router;
use silverback_model::histogram::HistogramChunkError;
use silverback_model::{Epoch, Matcher};
use silverback_promql::{PartialRows, Plan, QueryError, Share};
use silverback_storage::message::{ExternalView, ReadTicket, ShardReadError};
use silverback_storage::shard::ReplyTo;

/// Asks a core to fold the series of its shard.
#[derive(Debug, Clone)]
pub struct FoldRequest {
    /// The query.
    pub plan: Arc<Plan>,
    /// Which part of it.
    pub share: Share,
    /// How its series are seen; `None`: as they are.
    pub outside: Option<Arc<Outside>>,
    /// The read that this is a part of.
    pub ticket: ReadTicket,
    /// All cores are asked by the same, so that each cell is answered for by one of them.
    pub epoch: Epoch,
}

/// How a query sees series from outside the node: with external labels, which have decided about matchers of their names.
#[derive(Debug)]
pub struct Outside {
    /// What is seen of label sets.
    pub view: Arc<ExternalView>,
    /// Of each of the plan's selects the matchers about series' own labels; `None`: external labels match none.
    pub matchers: Vec<Option<Arc<[Matcher]>>>,
}

/// Rows.
pub type FoldReply = Result<PartialRows, EvaluationError>;

impl CoreCall for FoldRequest {
    type Reply = FoldReply;

    fn reply_of(reply: CoreReply) -> Option<FoldReply> {
        if let CoreReply::Folded(reply) = reply { Some(*reply) } else { None }
    }
}

/// Owes another core a reply; dropped without one, in a panic, it says so.
pub(crate) struct FoldPromise {
    router: Rc<Router>,
    to: Option<ReplyTo>,
}

impl FoldPromise {
    pub(crate) fn new(router: &Rc<Router>, to: ReplyTo) -> Self {
        Self { router: Rc::clone(router), to: Some(to) }
    }

    /// Sends the reply.
    pub(crate) fn keep(mut self, reply: FoldReply) {
        if let Some(to) = self.to.take() {
            self.router.reply(to, reply);
        }
    }
}

impl Drop for FoldPromise {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            self.router.reply(to, FoldReply::Err(FanoutError::from(ShardReadError::Panicked).into()));
        }
    }
}

/// Why a query, or a core's part of it, was not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The shards didn't give its series.
    #[error(transparent)]
    Shards(#[from] FanoutError),
    /// A chunk of native histograms in memory can't be read.
    #[error(transparent)]
    Histograms(#[from] HistogramChunkError),
    /// The evaluation itself.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl MayBeMoved for EvaluationError {
    fn is_moved(&self) -> bool {
        matches!(self, Self::Shards(FanoutError::Refused(ShardReadError::Moved)))
    }
}
