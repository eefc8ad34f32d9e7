//! How many handshakes an executor has in flight: each holds more memory than a connection that is through with it. One
//! more waits in line; where others wait, who takes longer than a second goes.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use silverback_host::waiters::KeptWaker;

use crate::{counters, timers::now};

/// What a handshake may take while others wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// All of one executor.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    /// In the order in which they began.
    held: RefCell<VecDeque<Rc<Slot>>>,
    waiting: RefCell<VecDeque<Rc<Slot>>>,
}

#[derive(Debug)]
struct Slot {
    standing: Cell<Standing>,
    waker: KeptWaker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waiting,
    Held {
        since: Instant,
    },
    /// It took too long.
    Out,
}

/// One handshake's place; another one has it when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    all: Rc<Handshakes>,
    slot: Rc<Slot>,
}

/// A handshake gave way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handshake took too long, and others waited")]
pub(super) struct GaveWay;

impl Handshakes {
    pub(crate) fn new(max: usize) -> Rc<Self> {
        Rc::new(Self { max: max.max(1), held: RefCell::default(), waiting: RefCell::default() })
    }

    /// A place, or one in the line.
    pub(super) fn ask(self: &Rc<Self>) -> Place {
        let slot = Rc::new(Slot { standing: Cell::new(Standing::Waiting), waker: KeptWaker::default() });
        self.waiting.borrow_mut().push_back(Rc::clone(&slot));
        self.fill();
        Place { all: Rc::clone(self), slot }
    }

    /// Looks whether who takes too long keeps others out.
    pub(crate) fn look(&self) {
        let waiting = self.waiting.borrow().len();
        let began_before = |slot: &&Rc<Slot>| match slot.standing.get() {
            Standing::Held { since } => now().saturating_duration_since(since) > PATIENCE,
            Standing::Waiting | Standing::Out => false,
        };
        let slow: Vec<_> = self.held.borrow().iter().take(waiting).filter(began_before).cloned().collect();
        for slot in slow {
            counters::with(|c| c.tls_handshakes_evicted += 1);
            slot.standing.set(Standing::Out);
            slot.waker.wake();
        }
    }

    /// Lets as many in as there are places.
    fn fill(&self) {
        while self.held.borrow().len() < self.max {
            let Some(next) = self.waiting.borrow_mut().pop_front() else { return };
            next.standing.set(Standing::Held { since: now() });
            self.held.borrow_mut().push_back(Rc::clone(&next));
            next.waker.wake();
        }
    }
}

impl Place {
    /// Ready when the handshake may go on.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Result<(), GaveWay>> {
        self.slot.waker.keep(cx);
        match self.slot.standing.get() {
            Standing::Held { .. } => Poll::Ready(Ok(())),
            Standing::Waiting => Poll::Pending,
            Standing::Out => Poll::Ready(Err(GaveWay)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for line in [&self.all.held, &self.all.waiting] {
            line.borrow_mut().retain(|slot| !Rc::ptr_eq(slot, &self.slot));
        }
        self.all.fill();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn may_go_on(place: &Place) -> bool {
        place.poll(&Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
    }

    #[test]
    fn so_many_have_a_place_and_the_next_in_line_gets_the_one_that_is_given_up() {
        let all = Handshakes::new(2);
        let (first, second, third, fourth) = (all.ask(), all.ask(), all.ask(), all.ask());
        assert!(may_go_on(&first) && may_go_on(&second) && !may_go_on(&third) && !may_go_on(&fourth));
        drop(third);
        assert!(!may_go_on(&fourth));
        drop(first);
        assert!(may_go_on(&fourth));
        drop((second, fourth));
        assert!(all.held.borrow().is_empty() && all.waiting.borrow().is_empty());
    }

    #[test]
    fn who_takes_long_gives_way_where_others_wait() {
        let all = Handshakes::new(1);
        let slow = all.ask();
        let long_ago = now() - 2 * PATIENCE;
        slow.slot.standing.set(Standing::Held { since: long_ago });
        all.look();
        assert!(may_go_on(&slow), "nobody waits");
        let next = all.ask();
        all.look();
        assert_eq!(slow.poll(&Context::from_waker(Waker::noop())), Poll::Ready(Err(GaveWay)));
        drop(slow);
        assert!(may_go_on(&next));
    }
}
