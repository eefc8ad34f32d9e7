//! What an operator sees: shards, cells, and how cells move.

use silverback_proto::v1::{
    Cell, CellsResponse, GetRebalanceResponse, RebalanceState, Shard, ShardsResponse,
};
use tonic::Status;

use crate::api::core::CoreContext;
use crate::api::grpc::status;
use crate::api::query::read_rejected::{ReadRejected, check_replayed};
use crate::api::status::cells_status::RebalanceStatus;
use crate::rebalance::{DrainState, Movable};
use crate::routing::RoutingTable;
use crate::routing::fanout::{self, FanoutError};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};
use silverback_runtime::timeout;
use silverback_storage::message::{CellStats, CoreStats};

/// Every shard.
pub(crate) async fn shards(core: &CoreContext) -> Result<ShardsResponse, Status> {
    let stats = asked(core, fanout::stats(&core.router)).await?;
    Ok(ShardsResponse {
        shards: stats.iter().map(|of_core| shard(core, of_core)).collect(),
        uptime_ms: core.node.started.elapsed().as_millis() as u64,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Every cell that holds a series or is pinned, or only those of one shard.
pub(crate) async fn cells(core: &CoreContext, wanted: Option<ShardId>) -> Result<CellsResponse, Status> {
    let held = asked(core, fanout::cells(&core.router)).await?;
    let mut cells: Vec<Cell> = held.iter().map(|(shard, stats)| cell(core, *shard, stats)).collect();
    let table = core.router.table();
    for pinned in core.node.steering.pinned() {
        let number = u32::from(pinned.0);
        if !cells.iter().any(|cell| cell.number == number) {
            let shard = table.owner(pinned).0.into();
            cells.push(Cell { number, shard, pinned: true, ..Cell::default() });
        }
    }
    cells.retain(|cell| wanted.is_none_or(|wanted| cell.shard == u32::from(wanted.0)));
    cells.sort_unstable_by_key(|cell| cell.number);
    Ok(CellsResponse { cells })
}

/// How cells move.
pub(crate) fn rebalance(core: &CoreContext) -> GetRebalanceResponse {
    let steering = &core.node.steering;
    let state = match RebalanceStatus::new(core.config.rebalance, steering) {
        RebalanceStatus::Running => RebalanceState::Running,
        RebalanceStatus::Paused => RebalanceState::Paused,
        RebalanceStatus::Off => RebalanceState::Off,
    };
    let drained = core.router.shards().filter(|shard| steering.drain_state(*shard) == DrainState::Drained);
    let counts = steering.migrations.counts();
    GetRebalanceResponse {
        state: state.into(),
        imbalance: steering.imbalance(),
        imbalance_max: 1.0 + core.config.rebalance_threshold_percent as f64 / 100.0,
        drained_shards: drained.map(|shard| shard.0.into()).collect(),
        pinned_cells: steering.pinned().map(|cell| cell.0.into()).collect(),
        moves_planned: counts.planned(),
        moves_done: counts.done(),
        moves_failed: counts.failed(),
    }
}

/// An answer of the shards. Refused until all data is back: what a half-filled shard says would be
/// wrong.
pub(crate) async fn asked<T>(
    core: &CoreContext,
    asking: impl Future<Output = Result<T, FanoutError>>,
) -> Result<T, Status> {
    let limit = core.config.request_timeout;
    let answer = async {
        check_replayed(core)?;
        Ok(asking.await?)
    };
    let answer = timeout(limit, answer).await.unwrap_or(Err(ReadRejected::TimedOut(limit)));
    answer.map_err(|fault| status::of_read_rejected(&fault))
}

fn shard(core: &CoreContext, stats: &CoreStats) -> Shard {
    let shard = &stats.shard;
    Shard {
        number: shard.shard.0.into(),
        cpu: core.node.pinned_cpu(shard.shard.0.into()).map(|cpu| cpu as u32),
        series: shard.series as u64,
        cells: owned_cells(&core.router.table(), shard.shard).count() as u32,
        samples: shard.samples,
        samples_refused: shard.refused.total(),
        series_created: shard.series_created,
        busy_us: shard.busy_us,
        commits: shard.commits,
        queued: shard.queued as u64,
        memory_bytes: shard.memory.total() as u64,
        memory_bytes_max: shard.memory_budget_bytes as u64,
        wal_bytes: shard.log.counts.segment_bytes + shard.log.counts.checkpoint_bytes,
        core_busy_us_per_s: shard.core_busy_us_per_s,
        drained: core.node.steering.drain_state(shard.shard) == DrainState::Drained,
        checkpoints: shard.log.counts.checkpoints,
        checkpoints_failed: shard.log.counts.checkpoints_failed,
        wal_since_checkpoint_bytes: shard.log.counts.since_checkpoint_bytes,
    }
}

/// The cells of a shard.
pub(crate) fn owned_cells(table: &RoutingTable, shard: ShardId) -> impl Iterator<Item = CellId> {
    (0..CELL_COUNT as u16).map(CellId).filter(move |cell| table.owner(*cell) == shard)
}

fn cell(core: &CoreContext, shard: ShardId, stats: &CellStats) -> Cell {
    Cell {
        number: stats.cell.0.into(),
        shard: shard.0.into(),
        series: stats.series as u64,
        samples: stats.samples,
        memory_bytes: stats.bytes as u64,
        samples_per_s: stats.samples_per_s,
        busy_us_per_s: stats.busy_us_per_s,
        pinned: core.node.steering.mobility(stats.cell) == Movable::Pinned,
    }
}
