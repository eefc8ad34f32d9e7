//! What became of planned moves: counters that every core may tell.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rebalance::Reason;
use silverback_storage::message::HandoffReason;

/// The counters.
#[derive(Debug, Default)]
pub struct MoveCounters {
    planned: [AtomicU64; Reason::ALL.len()],
    done: [AtomicU64; Reason::ALL.len()],
    failed: [AtomicU64; HandoffReason::ALL.len()],
}

/// Their values at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Moves that were planned, by why.
    pub(crate) planned_by: [u64; Reason::ALL.len()],
    /// Those of them that were done, by why they were planned.
    pub(crate) done_by: [u64; Reason::ALL.len()],
    /// Those of them that failed, by why they did.
    pub(crate) failed_by: [u64; HandoffReason::ALL.len()],
}

impl MoveCounters {
    /// Counts a move that is planned.
    pub(crate) fn plan(&self, reason: Reason) {
        self.planned[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that is done.
    pub(crate) fn finish(&self, reason: Reason) {
        self.done[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub(crate) fn fail(&self, why: HandoffReason) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Their values now.
    pub(crate) fn counts(&self) -> MoveCounts {
        fn values<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
            array::from_fn(|i| counters[i].load(Ordering::Relaxed))
        }
        MoveCounts {
            planned_by: values(&self.planned),
            done_by: values(&self.done),
            failed_by: values(&self.failed),
        }
    }
}

impl MoveCounts {
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
}
