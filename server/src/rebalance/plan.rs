//! What to move: a pure function of the loads. No clock, no disk, no chance, no memory of what was.
//!
//! Each step takes the move with the greatest gain from the hottest shard that has one; a move gains
//! what it takes off the hotter of the two shards, less its cost. So the hottest never gets hotter,
//! and where one cell outweighs everything else, the others leave its shard.

use crate::migration::Reason;
use crate::rebalance::{CellLoad, DrainState, Movable, NodeLoad};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};

/// Moves of one plan at most. What is left is planned again, from newer loads.
pub(crate) const MOVES_MAX: usize = 64;
const _: () = assert!(MOVES_MAX < CELL_COUNT);

/// A move pays off within this time, or it isn't worth its cost.
const PAYOFF_S: u64 = 60;

/// What a move costs both cores: as it begins, for each series, and for each KiB that is copied.
const MOVE_US: u64 = 500;
const SERIES_US: u64 = 2;
const KIB_US: u64 = 1;

/// A move that gains less than this part of the mean is not worth the change.
const GAIN_OF_MEAN_MIN: u64 = 100;

/// So many times better must a shard on another node be, where memory has to follow.
const OTHER_NODE_FACTOR: u64 = 2;

/// One cell from one shard to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub cell: CellId,
    /// Its owner.
    pub from: ShardId,
    /// Its owner to be.
    pub to: ShardId,
    /// Why.
    pub reason: Reason,
}

/// The moves that even the loads out, first those that empty drained shards. In this order each
/// leaves the busiest shard no busier than it was, but for what a drained shard gives off.
pub(crate) fn moves(node: &NodeLoad) -> Vec<Move> {
    let mut plan = PlannedLoads::of(node);
    while plan.moves.len() < MOVES_MAX {
        let Some(next) = plan.drain_step().or_else(|| plan.even_step()) else { break };
        plan.take(next);
    }
    plan.moves
}

/// The loads as they will be after `moves`.
struct PlannedLoads<'a> {
    node: &'a NodeLoad,
    busy_us_per_s: Vec<u64>,
    room_bytes: Vec<u64>,
    owners: Vec<ShardId>,
    moves: Vec<Move>,
}

impl<'a> PlannedLoads<'a> {
    fn of(node: &'a NodeLoad) -> Self {
        Self {
            node,
            busy_us_per_s: node.shards.iter().map(|shard| shard.busy_us_per_s).collect(),
            room_bytes: node.shards.iter().map(|shard| shard.room_bytes).collect(),
            owners: node.cells.iter().map(|cell| cell.owner).collect(),
            moves: Vec::new(),
        }
    }

    fn take(&mut self, next: Move) {
        let load = &self.node.cells[usize::from(next.cell.0)];
        let (from, to) = (usize::from(next.from.0), usize::from(next.to.0));
        // A cell's part is an estimate and may exceed what its core was seen to do.
        self.busy_us_per_s[from] = self.busy_us_per_s[from].saturating_sub(load.busy_us_per_s);
        self.busy_us_per_s[to] += load.busy_us_per_s;
        self.room_bytes[from] += load.bytes;
        self.room_bytes[to] = self.room_bytes[to].saturating_sub(load.bytes);
        self.owners[usize::from(next.cell.0)] = next.to;
        self.moves.push(next);
    }

    /// The next cell of a drained shard, to the least busy shard of its node or else of another.
    fn drain_step(&self) -> Option<Move> {
        let drained =
            |shard: ShardId| self.node.shards[usize::from(shard.0)].drain_state == DrainState::Drained;
        self.node.numbered_cells().find_map(|(cell, load)| {
            let from = self.owners[usize::from(cell.0)];
            if !drained(from) || load.mobility == Movable::Pinned {
                return None;
            }
            let [near, far] = self.idlest(from, load.bytes);
            near.or(far).map(|to| Move { cell, from, to, reason: Reason::Drain })
        })
    }

    /// The best move off the hottest shard that has one.
    fn even_step(&self) -> Option<Move> {
        let open = self.open().map(|shard| self.busy(shard));
        let (sum, count) = open.fold((0, 0), |(sum, count), busy| (sum + busy, count + 1));
        let mean = sum / u64::max(count, 1);
        let mut hot: Vec<ShardId> = self.open().filter(|shard| self.busy(*shard) > mean).collect();
        hot.sort_by_key(|shard| (u64::MAX - self.busy(*shard), shard.0));
        let gain_min = mean / GAIN_OF_MEAN_MIN;
        hot.into_iter().find_map(|from| self.best_move(from, gain_min))
    }

    fn best_move(&self, from: ShardId, gain_min: u64) -> Option<Move> {
        let [near, far] = self.idlest(from, 0).map(|to| to.and_then(|to| self.best_cell(from, to, gain_min)));
        let (worth, next) = match (near, far) {
            (Some(near), Some(far)) if far.0 > near.0 * OTHER_NODE_FACTOR => far,
            (Some(near), _) => near,
            (None, Some(far)) => far,
            (None, None) => return None,
        };
        debug_assert!(worth > 0, "a move without a gain");
        Some(next)
    }

    /// The cell whose move to `to` is worth most, and what it is worth.
    fn best_cell(&self, from: ShardId, to: ShardId, gain_min: u64) -> Option<(u64, Move)> {
        let gap = self.busy(from).checked_sub(self.busy(to))?;
        let room_bytes = self.room_bytes[usize::from(to.0)];
        let mut best: Option<(u64, CellId)> = None;
        for (cell, load) in self.node.numbered_cells() {
            let is_there = self.owners[usize::from(cell.0)] == from;
            if !is_there || load.mobility != Movable::Free || load.bytes > room_bytes {
                continue;
            }
            let gain = u64::min(load.busy_us_per_s, gap.saturating_sub(load.busy_us_per_s));
            let worth = (gain * PAYOFF_S).saturating_sub(cost_us(load));
            // Equal ones: the first, so that the same loads make the same plan.
            if gain > gain_min && worth > best.map_or(0, |(worth, _)| worth) {
                best = Some((worth, cell));
            }
        }
        best.map(|(worth, cell)| (worth, Move { cell, from, to, reason: Reason::HotShard }))
    }

    /// The least busy other shard that has room: on the same node, and on any other.
    fn idlest(&self, from: ShardId, bytes: u64) -> [Option<ShardId>; 2] {
        let node = |shard: ShardId| self.node.shards[usize::from(shard.0)].node;
        let has_room = |shard: ShardId| self.room_bytes[usize::from(shard.0)] >= bytes;
        let others = self.open().filter(|shard| *shard != from && has_room(*shard));
        let (near, far): (Vec<_>, Vec<_>) = others.partition(|shard| node(*shard) == node(from));
        let idlest =
            |shards: Vec<ShardId>| shards.into_iter().min_by_key(|shard| (self.busy(*shard), shard.0));
        [idlest(near), idlest(far)]
    }

    fn open(&self) -> impl Iterator<Item = ShardId> {
        let numbered = (0..).map(ShardId).zip(&self.node.shards);
        numbered.filter(|(_, shard)| shard.drain_state == DrainState::Open).map(|(shard, _)| shard)
    }

    fn busy(&self, shard: ShardId) -> u64 {
        self.busy_us_per_s[usize::from(shard.0)]
    }
}

fn cost_us(cell: &CellLoad) -> u64 {
    MOVE_US + cell.series * SERIES_US + cell.bytes / 1024 * KIB_US
}

#[cfg(test)]
mod tests;
