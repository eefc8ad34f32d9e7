//! What an executor counts about itself: plain cells, read on that executor only.
//!
//! It knows the names of the counts and nothing of how they are shown.
use std::cell::Cell;

use silverback_host::Counts;

/// A count that only its own executor changes.
#[derive(Debug, Default)]
pub(super) struct Count(Cell<u64>);

impl Count {
    pub(super) fn add_one(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(super) fn take_one(&self) {
        self.0.set(self.0.get() - 1);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The cells of one executor.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections_open: Count,
    pub(super) connections_accepted: Count,
    pub(super) connections_handed_over: Count,
    pub(super) connections_refused: Count,
    pub(super) connections_timed_out: Count,
    pub(super) streams_timed_out: Count,
    pub(super) connections_flooding: Count,
    pub(super) heads_refused: Count,
    pub(super) reads_held_back: Count,
    pub(super) accept_failures: Count,
    pub(super) connection_errors: Count,
    pub(super) requests_in_flight: Count,
    pub(super) requests: Count,
    pub(super) request_panics: Count,
    pub(super) task_panics: Count,
    pub(super) lane_refusals: Count,
}

thread_local! {
    // One executor a thread: its counters need no handle that would be passed through everything.
    static COUNTERS: Counters = Counters::default();
}

/// Runs `change` on this executor's counters.
pub(super) fn with<R>(change: impl FnOnce(&Counters) -> R) -> R {
    COUNTERS.with(change)
}

/// What this executor has counted so far.
pub fn counts() -> Counts {
    with(|c| Counts {
        connections_open: c.connections_open.get(),
        connections_accepted: c.connections_accepted.get(),
        connections_handed_over: c.connections_handed_over.get(),
        connections_refused: c.connections_refused.get(),
        connections_timed_out: c.connections_timed_out.get(),
        streams_timed_out: c.streams_timed_out.get(),
        connections_flooding: c.connections_flooding.get(),
        heads_refused: c.heads_refused.get(),
        reads_held_back: c.reads_held_back.get(),
        accept_failures: c.accept_failures.get(),
        connection_errors: c.connection_errors.get(),
        requests_in_flight: c.requests_in_flight.get(),
        requests: c.requests.get(),
        request_panics: c.request_panics.get(),
        task_panics: c.task_panics.get(),
        lane_refusals: c.lane_refusals.get(),
    })
}
