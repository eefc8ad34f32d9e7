//! One deletion on all shards, each cell on the one that has it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::routing::{Overloaded, ReadLease, Router};
use silverback_storage::message::{Deleted, DeletionError, DeletionReply, Selection, ShardReadError};

/// How often the shards are asked while cells leave them. What went before is nothing to do any more, so each time
/// is shorter than the one before.
const TRIES: usize = 8;

/// Why not everything was deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeletionFanoutError {
    /// A shard has too much in flight.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// A shard could not do its part to the end.
    #[error(transparent)]
    Stopped(#[from] DeletionError),
}

/// Deletes what any of the selections has, and returns how much went, also where not all of it did. `wait_max` is how
/// long cells on their way may still be waited for.
pub async fn delete(
    router: &Router,
    lease: &ReadLease,
    selections: &Arc<[Selection]>,
    wait_max: impl Fn() -> Duration,
) -> (Deleted, Result<(), DeletionFanoutError>) {
    let (mut deleted, mut ended) = (Deleted::default(), Ok(()));
    for _ in 0..TRIES {
        ended = delete_once(router, (lease, wait_max()), selections, &mut deleted).await;
        if ended != Err(DeletionError::Read(ShardReadError::Moved).into()) {
            break;
        }
    }
    (deleted, ended)
}

/// All shards are asked by one epoch. Of what stops them, a cell that moved comes last: asked again, they would meet
/// the others as well.
async fn delete_once(
    router: &Router,
    (lease, wait_max): (&ReadLease, Duration),
    selections: &Arc<[Selection]>,
    deleted: &mut Deleted,
) -> Result<(), DeletionFanoutError> {
    let epoch = router.read_epoch();
    let ask = |shard| router.ask_to_delete(shard, epoch, selections, (lease, wait_max));
    let asked: Vec<_> = router.shards().map(ask).collect();
    let (mut stopped, mut has_moved) = (Ok(()), false);
    for reply in join_all(asked.into_iter().map(|answer| async { Ok(answer?.await) })).await {
        let ended: Result<(), DeletionFanoutError> =
            reply.and_then(|DeletionReply { deleted: of_shard, ended }| {
                *deleted += of_shard;
                Ok(ended?)
            });
        match ended {
            Err(DeletionFanoutError::Stopped(DeletionError::Read(ShardReadError::Moved))) => has_moved = true,
            ended => stopped = stopped.and(ended),
        }
    }
    stopped?;
    if has_moved { Err(DeletionError::Read(ShardReadError::Moved).into()) } else { Ok(()) }
}
