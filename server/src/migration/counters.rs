//! What became of migrations: the one place where they are counted, which every core may tell.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::migration::{Migrated, MigrationError};

/// Why a cell moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its shard is busier than others.
    HotShard,
    /// Its shard is to have no cells.
    Drain,
}

impl Reason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 2] = [Self::HotShard, Self::Drain];

    /// As metrics and the log call it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::HotShard => "hot_shard",
            Self::Drain => "drain",
        }
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

/// Why a cell stayed where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MigrationFailure {
    /// Another migration was under way, or reads from before one.
    Busy,
    /// The cell was there already, or there is no such shard.
    NoOp,
    /// The target had no room.
    BudgetExceeded,
    /// A log took nothing in.
    Log,
    /// A shard did not answer in time.
    TimedOut,
    /// A shard was asked what it did not expect.
    Protocol,
    /// The node was stopping.
    Stopping,
}

impl MigrationFailure {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::Busy,
        Self::NoOp,
        Self::BudgetExceeded,
        Self::Log,
        Self::TimedOut,
        Self::Protocol,
        Self::Stopping,
    ];

    /// The `reason` label in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::NoOp => "no_op",
            Self::BudgetExceeded => "no_room",
            Self::Log => "log",
            Self::TimedOut => "timed_out",
            Self::Protocol => "protocol",
            Self::Stopping => "stopping",
        }
    }
}

/// The counters: a node's, shared by all cores.
#[derive(Debug, Default)]
pub struct MigrationCounters {
    planned: [AtomicU64; Reason::ALL.len()],
    done: [AtomicU64; Reason::ALL.len()],
    failed: ByFailure<AtomicU64>,
    done_by_hand: AtomicU64,
    failed_by_hand: ByFailure<AtomicU64>,
    series: AtomicU64,
    bytes: AtomicU64,
    took_us: AtomicU64,
    paused_us: AtomicU64,
}

type ByFailure<T> = [T; MigrationFailure::ALL.len()];

/// Their values at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Moves that were planned, by why.
    pub planned_by: [u64; Reason::ALL.len()],
    /// Those of them that were done, by why they were planned.
    pub done_by: [u64; Reason::ALL.len()],
    /// Those of them that failed, by why they did.
    pub failed_by: ByFailure<u64>,
    /// Migrations that an operator asked for and got.
    pub done_by_hand: u64,
    /// Those that an operator asked for in vain, by why.
    pub failed_by_hand: ByFailure<u64>,
    /// Series that moved.
    pub series: u64,
    /// The bytes that crossed for them.
    pub bytes: u64,
    /// The time that migrations took, in µs, summed.
    pub took_us: u64,
    /// The time that their cells took no writes in, in µs, summed.
    pub paused_us: u64,
}

impl MigrationCounters {
    /// Counts a move that is planned.
    pub(crate) fn plan(&self, reason: Reason) {
        add(&self.planned[reason as usize], 1);
    }

    /// Counts how a migration ended.
    pub(crate) fn end(&self, trigger: Trigger, ended: &Result<Migrated, MigrationError>) {
        match (ended, trigger) {
            (Ok(_), Trigger::Planned(reason)) => add(&self.done[reason as usize], 1),
            (Ok(_), Trigger::Operator) => add(&self.done_by_hand, 1),
            (Err(error), Trigger::Planned(_)) => add(&self.failed[error.reason() as usize], 1),
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
            planned_by: values(&self.planned),
            done_by: values(&self.done),
            failed_by: values(&self.failed),
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
    pub(crate) fn all_failed(&self, why: MigrationFailure) -> u64 {
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
        assert_eq!((counts.all_done(), counts.all_failed(MigrationFailure::TimedOut)), (2, 2));
        assert_eq!((counts.series, counts.bytes, counts.took_us, counts.paused_us), (6, 100, 14, 4));
    }
}
