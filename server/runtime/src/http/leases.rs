//! Who may read on while requests of its connection are in flight: what comes then is buffered until its
//! request takes it, up to the connection's window. So many connections may do that at a time as there is
//! memory for; the others are read on in the order in which they came to that, and their clients wait. A
//! connection whose socket is drained gives its lease to one that waits, unless data of its own is unread: streams
//! that are open for long share them.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
};

use super::watch::Watch;
use crate::counters;

/// The leases of one executor.
pub(super) struct Leases {
    free: Cell<usize>,
    waiting: RefCell<VecDeque<Weak<Watch>>>,
}

/// One connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Lease {
    #[default]
    None,
    Waiting,
    Held,
}

/// What a connection holds whose socket has nothing more to read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    /// Data that its requests haven't taken.
    Unread,
}

impl Leases {
    pub(super) fn new(leases: usize) -> Self {
        Self { free: Cell::new(leases), waiting: RefCell::default() }
    }

    /// A lease, or a place among those who wait for one.
    pub(super) fn ask(&self, watch: &Rc<Watch>) -> Lease {
        if self.free.get() > 0 {
            self.free.set(self.free.get() - 1);
            return Lease::Held;
        }
        counters::with(|c| c.reads_held_back += 1);
        // It may be in line still, from a request that has ended meanwhile.
        if watch.joins_line() {
            self.waiting.borrow_mut().push_back(Rc::downgrade(watch));
        }
        Lease::Waiting
    }

    /// Whether a lease is waited for.
    pub(super) fn are_waited_for(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Gives a lease that was held to the one that waits longest.
    pub(super) fn pass_on(&self) {
        loop {
            let Some(next) = self.waiting.borrow_mut().pop_front() else { break };
            // A connection that has gone, or needs none any more, has left its place behind.
            if next.upgrade().is_some_and(|watch| watch.get_lease()) {
                return;
            }
        }
        self.free.set(self.free.get() + 1);
    }
}
