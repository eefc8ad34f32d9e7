//! When to move: the plan, with hysteresis. Loads must be uneven for some rounds before anything moves,
//! and a cell that moved rests. Time comes from the caller.

use std::time::Duration;

use crate::rebalance::plan::{self, MOVES_MAX, Move};
use crate::rebalance::{Movable, NodeLoad};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};

/// When loads are uneven enough, for long enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hysteresis {
    /// The busiest shard against the mean, from which on the loads are uneven.
    pub imbalance_max: f64,
    /// A node whose busiest shard is below this is left as it is: nobody waits for it.
    pub(crate) busy_us_per_s_min: u64,
    /// Rounds in a row that must be uneven.
    pub rounds: u32,
    /// How long a cell that moved stays, unless its shard is drained.
    pub rest: Duration,
}

impl Default for Hysteresis {
    fn default() -> Self {
        Self { imbalance_max: 1.1, busy_us_per_s_min: 50_000, rounds: 3, rest: Duration::from_secs(120) }
    }
}

/// Plans round after round.
#[derive(Debug)]
pub(crate) struct Planner {
    hysteresis: Hysteresis,
    uneven_rounds: u32,
    /// Until when each cell rests.
    rests_until: Box<[Duration]>,
    /// Where each cell was last seen.
    owners: Box<[Option<ShardId>]>,
}

impl Planner {
    /// One that has seen nothing yet.
    pub(crate) fn new(hysteresis: Hysteresis) -> Self {
        let (rests_until, owners) = ([Duration::ZERO; CELL_COUNT].into(), [None; CELL_COUNT].into());
        Self { hysteresis, uneven_rounds: 0, rests_until, owners }
    }

    /// What to move now; `now` is any time that never goes back.
    pub(crate) fn round(&mut self, now: Duration, mut node: NodeLoad) -> Vec<Move> {
        self.note_moved(now, &node);
        self.count_round(&node);
        let waits = self.uneven_rounds < self.hysteresis.rounds;
        for (load, rests_until) in node.cells.iter_mut().zip(&self.rests_until) {
            if load.mobility == Movable::Free && (waits || now < *rests_until) {
                load.mobility = Movable::Resting;
            }
        }
        let moves = plan::moves(&node);
        // A plan that was cut short goes on at the next round; after a whole one the loads must be
        // seen to be uneven again.
        if !moves.is_empty() && moves.len() < MOVES_MAX {
            self.uneven_rounds = 0;
        }
        moves
    }

    /// A cell whose move was tried rests, whatever became of it.
    pub(crate) fn rest(&mut self, now: Duration, cell: CellId) {
        self.rests_until[usize::from(cell.0)] = now + self.hysteresis.rest;
    }

    /// A cell that has another owner than when it was last seen rests, whoever moved it.
    fn note_moved(&mut self, now: Duration, node: &NodeLoad) {
        let rest = self.rests_until.iter_mut().zip(&mut self.owners).zip(&node.cells);
        for ((rests_until, owner), cell) in rest {
            if owner.replace(cell.owner).is_some_and(|before| before != cell.owner) {
                *rests_until = now + self.hysteresis.rest;
            }
        }
    }

    fn count_round(&mut self, node: &NodeLoad) {
        let is_uneven = node.imbalance() > self.hysteresis.imbalance_max
            && node.busiest_us_per_s() >= self.hysteresis.busy_us_per_s_min;
        self.uneven_rounds = if is_uneven { self.uneven_rounds.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests;
