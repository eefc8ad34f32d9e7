//! What an executor counts about itself, read on that executor only.
//!
//! It knows the names of the counts and nothing of how they are shown.
use std::cell::RefCell;

use silverback_host::Counts;

thread_local! {
    // One executor a thread: its counters need no handle that would be passed through everything.
    static COUNTS: RefCell<Counts> = RefCell::default();
}

/// Runs `change` on this executor's counters.
pub(super) fn with<R>(change: impl FnOnce(&mut Counts) -> R) -> R {
    COUNTS.with_borrow_mut(change)
}

/// What this executor has counted so far.
pub fn counts() -> Counts {
    with(|counts| *counts)
}
