//! The end of a connection that nobody reads: while an HTTP/1 request is in flight, after bytes of a further one. It
//! knows whether the other side has ended and how many requests came whole, and the words for what a client does then;
//! what becomes of that is the watch's.

use std::{
    cell::Cell,
    task::{Context, Poll},
};

use crate::readiness::Hangup;

/// What a connection's client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientEnd {
    /// It may send more.
    Sends,
    /// It has ended its sending side: it waits for its answer, or has gone.
    Ended,
    /// The same, and bytes of the answer were sent since: where it has gone, its side refuses them, which is seen.
    IsAnswered,
}

/// That of one connection.
pub(super) struct UnreadEnd {
    hangup: Hangup,
    /// Requests so far.
    begun: Cell<u64>,
    /// Those of HTTP/1 that came whole, of which some may not have begun.
    whole: Cell<u64>,
}

impl UnreadEnd {
    pub(super) fn new(hangup: Hangup) -> Self {
        Self { hangup, begun: Cell::new(0), whole: Cell::new(0) }
    }

    pub(super) fn request_begins(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// So many requests have come whole.
    pub(super) fn came_whole(&self, requests: u64) {
        self.whole.set(requests);
    }

    /// Whether the client sends no more, and has sent every request whole that has begun.
    pub(super) fn has_come(&self) -> bool {
        self.hangup.is_ended() && self.whole.get() >= self.begun.get()
    }

    /// Ready when nothing moves on the connection any more.
    pub(super) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        self.hangup.poll_broken(cx)
    }
}
