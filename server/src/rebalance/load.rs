//! The node's load as the planner sees it: what each cell costs its core, and what it would cost to
//! move it. Plain numbers, wherever they came from.

use crate::placement::NodeId;
use silverback_model::{CellId, ShardId};

/// All shards and all cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// By number.
    pub shards: Vec<ShardLoad>,
    /// By number, those without series too: a drained shard keeps none.
    pub cells: Vec<CellLoad>,
}

/// One shard's core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLoad {
    /// Where its memory is.
    pub node: NodeId,
    /// How busy its core is: with its cells, and with requests of which the cells are elsewhere.
    pub busy_us_per_s: u64,
    /// Memory that it may still fill.
    pub room_bytes: u64,
    /// Whether it takes cells.
    pub(crate) drain_state: DrainState,
}

/// Whether a shard takes cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainState {
    /// It does.
    Open,
    /// It is to have none.
    Drained,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLoad {
    /// The shard that owns it.
    pub owner: ShardId,
    /// Its part of the shard's busy time.
    pub busy_us_per_s: u64,
    /// Series that would move.
    pub series: u64,
    /// Memory that would move.
    pub bytes: u64,
    /// Whether it may be moved.
    pub(crate) mobility: Movable,
}

/// Whether a cell may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Movable {
    /// It may.
    Free,
    /// It was moved a short while ago: not to even out, but away from a drained shard.
    Resting,
    /// It stays where it is.
    Pinned,
}

impl NodeLoad {
    /// The cells with their numbers.
    pub(crate) fn numbered_cells(&self) -> impl Iterator<Item = (CellId, &CellLoad)> {
        (0..).map(CellId).zip(&self.cells)
    }

    /// The busiest shard against the mean of those that take cells: 1 is even.
    pub(crate) fn imbalance(&self) -> f64 {
        let busy = || self.open().map(|shard| shard.busy_us_per_s);
        let (sum, max) = (busy().sum::<u64>(), busy().max().unwrap_or(0));
        if sum == 0 { 1.0 } else { (max as f64) * (busy().count() as f64) / (sum as f64) }
    }

    /// How busy the busiest shard is that takes cells.
    pub(crate) fn busiest_us_per_s(&self) -> u64 {
        self.open().map(|shard| shard.busy_us_per_s).max().unwrap_or(0)
    }

    fn open(&self) -> impl Iterator<Item = &ShardLoad> {
        self.shards.iter().filter(|shard| shard.drain_state == DrainState::Open)
    }
}
