//! Looks at the loads, plans, and has cells moved one at a time: round after round.
//!
//! Knows neither executors nor lanes: what looks and what hands over is the node's ([`Rebalanced`]).

use std::time::Duration;

use crate::migration::{Migrated, MigrationError};
use crate::rebalance::{DrainState, Motion, Movable, Move, NodeLoad, Planner, Steering};

/// How long the moves of one round may take: what is left then is planned again, from newer loads.
const ROUND_MAX: Duration = Duration::from_secs(5);

/// What the controller needs of a node.
pub(crate) trait Rebalanced {
    /// The loads now; `None` where they aren't known.
    fn look(&self) -> impl Future<Output = Option<NodeLoad>>;

    /// Hands one cell over.
    fn migrate(&self, next: Move) -> impl Future<Output = Result<Migrated, MigrationError>>;

    /// Time that never goes back.
    fn now(&self) -> Duration;

    /// Whether the node is about to end.
    fn is_stopping(&self) -> bool;
}

/// Plans and acts.
#[derive(Debug)]
pub(crate) struct Controller<'a, N> {
    node: N,
    planner: Planner,
    steering: &'a Steering,
}

impl<'a, N: Rebalanced> Controller<'a, N> {
    /// One that has seen nothing yet.
    pub(crate) fn new(node: N, planner: Planner, steering: &'a Steering) -> Self {
        Self { node, planner, steering }
    }

    /// One round.
    pub(crate) async fn round(&mut self) {
        let Some(load) = self.node.look().await else { return };
        self.steering.set_imbalance(load.imbalance());
        if self.steering.motion() == Motion::Paused {
            return;
        }
        let began = self.node.now();
        let moves = self.planner.round(began, load);
        moves.iter().for_each(|next| self.steering.migrations.plan(next.reason));
        for next in moves {
            let is_late = self.node.now() - began > ROUND_MAX;
            if is_late || self.node.is_stopping() || self.steering.motion() == Motion::Paused {
                return;
            }
            if !self.is_wanted(&next) {
                continue;
            }
            self.planner.rest(self.node.now(), next.cell);
            // What kept one cell from moving may keep the others: the next round sees.
            if self.carry_out(&next).await.is_err() {
                return;
            }
        }
    }

    /// Somebody may have said otherwise since it was planned.
    fn is_wanted(&self, next: &Move) -> bool {
        self.steering.mobility(next.cell) != Movable::Pinned
            && self.steering.drain_state(next.to) == DrainState::Open
    }

    async fn carry_out(&self, next: &Move) -> Result<(), MigrationError> {
        let Move { cell, from, to, reason } = *next;
        let why = reason.as_str();
        let migrated = self.node.migrate(*next).await;
        let (cell, from, to) = (cell.0, from.0, to.0);
        match migrated {
            Ok(Migrated { series, took_us, paused_us, .. }) => {
                tracing::info!(cell, from, to, why, series, took_us, paused_us, "moved a cell");
                Ok(())
            }
            Err(fault) => {
                tracing::warn!(cell, from, to, why, %fault, "a cell could not be moved; it stays where it was");
                Err(fault)
            }
        }
    }
}

#[cfg(test)]
mod tests;
