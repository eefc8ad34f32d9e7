//! HTTP/2 streams whose client takes nothing of its answer: each is reset after the stall timeout.
//!
//! Its connection says nothing of it, for pings and other streams move bytes there. But hyper asks
//! a body for a frame only once it has sent the last one on: so a stream that was given a frame and
//! asks for none waits for its client. To drop hyper's task of the stream is to reset it.
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use crate::counters;
use silverback_host::waiters::KeptWaker;

/// What is noted of one stream.
#[derive(Default)]
pub(super) struct StreamWatch {
    /// The look at which the body gave the frame that hyper has in hand.
    gave: Cell<Option<u64>>,
    given_up: Cell<bool>,
    waker: KeptWaker,
}

impl StreamWatch {
    /// The body is asked for its next frame.
    pub(super) fn asked(&self) {
        self.gave.set(None);
    }

    /// The body gave a frame.
    pub(super) fn gave(&self, look: u64) {
        self.gave.set(Some(look));
    }

    /// Gives the stream up if its client took nothing for more than so many looks.
    pub(super) fn look(&self, look: u64, looks_max: u64) {
        // The look that was in flight when it began to wait doesn't count.
        if self.gave.get().is_some_and(|gave| look.saturating_sub(gave) > looks_max) {
            self.given_up.set(true);
            self.waker.wake();
        }
    }

    fn poll_given_up(&self, cx: &Context<'_>) -> bool {
        self.waker.keep(cx);
        self.given_up.get()
    }
}

/// Runs hyper's task of a stream to its end, or until the stream is given up.
pub(super) async fn while_taken(stream: Rc<StreamWatch>, task: impl Future<Output = ()>) {
    let mut task = pin!(task);
    poll_fn(|cx| {
        if stream.poll_given_up(cx) {
            counters::with(|c| c.streams_timed_out += 1);
            tracing::debug!("an HTTP/2 stream was reset: its client took nothing of the answer");
            return Poll::Ready(());
        }
        task.as_mut().poll(cx)
    })
    .await;
}
