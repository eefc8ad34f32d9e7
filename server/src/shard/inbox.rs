//! What waits for a shard's worker: writes in the order in which they came, and questions in theirs.
//! What is done about them is the worker's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::message::{Correlation, Question, ShardRequest, WritePart};

/// Where a reply goes: a core, and the request on it that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The core that asked.
    pub core: usize,
    /// Its request.
    pub correlation: Correlation,
}

/// The requests that wait for a shard, from its own core and from lanes. Bounded by the askers:
/// each core has a bounded number of requests under way to each shard.
#[derive(Debug, Default)]
pub struct Inbox {
    writes: RefCell<VecDeque<(ReplyTo, WritePart)>>,
    questions: RefCell<VecDeque<(ReplyTo, Question)>>,
    worker: RefCell<Option<Waker>>,
    closed: Cell<bool>,
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
    pub fn len(&self) -> usize {
        self.writes.borrow().len() + self.questions.borrow().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn wake(&self) {
        if let Some(waker) = self.worker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The next write that waits.
    pub(super) fn take_write(&self) -> Option<(ReplyTo, WritePart)> {
        self.writes.borrow_mut().pop_front()
    }

    /// The next question that waits.
    pub(super) fn take_question(&self) -> Option<(ReplyTo, Question)> {
        self.questions.borrow_mut().pop_front()
    }

    /// Waits for any request. Tells whether there is one: `false` once the inbox is closed and empty.
    pub(super) async fn wait(&self) -> bool {
        self.poll(|| (!self.is_empty()).then_some(true).or(self.closed.get().then_some(false))).await
    }

    /// Waits for a question.
    pub(super) async fn next_question(&self) -> (ReplyTo, Question) {
        self.poll(|| self.take_question()).await
    }

    async fn poll<T>(&self, look: impl Fn() -> Option<T>) -> T {
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                *self.worker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
