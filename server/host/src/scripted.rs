//! A thread of a test's, which decides what happens at each step.
#![expect(clippy::disallowed_methods, reason = "the thread of a test, which has nothing else to do")]

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures::executor::block_on;

use crate::Host;

/// Clones are the same thread.
#[derive(Clone)]
pub struct Scripted {
    steps: Rc<Cell<usize>>,
    sleeps: Rc<Cell<usize>>,
    at_step: Rc<dyn Fn(usize)>,
}

impl Scripted {
    /// Calls `at_step` at each step, with its number.
    pub fn new(at_step: impl Fn(usize) + 'static) -> Self {
        Self { steps: Rc::default(), sleeps: Rc::default(), at_step: Rc::new(at_step) }
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.steps.get()
    }

    /// Sleeps that were begun. None of them ends.
    pub fn sleeps(&self) -> usize {
        self.sleeps.get()
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

    async fn yield_now(&self) {}

    async fn sleep(&self, _time: Duration) {
        self.sleeps.set(self.sleeps.get() + 1);
        std::future::pending().await
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
        0
    }
}
