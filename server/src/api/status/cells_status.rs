//! What the status page polls at `/api/v1/status/cells`: each cell's owner and load, and how cells
//! move. In columns by cell number: a thousand objects would be mostly names.

use serde::{Deserialize, Serialize};

use crate::api::core::CoreContext;
use crate::config::RebalanceMode;
use crate::rebalance::{Motion, Steering};
use crate::routing::fanout::{self, FanoutError};
use silverback_model::CellId;
use silverback_model::limits::CELL_COUNT;

/// All cells at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CellsStatus {
    /// The shard that owns each cell.
    pub owners: Vec<u16>,
    /// Series of each cell.
    pub series: Vec<u64>,
    /// Samples that are sent to each cell.
    pub samples_per_s: Vec<u64>,
    /// Each cell's part of its shard's time: millionths of a core.
    pub busy_us_per_s: Vec<u64>,
    /// Cells that stay where they are.
    pub pinned: Vec<u16>,
    /// Whether cells move by themselves.
    pub rebalance: RebalanceStatus,
    /// Planned moves that were done.
    pub(crate) moves_total: u64,
}

/// Whether cells move by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RebalanceStatus {
    /// They do.
    Running,
    /// Not until somebody says so.
    Paused,
    /// Never.
    Off,
}

impl RebalanceStatus {
    /// What the configuration and an operator make of it.
    pub(crate) fn new(mode: RebalanceMode, steering: &Steering) -> Self {
        match (mode, steering.motion()) {
            (RebalanceMode::Off, _) => Self::Off,
            (RebalanceMode::On, Motion::Paused) => Self::Paused,
            (RebalanceMode::On, Motion::Running) => Self::Running,
        }
    }
}

impl CellsStatus {
    /// Asks the shards.
    pub(crate) async fn gather(core: &CoreContext) -> Result<Self, FanoutError> {
        let held = fanout::cells(&core.router).await?;
        let (table, steering) = (core.router.table(), &core.node.steering);
        let owners: Vec<u16> = (0..CELL_COUNT as u16).map(|cell| table.owner(CellId(cell)).0).collect();
        let column = || vec![0; CELL_COUNT];
        let mut status = Self {
            owners,
            series: column(),
            samples_per_s: column(),
            busy_us_per_s: column(),
            pinned: steering.pinned().map(|cell| cell.0).collect(),
            rebalance: RebalanceStatus::new(core.config.rebalance, steering),
            moves_total: steering.migrations.counts().done(),
        };
        for (_, stats) in held {
            let cell = usize::from(stats.cell.0);
            status.series[cell] = stats.series as u64;
            status.samples_per_s[cell] = stats.samples_per_s;
            status.busy_us_per_s[cell] = stats.busy_us_per_s;
        }
        Ok(status)
    }
}
