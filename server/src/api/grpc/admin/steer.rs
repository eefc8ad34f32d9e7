//! What an operator says about where cells go, and when checkpoints are written. Each change is logged
//! once: it may be asked who moved what.

use silverback_proto::v1::{DrainShardResponse, MoveCellResponse, WriteCheckpointResponse};
use tonic::Status;

use super::look::{asked, owned_cells};
use crate::api::cell_mover::CellMover;
use crate::api::grpc::status;
use crate::api::query::read_rejected::check_replayed;
use crate::api::response::cause::Cause;
use crate::config::{AdminAccess, RebalanceMode};
use crate::migration::Trigger;
use crate::rebalance::{DrainState, Motion, Movable};
use crate::routing::fanout;
use silverback_model::{CellId, ShardId};

/// Whether the node takes changes at all.
pub(crate) fn check_access(mover: &CellMover) -> Result<(), Status> {
    match mover.config.admin_api {
        AdminAccess::Full => check_replayed(mover).map_err(|fault| status::of_read_rejected(&fault)),
        AdminAccess::ReadOnly => {
            Err(Cause::NotAllowed
                .status("this node takes no changes: it was started without --admin-api=full"))
        }
    }
}

/// Keeps a cell where it is.
pub(crate) fn pin(mover: &CellMover, cell: CellId) {
    mover.node.steering.pin(cell);
    tracing::info!(cell = cell.0, shard = mover.router.table().owner(cell).0, "a cell was pinned");
}

/// Lets a cell be moved.
pub(crate) fn unpin(mover: &CellMover, cell: CellId) {
    mover.node.steering.unpin(cell);
    tracing::info!(cell = cell.0, "a cell was unpinned");
}

/// Pauses, or goes on.
pub(crate) fn set_motion(mover: &CellMover, motion: Motion) -> Result<(), Status> {
    check_rebalances(mover)?;
    mover.node.steering.set_motion(motion);
    match motion {
        Motion::Paused => tracing::info!("the rebalance was paused"),
        Motion::Running => tracing::info!("the rebalance was resumed"),
    }
    Ok(())
}

/// Has a shard's cells leave it.
pub(crate) fn drain(mover: &CellMover, shard: ShardId) -> Result<DrainShardResponse, Status> {
    check_rebalances(mover)?;
    let steering = &mover.node.steering;
    steering.drain(shard).map_err(|none| Cause::Precondition.status(none.to_string()))?;
    let table = mover.router.table();
    let cells: Vec<CellId> = owned_cells(&table, shard).collect();
    let pinned = cells.iter().filter(|cell| steering.mobility(**cell) == Movable::Pinned).count();
    tracing::info!(shard = shard.0, cells = cells.len(), pinned, "a shard is drained");
    Ok(DrainShardResponse { cells: cells.len() as u32, pinned_cells: pinned as u32 })
}

/// Lets a shard have cells again.
pub(crate) fn undrain(mover: &CellMover, shard: ShardId) {
    mover.node.steering.undrain(shard);
    tracing::info!(shard = shard.0, "a shard takes cells again");
}

fn check_rebalances(mover: &CellMover) -> Result<(), Status> {
    match mover.config.rebalance {
        RebalanceMode::On => Ok(()),
        RebalanceMode::Off => Err(Cause::Precondition
            .status("no cell moves by itself on this node: it was started with --rebalance=off")),
    }
}

/// Has a shard write a checkpoint.
pub(crate) async fn write_checkpoint(
    mover: &CellMover,
    shard: ShardId,
) -> Result<WriteCheckpointResponse, Status> {
    let checkpoints = asked(mover, fanout::checkpoint(&mover.router, shard)).await?;
    tracing::info!(shard = shard.0, "a checkpoint was asked for");
    Ok(WriteCheckpointResponse { checkpoints })
}

/// Moves a cell now.
pub(crate) async fn move_cell(
    mover: &CellMover,
    cell: CellId,
    to: ShardId,
) -> Result<MoveCellResponse, Status> {
    if mover.node.steering.drain_state(to) == DrainState::Drained {
        return Err(Cause::Precondition.status(format!("shard {} is drained: undrain it first", to.0)));
    }
    let from = mover.router.table().owner(cell);
    let migrated = (mover.migrate)(cell, to, Trigger::Operator).await.map_err(|fault| {
        tracing::info!(cell = cell.0, from = from.0, to = to.0, %fault, "a cell could not be moved by hand");
        status::of_migration_error(&fault)
    })?;
    tracing::info!(
        cell = cell.0,
        from = from.0,
        to = to.0,
        series = migrated.series,
        took_us = migrated.took_us,
        paused_us = migrated.paused_us,
        "a cell was moved by hand"
    );
    Ok(MoveCellResponse {
        from_shard: from.0.into(),
        series: migrated.series,
        bytes: migrated.bytes,
        took_us: migrated.took_us,
        paused_us: migrated.paused_us,
    })
}
