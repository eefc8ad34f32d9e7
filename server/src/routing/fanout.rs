//! One question to all shards, and their answers together.

use std::cmp::Reverse;

use crate::routing::{Overloaded, ReadLease, ReplyFuture, Router};
use silverback_model::{Epoch, ShardId};
use silverback_storage::message::{
    CellStats, CellsRequest, CheckpointRequest, CoreStats, ReadCall, ReadOf, ShardReadError, StatsRequest,
};

/// Why a question to the shards wasn't answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FanoutError {
    /// A shard has too much in flight.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// A shard refused.
    #[error(transparent)]
    Refused(#[from] ShardReadError),
}

/// How often a read is asked that met a cell's leaving a shard. One epoch later it is settled.
const TRIES: usize = 4;

/// What a question to all shards may fail with.
pub(crate) trait MayBeMoved {
    /// A cell moved meanwhile: the same may be asked again.
    fn is_moved(&self) -> bool;
}

impl MayBeMoved for FanoutError {
    fn is_moved(&self) -> bool {
        matches!(self, Self::Refused(ShardReadError::Moved))
    }
}

/// Asks again where a cell moved meanwhile.
pub(crate) async fn retry_moved<T, E: MayBeMoved>(asking: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match asking().await {
            Err(error) if error.is_moved() => {}
            answered => return answered,
        }
    }
    asking().await
}

/// Asks every shard the same for a client's read, and gives their answers in the shards' order.
pub(crate) async fn read_all<Q: ReadCall + Clone>(
    router: &Router,
    lease: &ReadLease,
    question: &Q,
) -> Result<Vec<Q::Reply>, FanoutError> {
    retry_moved(async || read_all_once(router, lease, question).await.into_iter().collect()).await
}

/// All of them by one epoch: so each cell is answered for by one shard, though it moves meanwhile.
pub(crate) async fn read_all_once<Q: ReadCall + Clone>(
    router: &Router,
    lease: &ReadLease,
    question: &Q,
) -> Vec<Result<Q::Reply, FanoutError>> {
    let epoch = router.read_epoch();
    let ask = |shard| router.ask_to_read(shard, epoch, question.clone(), lease);
    replies(router.shards().map(ask).collect()).await
}

/// Likewise for the node itself, which looks at something small.
async fn look_all<Q: ReadCall + Clone>(router: &Router, question: &Q) -> Result<Vec<Q::Reply>, FanoutError> {
    let look_once = async || {
        let epoch: Epoch = router.read_epoch();
        let ask = |shard| router.ask_to_look(shard, epoch, question.clone());
        replies(router.shards().map(ask).collect()).await.into_iter().collect()
    };
    retry_moved(look_once).await
}

/// All were asked already: waiting for one after the other takes no longer than for all at once.
async fn replies<Q: ReadCall>(
    asked: Vec<Result<ReplyFuture<ReadOf<Q>>, Overloaded>>,
) -> Vec<Result<Q::Reply, FanoutError>> {
    let mut replies = Vec::with_capacity(asked.len());
    for reply in asked {
        replies.push(match reply {
            Ok(reply) => reply.await.map_err(FanoutError::from),
            Err(overloaded) => Err(overloaded.into()),
        });
    }
    replies
}

/// Every core's counters.
pub(crate) async fn stats(router: &Router) -> Result<Vec<CoreStats>, FanoutError> {
    let ask = |shard| router.ask(shard, StatsRequest).map_err(Overloaded::from);
    let asked = router.shards().map(ask).collect::<Result<Vec<_>, _>>()?;
    let mut replies = Vec::with_capacity(asked.len());
    for reply in asked {
        replies.push(reply.await);
    }
    Ok(replies)
}

/// Asks a shard for a checkpoint; returns its count of them once that one is on disk.
pub(crate) async fn checkpoint(router: &Router, shard: ShardId) -> Result<u64, FanoutError> {
    Ok(router.ask(shard, CheckpointRequest).map_err(Overloaded::from)?.await)
}

/// The cells that hold a series, by number, each with its shard.
pub(crate) async fn cells(router: &Router) -> Result<Vec<(ShardId, CellStats)>, FanoutError> {
    let replies = look_all(router, &CellsRequest).await?;
    Ok(merged(router.shards().zip(replies)))
}

/// One shard answers for a cell's series; its load is what all shards remember of it.
fn merged(of_shards: impl Iterator<Item = (ShardId, Vec<CellStats>)>) -> Vec<(ShardId, CellStats)> {
    let mut all: Vec<(ShardId, CellStats)> =
        of_shards.flat_map(|(shard, cells)| cells.into_iter().map(move |stats| (shard, stats))).collect();
    // The one that answers comes first.
    all.sort_unstable_by_key(|(_, stats)| (stats.cell, Reverse(stats.series)));
    all.dedup_by(|(_, other), (_, answered)| {
        let is_same = other.cell == answered.cell;
        if is_same {
            answered.samples_per_s += other.samples_per_s;
            answered.busy_us_per_s += other.busy_us_per_s;
        }
        is_same
    });
    all.retain(|(_, stats)| stats.series > 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::CellId;

    #[test]
    fn a_cell_is_its_owner_s_with_the_load_that_all_shards_remember() {
        let stats = |cell, series, busy_us_per_s| CellStats {
            cell: CellId(cell),
            series,
            samples: 1,
            bytes: 0,
            samples_per_s: 10 * busy_us_per_s,
            busy_us_per_s,
        };
        let first = vec![stats(1, 0, 3), stats(2, 5, 4), stats(3, 0, 9)];
        let second = vec![stats(1, 7, 20), stats(9, 1, 0)];
        let merged = merged([(ShardId(0), first), (ShardId(1), second)].into_iter());
        let told: Vec<_> = merged
            .iter()
            .map(|(shard, stats)| (stats.cell.0, shard.0, stats.series, stats.busy_us_per_s))
            .collect();
        assert_eq!(told, [(1, 1, 7, 23), (2, 0, 5, 4), (9, 1, 1, 0)]);
        assert_eq!(merged[0].1.samples_per_s, 230);
    }
}
