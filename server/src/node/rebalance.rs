//! The rebalance of this node: how its loads are gathered, and what hands its cells over. It runs on
//! the first core alone.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::api::cell_mover::CellMover;
use crate::config::RebalanceMode;
use crate::migration::{Migrated, MigrationError, Trigger};
use crate::rebalance::{CellLoad, Controller, Hysteresis, Move, NodeLoad, Planner, Rebalanced, ShardLoad};
use crate::routing::fanout::{self, FanoutError};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};
use silverback_runtime::{now, sleep, spawn_background};
use silverback_storage::message::CoreStats;

/// A shard is filled by moves up to this part of its memory: new series are refused at 90 %.
const FILLED_PERCENT_MAX: usize = 80;

/// Starts the controller, where the configuration wants one and there is more than one shard. It
/// ends with the executor.
pub(crate) fn start(mover: Rc<CellMover>) {
    match mover.config.rebalance {
        RebalanceMode::Off => {}
        RebalanceMode::On if mover.router.shards().count() == 1 => {}
        RebalanceMode::On => spawn_background(run(mover)),
    }
}

async fn run(mover: Rc<CellMover>) {
    let hysteresis = Hysteresis {
        imbalance_max: 1.0 + mover.config.rebalance_threshold_percent as f64 / 100.0,
        ..Hysteresis::default()
    };
    let node = RunningNode { mover: Rc::clone(&mover), began: now() };
    let mut controller = Controller::new(node, Planner::new(hysteresis), &mover.node.steering);
    while !mover.shutdown.is_requested() {
        sleep(mover.config.rebalance_interval).await;
        controller.round().await;
    }
}

struct RunningNode {
    mover: Rc<CellMover>,
    began: Instant,
}

impl Rebalanced for RunningNode {
    async fn look(&self) -> Option<NodeLoad> {
        match gather(&self.mover).await {
            Ok(load) => Some(load),
            Err(error) => {
                silverback_host::warn_limited!(%error, "the shards' loads were not gathered; no cell moves");
                None
            }
        }
    }

    async fn migrate(&self, next: Move) -> Result<Migrated, MigrationError> {
        (self.mover.migrate)(next.cell, next.to, Trigger::Planned(next.reason)).await
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn is_stopping(&self) -> bool {
        self.mover.shutdown.is_requested()
    }
}

async fn gather(mover: &CellMover) -> Result<NodeLoad, FanoutError> {
    let stats = fanout::stats(&mover.router).await?;
    let held = fanout::cells(&mover.router).await?;
    let steering = &mover.node.steering;
    let table = mover.router.table();
    let unloaded = |cell| CellLoad {
        owner: table.owner(cell),
        busy_us_per_s: 0,
        series: 0,
        bytes: 0,
        mobility: steering.mobility(cell),
    };
    let mut cells: Vec<CellLoad> = (0..CELL_COUNT as u16).map(|cell| unloaded(CellId(cell))).collect();
    for (_, stats) in held {
        let load = &mut cells[usize::from(stats.cell.0)];
        load.busy_us_per_s = stats.busy_us_per_s;
        load.series = stats.series as u64;
        load.bytes = stats.bytes as u64;
    }
    let shards = stats.iter().map(|stats| shard_load(mover, stats, &cells)).collect();
    Ok(NodeLoad { shards, cells })
}

fn shard_load(mover: &CellMover, stats: &CoreStats, cells: &[CellLoad]) -> ShardLoad {
    let shard: ShardId = stats.shard.shard;
    let of_cells = cells.iter().filter(|cell| cell.owner == shard).map(|cell| cell.busy_us_per_s);
    let filled_max = stats.shard.memory_budget_bytes / 100 * FILLED_PERCENT_MAX;
    ShardLoad {
        node: mover.node.nodes[usize::from(shard.0)],
        busy_us_per_s: stats.shard.other_busy_us_per_s + of_cells.sum::<u64>(),
        room_bytes: filled_max.saturating_sub(stats.shard.memory.total()) as u64,
        drain_state: mover.node.steering.drain_state(shard),
    }
}
