//! Parts of a query that each core does for the series of its own shard: asked of all, and done for another.

use std::rc::Rc;
use std::sync::Arc;

use futures::future::{try_join, try_join_all};

use super::active::Meter;
use super::fetch::{SeriesScope, Streams};
use super::pace::SlicePace;
use super::room::QueryRoom;
use super::run::budget;
use crate::api::query::Reader;
use crate::routing::fanout::{FanoutError, retry_moved};
use crate::routing::{EvaluationError, FoldPromise, FoldReply, FoldRequest, Outside, ReadLease};
use silverback_promql::{PartialRows, Plan, Share};
use silverback_runtime as runtime;

/// Has other cores' queries done here from now on, each in a task of its own.
pub(crate) fn serve_folds(reader: &Rc<Reader>) {
    let serving = Rc::clone(reader);
    reader.router.serve_folds(move |to, request| {
        let reader = Rc::clone(&serving);
        let promise = FoldPromise::new(&reader.router, to);
        reader.count(|counts| counts.query_parts += 1);
        runtime::spawn(async move {
            let lease = reader.reads.enter_beside(request.ticket.clone());
            let room = QueryRoom::new(reader.read_bytes.begin());
            let meter = reader.active.meter(&lease, Meter::Memory(room.clone()));
            let reply = folded_here(&reader, &lease, &request, &room).await;
            drop((meter, room, lease));
            promise.keep(reply);
        });
    });
}

/// The rows of all cores, this one's among them.
pub(super) async fn folded(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    plan: &Arc<Plan>,
    outside: Option<&Arc<Outside>>,
    share: Share,
    room: &QueryRoom,
) -> Result<Vec<PartialRows>, EvaluationError> {
    retry_moved(async || {
        let (plan, ticket, epoch) = (Arc::clone(plan), lease.ticket().clone(), reader.router.read_epoch());
        let request = FoldRequest { plan, share, outside: outside.cloned(), ticket, epoch };
        let others = reader.router.shards().filter(|shard| usize::from(shard.0) != reader.router.core());
        let asked = others.map(|shard| reader.router.ask_to_fold(shard, request.clone(), lease));
        let asked = asked.collect::<Result<Vec<_>, _>>().map_err(FanoutError::from)?;
        let (own, others) = try_join(folded_here(reader, lease, &request, room), try_join_all(asked)).await?;
        Ok(std::iter::once(own).chain(others).collect())
    })
    .await
}

/// The rows of this core's shard.
async fn folded_here(
    reader: &Rc<Reader>,
    lease: &ReadLease,
    request: &FoldRequest,
    room: &QueryRoom,
) -> FoldReply {
    let FoldRequest { plan, share, outside, epoch, .. } = request;
    let budget = Rc::new(budget(reader, room));
    let _meter = reader.active.meter(lease, Meter::Samples(Rc::clone(&budget)));
    let pace = SlicePace::begin(reader, lease).await;
    let scope = SeriesScope::OwnShard(*epoch);
    let streams = Streams::new(reader, lease, plan, outside.as_ref(), scope, room, &pace);
    let rows = plan.fold(*share, &streams, &budget, &pace).await;
    rows.map_err(|error| streams.error_of(error))
}
