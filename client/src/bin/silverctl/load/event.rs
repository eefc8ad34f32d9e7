//! What connections report of their requests, for one place to count. It knows neither protocols nor
//! totals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::tally::Tally;

/// What became of a request, or of several at once.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// One went out for the first time.
    Sent {
        /// Its samples.
        samples: u64,
    },
    /// So many samples were answered for; what was refused of them is reported after it.
    Answered {
        /// Of each request that is answered as a whole, from its intended start.
        latencies: Vec<Duration>,
        /// Samples.
        samples: u64,
    },
    /// Of the samples that were answered for, these were not stored.
    Refused {
        /// As the receiver names it.
        reason: String,
        /// Samples.
        samples: u64,
    },
    /// Sent again, after this status.
    SentAgain {
        /// A status, or what broke.
        status: String,
    },
    /// What the receiver said to a refusal.
    Said(String),
    /// Given up: none of their samples are known to be stored.
    Failed {
        /// A status, or what broke.
        status: String,
        /// Requests.
        requests: u64,
        /// Their samples.
        samples: u64,
    },
}

/// Where all connections report their events.
#[derive(Debug, Clone)]
pub(super) struct Counter(Arc<Mutex<Tally>>);

impl Counter {
    /// Counts in this tally.
    pub(super) fn new(tally: Tally) -> Self {
        Self(Arc::new(Mutex::new(tally)))
    }

    /// Counts an event.
    pub(super) fn tell(&self, event: Event) {
        self.tally().add(event);
    }

    /// What was counted so far.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        // Each event is counted as a whole, so a tally is sound whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
