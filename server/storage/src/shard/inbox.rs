//! What waits for a shard's worker: writes in the order in which they came, those that are begun in turns, and questions
//! in the order in which they came. What is done about them, and when, is the worker's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use crate::message::{ControlRequest, Correlation, ShardRequest, WritePart};
use crate::shard::in_progress::PartInProgress;
use silverback_host::waiters::KeptWaker;

/// What a write may take of the core, in µs, before another one has its turn: more than most take at all, so that reads
/// see these whole. What isn't begun has as much of the time as what is.
pub(super) const PART_TURN_US: u64 = 1000;

/// So many of those that are begun have turns.
const TAKING_TURNS: usize = 4;

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
    /// Writes that took longer than their turn. The first few have their turns one after the other, and the others wait for
    /// one of them to end: so the first don't end with the last.
    begun: RefCell<VecDeque<PartInProgress>>,
    /// What those that weren't begun took since one that was had its turn, in µs.
    unbegun_us: Cell<u64>,
    questions: RefCell<VecDeque<(ReplyTo, ControlRequest)>>,
    worker: KeptWaker,
    closed: Cell<bool>,
    /// Nobody waits for writes any more.
    abandoned: Cell<bool>,
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

    /// Closes it, where nobody waits for what is in it: writes are given up, in the middle of a part, too.
    pub fn abandon(&self) {
        self.abandoned.set(true);
        self.writes.borrow_mut().clear();
        self.begun.borrow_mut().clear();
        self.close();
    }

    /// Whether nobody waits for writes any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        let begun = self.begun.borrow().iter().map(|part| 1 + part.followers()).sum::<usize>();
        self.writes() + begun + self.questions.borrow().len()
    }

    /// Writes that wait and aren't begun.
    pub(super) fn writes(&self) -> usize {
        self.writes.borrow().len()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes() == 0 && !self.has_begun() && self.questions.borrow().is_empty()
    }

    /// Whether a write waits that is begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.begun.borrow().is_empty()
    }

    /// Whether a write that is begun has the next turn, if there is one.
    pub(super) fn is_begun_due(&self) -> bool {
        self.unbegun_us.get() >= PART_TURN_US
    }

    /// Asks the worker for a sign that it is there. Returns whether it gave the one that was asked for before.
    pub fn ask_for_sign(&self) -> bool {
        let gave = !self.sign_wanted.replace(true);
        self.wake();
        gave
    }

    fn wake(&self) {
        self.worker.wake();
    }

    /// The write whose turn it is.
    pub(super) fn take_part(&self) -> Option<PartInProgress> {
        self.sign_wanted.set(false);
        if !self.is_begun_due()
            && let Some(part) = self.take_unbegun()
        {
            return Some(part);
        }
        let begun = self.begun.borrow_mut().pop_front();
        begun.or_else(|| self.take_unbegun())
    }

    /// The next write that isn't begun. What is of a stream that has one begun waits for that.
    fn take_unbegun(&self) -> Option<PartInProgress> {
        let (mut writes, mut begun) = (self.writes.borrow_mut(), self.begun.borrow_mut());
        while let Some((to, write)) = writes.pop_front() {
            match find_before(&mut begun, &write) {
                Some(part) => part.add_follower(to, write),
                None => return Some(PartInProgress::new(to, write)),
            }
        }
        None
    }

    /// A write had a turn, which took so long. One that was begun before has the next turn once others have had as much
    /// as it may take.
    pub(super) fn note_turn(&self, was_begun: bool, took_us: u64) {
        self.unbegun_us.set(if was_begun { 0 } else { self.unbegun_us.get() + took_us });
    }

    /// Puts a write back that had a turn and isn't whole.
    pub(super) fn put_back(&self, part: PartInProgress, was_begun: bool) {
        let mut begun = self.begun.borrow_mut();
        let place = if was_begun { begun.len().min(TAKING_TURNS - 1) } else { begun.len() };
        begun.insert(place, part);
    }

    /// Lets those go on that waited for a write, before all others.
    pub(super) fn let_follow(&self, followers: VecDeque<(ReplyTo, WritePart)>) {
        let mut writes = self.writes.borrow_mut();
        followers.into_iter().rev().for_each(|write| writes.push_front(write));
    }

    /// The next question that waits.
    pub(super) fn take_question(&self) -> Option<(ReplyTo, ControlRequest)> {
        self.questions.borrow_mut().pop_front()
    }

    /// Waits for any request. Returns whether there is one: `false` once the inbox is closed and empty.
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

/// The begun write that another one has to wait for.
fn find_before<'a>(
    begun: &'a mut VecDeque<PartInProgress>,
    write: &WritePart,
) -> Option<&'a mut PartInProgress> {
    let stream = write.part.stream?;
    begun.iter_mut().find(|part| part.stream() == Some(stream))
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
