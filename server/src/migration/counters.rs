//! What became of migrations: the one place where they are counted, which every core may report.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::migration::{Migrated, MigrationError};
use silverback_model::named;

named! {
    /// Why a cell moves.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Reason {
        /// Its shard is busier than others.
        HotShard = "hot_shard",
        /// Its shard is to have no cells.
        Drain = "drain",
    }
}

/// On whose word a cell is to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The planner's.
    Planned(Reason),
    /// An operator's.
    Operator,
}

named! {
    /// Why a cell stayed where it was.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum MigrationErrorKind {
        /// Another migration was in progress, or reads from before one.
        Busy = "busy",
        /// The cell was there already, or there is no such shard.
        NoOp = "no_op",
        /// The target had no room.
        BudgetExceeded = "no_room",
        /// A log took nothing in.
        Log = "log",
        /// A shard did not answer in time.
        TimedOut = "timed_out",
        /// A shard was asked what it did not expect.
        Protocol = "protocol",
        /// The node was stopping.
        Stopping = "stopping",
    }
}

/// The counters: a node's, shared by all cores.
pub type MigrationCounters = MigrationCounts<AtomicU64>;

/// Their values at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationCounts<T = u64> {
    /// Moves that were planned, by why.
    pub planned_by: [T; Reason::ALL.len()],
    /// Those of them that were done, by why they were planned.
    pub done_by: [T; Reason::ALL.len()],
    /// Those of them that failed, by why they did.
    pub failed_by: [T; MigrationErrorKind::ALL.len()],
    /// Migrations that an operator asked for and got.
    pub done_by_hand: T,
    /// Those that an operator asked for in vain, by why.
    pub failed_by_hand: [T; MigrationErrorKind::ALL.len()],
    /// Series that moved.
    pub series: T,
    /// The bytes that crossed for them.
    pub bytes: T,
    /// The time that migrations took, in µs, summed.
    pub took_us: T,
    /// The time that their cells took no writes in, in µs, summed.
    pub paused_us: T,
}

impl MigrationCounters {
    /// Counts a move that is planned.
    pub(crate) fn plan(&self, reason: Reason) {
        add(&self.planned_by[reason as usize], 1);
    }

    /// Counts how a migration ended.
    pub(crate) fn end(&self, trigger: Trigger, ended: &Result<Migrated, MigrationError>) {
        match (ended, trigger) {
            (Ok(_), Trigger::Planned(reason)) => add(&self.done_by[reason as usize], 1),
            (Ok(_), Trigger::Operator) => add(&self.done_by_hand, 1),
            (Err(error), Trigger::Planned(_)) => add(&self.failed_by[error.reason() as usize], 1),
            (Err(error), Trigger::Operator) => add(&self.failed_by_hand[error.reason() as usize], 1),
        }
        if let Ok(Migrated { series, bytes, took_us, paused_us, .. }) = ended {
            add(&self.series, *series);
            add(&self.bytes, *bytes);
            add(&self.took_us, *took_us);
            add(&self.paused_us, *paused_us);
        }
    }

    /// Their values now.
    pub fn counts(&self) -> MigrationCounts {
        MigrationCounts {
            planned_by: values(&self.planned_by),
            done_by: values(&self.done_by),
            failed_by: values(&self.failed_by),
            done_by_hand: value(&self.done_by_hand),
            failed_by_hand: values(&self.failed_by_hand),
            series: value(&self.series),
            bytes: value(&self.bytes),
            took_us: value(&self.took_us),
            paused_us: value(&self.paused_us),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn values<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
    array::from_fn(|i| value(&counters[i]))
}

impl MigrationCounts {
    /// Moves that were planned.
    pub(crate) fn planned(&self) -> u64 {
        self.planned_by.iter().sum()
    }

    /// Those that were done.
    pub(crate) fn done(&self) -> u64 {
        self.done_by.iter().sum()
    }

    /// Those that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed_by.iter().sum()
    }

    /// Cells that migrated, on whoever's word.
    pub(crate) fn all_done(&self) -> u64 {
        self.done() + self.done_by_hand
    }

    /// Cells that stayed where they were for a reason, on whoever's word they were to move.
    pub(crate) fn all_failed(&self, why: MigrationErrorKind) -> u64 {
        self.failed_by[why as usize] + self.failed_by_hand[why as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::{Epoch, ShardId};

    #[test]
    fn each_migration_is_counted_once_and_a_planned_one_among_all() {
        let counters = MigrationCounters::default();
        let migrated = Migrated { series: 3, bytes: 50, epoch: Epoch(2), took_us: 7, paused_us: 2 };
        let error = MigrationError::TimedOut(ShardId(1));
        counters.plan(Reason::Drain);
        for trigger in [Trigger::Planned(Reason::Drain), Trigger::Operator] {
            counters.end(trigger, &Ok(migrated));
            counters.end(trigger, &Err(error.clone()));
        }
        let counts = counters.counts();
        assert_eq!((counts.planned(), counts.done(), counts.failed()), (1, 1, 1));
        assert_eq!(counts.done_by[Reason::Drain as usize], 1);
        assert_eq!((counts.all_done(), counts.all_failed(MigrationErrorKind::TimedOut)), (2, 2));
        assert_eq!((counts.series, counts.bytes, counts.took_us, counts.paused_us), (6, 100, 14, 4));
    }
}
