//! Which of a node's logs accept nothing, and why, for whoever has to know of all of them at once.
#![expect(
    clippy::disallowed_types,
    reason = "held when a log begins or ends to accept writes, never on a write's way"
)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wal::LogError;
use silverback_host::arrivals::{Arrivals, Reached};

/// Shared by the logs of a node. Touched when a log begins or ends to accept writes, never on a
/// write's way.
#[derive(Debug, Default)]
pub struct LogHealth {
    /// How many there are in `faults`: asked for far more often than these.
    shut: AtomicUsize,
    /// Of each log that accepts nothing, the one that has been so for longest first.
    faults: Mutex<Vec<LogError>>,
    /// How often that has changed.
    changes: Arrivals,
}

/// Logs that accept nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShutLogs {
    /// How many there are.
    pub count: usize,
    /// Why the first of them doesn't.
    pub fault: LogError,
}

impl LogHealth {
    /// The logs that accept nothing now, if there are any.
    pub fn shut(&self) -> Option<ShutLogs> {
        if self.shut.load(Ordering::Acquire) == 0 {
            return None;
        }
        let faults = self.faults();
        faults.first().map(|fault| ShutLogs { count: faults.len(), fault: fault.clone() })
    }

    /// Whether the disk of any log doesn't answer.
    pub fn is_any_hung(&self) -> bool {
        let is_hung = |fault: &LogError| matches!(fault, LogError::Hung(_));
        self.shut.load(Ordering::Acquire) > 0 && self.faults().iter().any(is_hung)
    }

    /// Waits until what is wrong with any of them changes, from the call on.
    pub fn next_change(&self) -> Reached {
        self.changes.reached(self.changes.count() + 1)
    }

    /// What is wrong with a log has changed: what it was, and what it is.
    fn changed(&self, former: Option<&LogError>, now: Option<&LogError>) {
        let mut faults = self.faults();
        // Equal faults of two logs are alike: either will do.
        let place = former.and_then(|former| faults.iter().position(|fault| fault == former));
        match (place, now) {
            (Some(place), Some(now)) => faults[place] = now.clone(),
            (Some(place), None) => drop(faults.remove(place)),
            (None, Some(now)) => faults.push(now.clone()),
            (None, None) => {}
        }
        self.shut.store(faults.len(), Ordering::Release);
        drop(faults);
        self.changes.arrive();
    }

    fn faults(&self) -> MutexGuard<'_, Vec<LogError>> {
        // Each change is one step: a panic elsewhere leaves nothing half done.
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one log has reported of itself.
#[derive(Debug)]
pub(super) struct HealthEntry {
    health: Arc<LogHealth>,
    told: RefCell<Option<LogError>>,
}

impl HealthEntry {
    /// Of a log that has reported nothing yet, and counts as one that takes writes until it does.
    pub(super) fn new(health: Arc<LogHealth>) -> Self {
        Self { health, told: RefCell::default() }
    }

    /// Why the log accepts nothing now. Touches nothing that others share where it is the same as before.
    pub(super) fn tell(&self, fault: Option<LogError>) {
        let mut told = self.told.borrow_mut();
        if *told != fault {
            self.health.changed(told.as_ref(), fault.as_ref());
            *told = fault;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use silverback_test_support::waking::check_is_woken;

    use super::*;

    #[test]
    fn who_waits_for_a_change_is_woken_by_the_next_one() {
        let health = LogHealth::default();
        let before = health.next_change();
        health.changed(None, Some(&LogError::Replaying));
        assert!(before.now_or_never().is_some(), "it came after the call");
        check_is_woken(health.next_change(), || health.changed(Some(&LogError::Replaying), None));
    }

    #[test]
    fn the_fault_that_is_told_is_of_a_log_that_is_still_shut() {
        let health = LogHealth::default();
        let check = |count, fault: Option<&LogError>| {
            assert_eq!(health.shut(), fault.map(|fault| ShutLogs { count, fault: fault.clone() }));
        };
        let (full, failed) = (LogError::Full("no space left".into()), LogError::Failed("I/O error".into()));
        check(0, None);
        health.changed(None, Some(&LogError::Replaying));
        health.changed(None, Some(&LogError::Replaying));
        check(2, Some(&LogError::Replaying));
        health.changed(Some(&LogError::Replaying), Some(&full));
        health.changed(Some(&LogError::Replaying), None);
        check(1, Some(&full));
        health.changed(None, Some(&failed));
        check(2, Some(&full));
        assert!(!health.is_any_hung());
        health.changed(Some(&full), Some(&LogError::Hung(5)));
        assert!(health.is_any_hung());
        health.changed(Some(&LogError::Hung(5)), None);
        assert!(!health.is_any_hung());
        check(1, Some(&failed));
    }
}
