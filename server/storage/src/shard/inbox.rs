//! What waits for a shard's worker: writes in the order in which they came, and questions in theirs.
//! What is done about them is the worker's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use crate::message::{ControlRequest, Correlation, ShardRequest, WritePart};
use silverback_host::waiters::KeptWaker;

/// Where a reply goes: a core, and the request on it that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The core that asked.
    pub core: usize,
    /// Its request.
    pub correlation: Correlation,
}

/// The requests that wait for a shard, from its own core and from lanes. Bounded by the askers:
/// each core has a bounded number of requests in flight to each shard.
#[derive(Debug, Default)]
pub struct Inbox {
    writes: RefCell<VecDeque<(ReplyTo, WritePart)>>,
    questions: RefCell<VecDeque<(ReplyTo, ControlRequest)>>,
    worker: KeptWaker,
    closed: Cell<bool>,
    /// The watchdog asked the worker whether it is there, and has no sign yet.
    sign_wanted: Cell<bool>,
}

impl Inbox {
    /// Adds a request and wakes the worker.
    pub fn push(&self, from: ReplyTo, request: ShardRequest) {
        match request {
            ShardRequest::Write(write) => self.writes.borrow_mut().push_back((from, write)),
            ShardRequest::Ask(question) => self.questions.borrow_mut().push_back((from, question)),
        }
        self.wake();
    }

    /// Lets the worker end once it has served what waits.
    pub fn close(&self) {
        self.closed.set(true);
        self.wake();
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.writes() + self.questions.borrow().len()
    }

    /// Writes that wait.
    pub(super) fn writes(&self) -> usize {
        self.writes.borrow().len()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks the worker for a sign that it is there. Tells whether it gave the one that was asked for before.
    pub fn ask_for_sign(&self) -> bool {
        let gave = !self.sign_wanted.replace(true);
        self.wake();
        gave
    }

    fn wake(&self) {
        self.worker.wake();
    }

    /// The next write that waits.
    pub(super) fn take_write(&self) -> Option<(ReplyTo, WritePart)> {
        self.sign_wanted.set(false);
        self.writes.borrow_mut().pop_front()
    }

    /// The next question that waits.
    pub(super) fn take_question(&self) -> Option<(ReplyTo, ControlRequest)> {
        self.questions.borrow_mut().pop_front()
    }

    /// Waits for any request. Tells whether there is one: `false` once the inbox is closed and empty.
    pub(super) async fn wait(&self) -> bool {
        self.poll(|| (!self.is_empty()).then_some(true).or(self.closed.get().then_some(false))).await
    }

    /// Waits for a question.
    pub(super) async fn next_question(&self) -> (ReplyTo, ControlRequest) {
        self.poll(|| self.take_question()).await
    }

    async fn poll<T>(&self, look: impl Fn() -> Option<T>) -> T {
        poll_fn(|context| {
            self.sign_wanted.set(false);
            match look() {
                Some(found) => Poll::Ready(found),
                None => {
                    self.worker.keep(context);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;
    use silverback_test_support::waking::check_one_waker_is_kept;

    #[test]
    fn a_worker_that_is_polled_gives_a_sign_and_one_that_is_not_gives_none() {
        let inbox = Inbox::default();
        let mut waiting = pin!(inbox.wait());
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(inbox.ask_for_sign(), "none was asked for before");
        assert!(!inbox.ask_for_sign());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(inbox.ask_for_sign());
        assert!(!inbox.ask_for_sign());
    }

    #[test]
    fn a_worker_is_kept_once_however_often_it_is_woken() {
        check_one_waker_is_kept(Inbox::default().wait());
    }
}
