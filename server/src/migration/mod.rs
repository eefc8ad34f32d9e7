//! Migrations: one cell from one shard to another, with no sample lost, doubled, or out of order.
//!
//! Whoever hands a cell over asks its *source* and its *target* in turn; the shards never speak to
//! each other, and whatever goes wrong before the target owns the cell ends with the source's
//! serving it as before.
//!
//! ```text
//!           source                               target                            every core
//! Serving       Copy → pieces of its series →       Take: hidden from reads, logged
//!               Copy → what came since →            Take                                  (a few times)
//! Draining      Drain: its samples come back                                        senders wait for a table
//! Transferring         → the rest →                 Own: a record, on disk; then
//! Switched      still answers reads of old epochs   answers reads of the new one    Reads: the new epoch
//!                                                   accepts samples                 Writes: the new table
//!               Release: a record, on disk; frees the series once no old read is left
//! ```
//!
//! **Writes.** A part carries the epoch of the table that it was split by. From the drain on, the
//! source gives back what parts of earlier epochs have for the cell, for good: also when it keeps the
//! cell after all, which then goes on by an epoch of its own. So of all that a sender has in flight for
//! a series by one table, what comes before some point is accepted and all after it comes back; a
//! sender that lets all of it land before it goes on with a newer table keeps each series in order. A
//! part's other series are taken in all the same: were they given back with it, a later part without the
//! cell would overtake them.
//!
//! **Reads** ask all shards by one epoch. Of the two shards that have the cell meanwhile, the source
//! answers for it to the epochs before the migration's, the target to the others: always exactly one.
//! No sample is acknowledged by the target before every core asks reads by the new epoch.
//!
//! **The logs.** A shard's log says from which epoch on it owns a cell; the highest owns it after a
//! restart, and all others drop what they have of it. The target's record is on disk, after all of the
//! cell, before the source may release it. A source that keeps the cell writes a higher epoch before it
//! acknowledges anything more. Nothing else has to be on disk: a migration that a crash meets happened
//! or didn't.

mod counters;
mod steps;
mod turn;

use std::rc::Rc;
use std::sync::Arc;

use futures::channel::oneshot;

use crate::migration::steps::Migration;
use crate::routing::Router;
use silverback_host::Host;
use silverback_model::{CellId, Epoch, ShardId};
use silverback_storage::message::MigrationRejected;

pub use counters::{MigrationCounters, MigrationCounts, MigrationErrorKind, Reason, Trigger};
pub use turn::Turn;

// For `turn`, which the models in `tests/loom` include.
use silverback_runtime::sync;

/// A cell that moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Its series.
    pub series: u64,
    /// The bytes that crossed between the shards.
    pub bytes: u64,
    /// Of the routing table since.
    pub epoch: Epoch,
    /// How long all of it took, in µs.
    pub took_us: u64,
    /// How long the cell took no writes in, in µs.
    pub paused_us: u64,
}

/// Why a cell stayed where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// Another cell of the node is on its way.
    #[error("another cell is being handed over")]
    Busy,
    /// There is no such shard.
    #[error("there is no shard {}", .0.0)]
    NoSuchShard(ShardId),
    /// It is there already.
    #[error("the cell is on that shard already")]
    AlreadyThere,
    /// A shard refused a step.
    #[error("shard {shard}: {refusal}", shard = .0.0, refusal = .1)]
    Refused(ShardId, MigrationRejected),
    /// A shard did not answer in time.
    #[error("shard {} did not answer in time", .0.0)]
    TimedOut(ShardId),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl MigrationError {
    /// Under which it is counted.
    pub(crate) fn reason(&self) -> MigrationErrorKind {
        match self {
            Self::Busy | Self::Refused(_, MigrationRejected::Busy) => MigrationErrorKind::Busy,
            Self::NoSuchShard(_) | Self::AlreadyThere => MigrationErrorKind::NoOp,
            Self::Refused(_, MigrationRejected::Full) => MigrationErrorKind::BudgetExceeded,
            Self::Refused(_, MigrationRejected::Log(_)) => MigrationErrorKind::Log,
            Self::Refused(
                _,
                MigrationRejected::NotHeld | MigrationRejected::OutOfStep | MigrationRejected::Unreadable(_),
            ) => MigrationErrorKind::Protocol,
            Self::TimedOut(_) => MigrationErrorKind::TimedOut,
            Self::Stopping => MigrationErrorKind::Stopping,
        }
    }
}

/// Moves cells, one at a time in the whole node. Every core may have its own.
#[derive(Clone)]
pub struct Migrations {
    router: Rc<Router>,
    /// Shared by all cores: whether one of them moves a cell.
    turn: Turn,
    counters: Arc<MigrationCounters>,
}

impl Migrations {
    /// One core's; `turn` and `counters` are the node's.
    pub fn new(router: Rc<Router>, turn: Turn, counters: Arc<MigrationCounters>) -> Self {
        Self { router, turn, counters }
    }

    /// Moves `cell` to the shard `to`; after an error the cell is served where it was. What can be
    /// given up takes a bounded time. The few steps without which nothing may go on take as long as
    /// their shards do. Goes on to its end though nobody waits for it any more.
    pub async fn migrate<H: Host>(
        &self,
        host: &H,
        cell: CellId,
        to: ShardId,
        trigger: Trigger,
    ) -> Result<Migrated, MigrationError> {
        let (sender, ended) = oneshot::channel();
        let (migrations, its_host) = (self.clone(), host.clone());
        host.spawn_essential(async move {
            let result = migrations.run(&its_host, cell, to).await;
            migrations.counters.end(trigger, &result);
            // Nobody waits: it is counted all the same.
            drop(sender.send(result));
        });
        ended.await.unwrap_or(Err(MigrationError::Stopping))
    }

    async fn run<H: Host>(&self, host: &H, cell: CellId, to: ShardId) -> Result<Migrated, MigrationError> {
        let turn = self.turn.take().ok_or(MigrationError::Busy)?;
        let table = self.router.table();
        let from = table.owner(cell);
        if usize::from(to.0) >= table.shards() {
            return Err(MigrationError::NoSuchShard(to));
        }
        if from == to {
            return Err(MigrationError::AlreadyThere);
        }
        let epoch = table.epoch().next();
        let migrated = Migration { router: &self.router, host, cell, from, to, epoch }.run().await;
        drop(turn);
        tracing::debug!(cell = cell.0, from = from.0, to = to.0, ?migrated, "handed a cell over");
        migrated
    }
}
