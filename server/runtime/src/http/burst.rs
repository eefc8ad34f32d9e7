//! The share of a connection that works on what it has in its buffer, without reading.
//!
//! hyper comes back after a few requests, or a few pieces of one, even when the buffer holds thousands; it
//! then asks to be polled again at once. Reading has its turns, so what follows from one read is bounded by
//! the buffer alone; this bounds it by time.
use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

use crate::{readiness::WorkPlace, timers::now};

/// What a connection may work between two turns.
const SHARE: Duration = Duration::from_micros(100);
/// Polls since the last read that aren't a burst, however long they take: one takes a request in, and another
/// sends its answer. Their time isn't counted.
const POLLS_MIN: u32 = 4;

/// One connection's work since it last read, or had a turn.
pub(super) struct Burst {
    place: WorkPlace,
    reads: u64,
    polls: u32,
    spent: Duration,
}

impl Burst {
    /// Of a connection of this executor.
    pub(super) fn new() -> Self {
        Self { place: WorkPlace::new(), reads: 0, polls: 0, spent: Duration::ZERO }
    }

    /// Ready when the connection may go on.
    pub(super) fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.spent >= SHARE {
            ready!(self.place.poll(cx));
            (self.polls, self.spent) = (0, Duration::ZERO);
        }
        Poll::Ready(())
    }

    /// Polls the connection, and counts its time where that looks like a burst: usual requests are over before.
    /// `reads` says how many times it has read altogether.
    pub(super) fn poll<T>(&mut self, poll: impl FnOnce() -> T, reads: impl FnOnce() -> u64) -> T {
        let began = (self.polls >= POLLS_MIN).then(now);
        let polled = poll();
        self.spent += began.map_or(Duration::ZERO, |began| began.elapsed());
        self.polls = self.polls.saturating_add(1);
        let reads = reads();
        if std::mem::replace(&mut self.reads, reads) != reads {
            (self.polls, self.spent) = (0, Duration::ZERO);
        }
        polled
    }
}
