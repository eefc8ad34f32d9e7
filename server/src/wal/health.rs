//! How many of a node's logs take nothing in, for whoever has to know of all of them at once.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the logs of a node. Touched when a log's standing changes, never on a write's way.
#[derive(Debug, Default)]
pub struct LogHealth {
    shut: AtomicUsize,
}

impl LogHealth {
    /// Logs that take nothing in now.
    pub fn shut(&self) -> usize {
        self.shut.load(Ordering::Acquire)
    }

    pub(super) fn one_shut(&self) {
        self.shut.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn one_opened(&self) {
        self.shut.fetch_sub(1, Ordering::AcqRel);
    }
}
