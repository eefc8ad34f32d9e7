//! A thread of a test's, which decides what happens at each step.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures::executor::block_on;

use silverback_host::Host;

/// Clones are the same thread.
#[derive(Clone)]
pub(super) struct Scripted {
    steps: Rc<Cell<usize>>,
    sleeps: Rc<Cell<usize>>,
    now_us: Rc<Cell<u64>>,
    yields: Rc<Cell<bool>>,
    look_us: Rc<Cell<u64>>,
    at_step: Rc<dyn Fn(usize)>,
}

impl Scripted {
    /// Calls `at_step` at each step, with its number.
    pub(super) fn new(at_step: impl Fn(usize) + 'static) -> Self {
        let (steps, sleeps, now_us, yields, look_us) = Default::default();
        Self { steps, sleeps, now_us, yields, look_us, at_step: Rc::new(at_step) }
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> usize {
        self.steps.get()
    }

    /// Sleeps that were begun. They end when they are polled after [`Self::pass`]: nothing wakes them.
    pub(super) fn sleeps(&self) -> usize {
        self.sleeps.get()
    }

    /// Others get the thread at the next [`Host::yield_now`], until it is polled again: nothing wakes it. Whatever is
    /// done until then takes most of a turn.
    pub(super) fn yield_next(&self) {
        self.yields.set(true);
    }

    /// What is done between two looks at the clock takes so many µs from now on.
    pub(super) fn take_between_looks(&self, us: u64) {
        self.look_us.set(us);
    }

    /// Lets so many µs pass. The clock stands still otherwise.
    pub(super) fn pass(&self, us: u64) {
        self.now_us.set(self.now_us.get() + us);
    }
}

impl Host for Scripted {
    async fn yield_if_needed(&self) {
        self.steps.set(self.steps.get() + 1);
        (self.at_step)(self.steps.get());
    }

    fn is_slice_spent(&self) -> bool {
        true
    }

    fn release_slice(&self) {}

    fn shorten_slices(&self) -> impl Sized + 'static {}

    async fn yield_now(&self) {
        if self.yields.get() {
            self.yields.set(false);
            let mut has_yielded = false;
            poll_fn(
                |_| if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending },
            )
            .await;
        }
    }

    async fn sleep(&self, time: Duration) {
        self.sleeps.set(self.sleeps.get() + 1);
        let end_us = self.now_us.get() + time.as_micros() as u64;
        let is_over = || self.now_us.get() >= end_us;
        poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static) {
        block_on(task);
    }

    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        block_on(job(self.clone()));
    }

    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        block_on(job(self.clone()));
    }

    fn monotonic_us(&self) -> u64 {
        self.pass(if self.yields.get() { 150 } else { self.look_us.get() });
        self.now_us.get()
    }
}
