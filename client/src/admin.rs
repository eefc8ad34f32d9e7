//! Looking into a node, and steering it: its shards and cells, where cells go, and checkpoints.

use std::time::Duration;

use silverback_proto::v1;
pub use silverback_proto::v1::{Cell, Shard};

use crate::client::Client;
use crate::error::RequestError;

/// Looks into a node, and sets where cells go; [`Client::admin`] makes one. A node takes changes
/// where it was started with `--admin-api=full`: otherwise they are [`RequestError::Denied`].
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
}

/// The shards of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Shards {
    /// By number.
    pub shards: Vec<Shard>,
    /// How long the node has been up: what counters are divided by.
    pub uptime: Duration,
    /// The node's version.
    pub version: String,
}

/// A cell that was moved by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedCell {
    /// The shard that owned it.
    pub from_shard: u32,
    /// Series that were moved.
    pub series: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// From begin to end.
    pub took: Duration,
    /// Of that, how long writes to the cell waited.
    pub paused: Duration,
}

/// How cells of a node move.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebalance {
    /// Whether they do by themselves.
    pub motion: Motion,
    /// The busiest shard against the mean: 1 is even.
    pub imbalance: f64,
    /// From which on cells move.
    pub imbalance_max: f64,
    /// Shards that are to have no cells.
    pub drained_shards: Vec<u32>,
    /// Cells that stay where they are.
    pub pinned_cells: Vec<u32>,
    /// Moves that were planned since the start.
    pub moves_planned: u64,
    /// Those of them that were done.
    pub moves_done: u64,
    /// Those of them that failed.
    pub moves_failed: u64,
}

/// Whether cells move by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// They do.
    Running,
    /// Not until somebody resumes.
    Paused,
    /// Never: by the node's configuration.
    Off,
}

/// A shard whose cells leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draining {
    /// Cells that it has now.
    pub cells: u32,
    /// Those of them that are pinned, and stay.
    pub pinned_cells: u32,
}

impl Admin {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Every shard, with its counters and sizes.
    pub async fn shards(&self) -> Result<Shards, RequestError> {
        let answer = self.client.answer(self.client.node_admin().shards(v1::ShardsRequest {})).await?;
        let uptime = Duration::from_millis(answer.uptime_ms);
        Ok(Shards { shards: answer.shards, uptime, version: answer.version })
    }

    /// Every cell that holds a series or is pinned, or only those of one shard, by number.
    pub async fn cells(&self, shard: Option<u32>) -> Result<Vec<Cell>, RequestError> {
        let request = v1::CellsRequest { shard };
        Ok(self.client.answer(self.client.node_admin().cells(request)).await?.cells)
    }

    /// Keeps a cell where it is.
    pub async fn pin_cell(&self, cell: u32) -> Result<(), RequestError> {
        self.client.answer(self.client.node_admin().pin_cell(v1::PinCellRequest { cell })).await.map(drop)
    }

    /// Lets a cell be moved again.
    pub async fn unpin_cell(&self, cell: u32) -> Result<(), RequestError> {
        self.client.answer(self.client.node_admin().unpin_cell(v1::UnpinCellRequest { cell })).await.map(drop)
    }

    /// Moves a cell now, pinned or not.
    pub async fn move_cell(&self, cell: u32, shard: u32) -> Result<MovedCell, RequestError> {
        let request = v1::MoveCellRequest { cell, shard };
        let moved = self.client.answer(self.client.node_admin().move_cell(request)).await?;
        Ok(MovedCell {
            from_shard: moved.from_shard,
            series: moved.series,
            bytes: moved.bytes,
            took: Duration::from_micros(moved.took_us),
            paused: Duration::from_micros(moved.paused_us),
        })
    }

    /// How cells move, and how even the loads are.
    pub async fn rebalance(&self) -> Result<Rebalance, RequestError> {
        let asked =
            self.client.answer(self.client.node_admin().get_rebalance(v1::GetRebalanceRequest {})).await?;
        let motion = match asked.state() {
            v1::RebalanceState::Running => Motion::Running,
            v1::RebalanceState::Paused => Motion::Paused,
            v1::RebalanceState::Off => Motion::Off,
            v1::RebalanceState::Unspecified => {
                return Err(RequestError::BrokenAnswer("it doesn't say whether cells move"));
            }
        };
        Ok(Rebalance {
            motion,
            imbalance: asked.imbalance,
            imbalance_max: asked.imbalance_max,
            drained_shards: asked.drained_shards,
            pinned_cells: asked.pinned_cells,
            moves_planned: asked.moves_planned,
            moves_done: asked.moves_done,
            moves_failed: asked.moves_failed,
        })
    }

    /// No cell moves by itself from now on.
    pub async fn pause_rebalance(&self) -> Result<(), RequestError> {
        let request = v1::PauseRebalanceRequest {};
        self.client.answer(self.client.node_admin().pause_rebalance(request)).await.map(drop)
    }

    /// Cells move by themselves again.
    pub async fn resume_rebalance(&self) -> Result<(), RequestError> {
        let request = v1::ResumeRebalanceRequest {};
        self.client.answer(self.client.node_admin().resume_rebalance(request)).await.map(drop)
    }

    /// Has all cells but pinned ones leave a shard, and no cell come.
    pub async fn drain_shard(&self, shard: u32) -> Result<Draining, RequestError> {
        let request = v1::DrainShardRequest { shard };
        let draining = self.client.answer(self.client.node_admin().drain_shard(request)).await?;
        Ok(Draining { cells: draining.cells, pinned_cells: draining.pinned_cells })
    }

    /// Has a shard write a checkpoint soon, though none may be due. It is on disk once the shard's counter
    /// of checkpoints is at least what this returns.
    pub async fn write_checkpoint(&self, shard: u32) -> Result<u64, RequestError> {
        let request = v1::WriteCheckpointRequest { shard };
        Ok(self.client.answer(self.client.node_admin().write_checkpoint(request)).await?.checkpoints)
    }

    /// Lets a shard have cells again.
    pub async fn undrain_shard(&self, shard: u32) -> Result<(), RequestError> {
        let request = v1::UndrainShardRequest { shard };
        self.client.answer(self.client.node_admin().undrain_shard(request)).await.map(drop)
    }
}
