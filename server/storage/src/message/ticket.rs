//! What the shards know of a read in flight: whether anybody still waits for it, and which of two reads
//! is older. What it reads is not known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use silverback_host::Arrivals;
use silverback_host::arrivals::Reached;

/// Counts reads over all cores of the process. Touched once for each read, never for a write.
static ISSUED: AtomicU64 = AtomicU64::new(0);

/// Names one read on every core. A clone is the same read.
#[derive(Debug, Clone)]
pub struct ReadTicket(Arc<TicketState>);

#[derive(Debug)]
struct TicketState {
    number: u64,
    /// Anybody who has said that nobody waits for it.
    cancelled: Arrivals,
    is_waited_for: AtomicBool,
}

impl ReadTicket {
    /// For a read that begins now.
    pub fn issue() -> Self {
        let number = ISSUED.fetch_add(1, Ordering::Relaxed);
        let (cancelled, is_waited_for) = Default::default();
        Self(Arc::new(TicketState { number, cancelled, is_waited_for }))
    }

    /// Which read it is: an older one has a smaller number, on every core.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Nobody waits for the read any more: each core stops at its next step and gives back what the read
    /// holds.
    pub fn cancel(&self) {
        self.0.cancelled.arrive();
    }

    /// Another read waits for what this one holds on a shard.
    pub(crate) fn tell_waited_for(&self) {
        self.0.is_waited_for.store(true, Ordering::Relaxed);
    }

    /// Whether another read has waited for what this one holds since this was asked last.
    pub fn was_waited_for(&self) -> bool {
        self.0.is_waited_for.swap(false, Ordering::Relaxed)
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.count() > 0
    }

    /// Waits until it is to stop.
    pub(crate) fn cancelled(&self) -> Reached {
        self.0.cancelled.reached(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_of_a_ticket_knows_that_it_is_cancelled() {
        let (ticket, later) = (ReadTicket::issue(), ReadTicket::issue());
        let clone = ticket.clone();
        ticket.cancel();
        assert!(clone.is_cancelled() && !later.is_cancelled());
        assert!(clone.number() < later.number());
    }
}
