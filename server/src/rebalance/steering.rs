//! What people ask of the rebalance, and what it answers. Shared by all cores: each answers for the
//! whole node.
//!
//! It lasts until the node ends: a node that starts again moves what it likes.
#![expect(
    clippy::disallowed_types,
    reason = "held for a copy of some flags, when an operator steers or moves are planned"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::migration::MigrationCounters;
use crate::rebalance::{DrainState, Movable};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, ShardId};

/// The node's.
#[derive(Debug)]
pub struct Steering {
    paused: AtomicBool,
    pinned: Box<[AtomicBool]>,
    drained: Mutex<Box<[bool]>>,
    imbalance_permille: AtomicU64,
    /// What became of migrations.
    pub migrations: Arc<MigrationCounters>,
}

/// Whether cells move by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// They do.
    Running,
    /// Not until somebody says so.
    Paused,
}

/// A shard can't be drained: the others are, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no other shard takes cells: undrain one first")]
pub struct DrainRejected;

impl Steering {
    /// Of a node with so many shards, on which nobody has said anything.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            paused: AtomicBool::default(),
            pinned: std::iter::repeat_with(AtomicBool::default).take(CELL_COUNT).collect(),
            drained: Mutex::new(vec![false; shards].into()),
            imbalance_permille: AtomicU64::new(1000),
            migrations: Arc::default(),
        }
    }

    /// Whether cells move by themselves.
    pub(crate) fn motion(&self) -> Motion {
        if self.paused.load(Ordering::Relaxed) { Motion::Paused } else { Motion::Running }
    }

    /// Lets cells move by themselves, or doesn't.
    pub(crate) fn set_motion(&self, motion: Motion) {
        self.paused.store(motion == Motion::Paused, Ordering::Relaxed);
    }

    /// Whether a cell may be moved.
    pub(crate) fn mobility(&self, cell: CellId) -> Movable {
        if self.pinned[usize::from(cell.0)].load(Ordering::Relaxed) { Movable::Pinned } else { Movable::Free }
    }

    /// Keeps a cell where it is.
    pub(crate) fn pin(&self, cell: CellId) {
        self.pinned[usize::from(cell.0)].store(true, Ordering::Relaxed);
    }

    /// Lets a cell be moved again.
    pub(crate) fn unpin(&self, cell: CellId) {
        self.pinned[usize::from(cell.0)].store(false, Ordering::Relaxed);
    }

    /// Cells that are pinned.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = CellId> + '_ {
        (0..).map(CellId).take(self.pinned.len()).filter(|cell| self.mobility(*cell) == Movable::Pinned)
    }

    /// Whether a shard takes cells.
    pub(crate) fn drain_state(&self, shard: ShardId) -> DrainState {
        if self.drained()[usize::from(shard.0)] { DrainState::Drained } else { DrainState::Open }
    }

    /// Has all cells leave a shard. Not the last that takes any.
    pub(crate) fn drain(&self, shard: ShardId) -> Result<(), DrainRejected> {
        let (mut drained, shard) = (self.drained(), usize::from(shard.0));
        let mut others = drained.iter().enumerate().filter(|(other, _)| *other != shard);
        if others.all(|(_, is_drained)| *is_drained) {
            return Err(DrainRejected);
        }
        drained[shard] = true;
        Ok(())
    }

    /// Lets a shard have cells again.
    pub(crate) fn undrain(&self, shard: ShardId) {
        self.drained()[usize::from(shard.0)] = false;
    }

    fn drained(&self) -> MutexGuard<'_, Box<[bool]>> {
        // A flag is never half set.
        self.drained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The busiest shard against the mean, as it was last seen: 1 is even.
    pub(crate) fn imbalance(&self) -> f64 {
        self.imbalance_permille.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Notes the imbalance that was seen.
    pub(crate) fn set_imbalance(&self, imbalance: f64) {
        self.imbalance_permille.store((imbalance * 1000.0).round() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_cell_is_listed_until_it_is_unpinned() {
        let steering = Steering::new(2);
        steering.pin(CellId(7));
        steering.pin(CellId(1023));
        assert_eq!(steering.pinned().collect::<Vec<_>>(), [CellId(7), CellId(1023)]);
        steering.unpin(CellId(7));
        assert_eq!(steering.mobility(CellId(7)), Movable::Free);
        assert_eq!(steering.mobility(CellId(1023)), Movable::Pinned);
    }

    #[test]
    fn the_last_shard_that_takes_cells_is_not_drained() {
        let steering = Steering::new(2);
        assert_eq!(steering.drain(ShardId(0)), Ok(()));
        assert_eq!(steering.drain(ShardId(0)), Ok(()));
        assert_eq!(steering.drain(ShardId(1)), Err(DrainRejected));
        assert_eq!(
            [0, 1].map(|shard| steering.drain_state(ShardId(shard))),
            [DrainState::Drained, DrainState::Open]
        );
        steering.undrain(ShardId(0));
        assert_eq!(steering.drain(ShardId(1)), Ok(()));
    }

    #[test]
    fn it_pauses_and_goes_on() {
        let steering = Steering::new(1);
        assert_eq!(steering.motion(), Motion::Running);
        steering.set_motion(Motion::Paused);
        assert_eq!(steering.motion(), Motion::Paused);
        steering.set_motion(Motion::Running);
        assert_eq!(steering.motion(), Motion::Running);
    }
}
