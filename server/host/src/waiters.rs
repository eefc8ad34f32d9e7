//! The wakers of tasks that wait: each waiter's is kept once, however often it is polled.
//!
//! glommio counts the references to a task in an `i16`: a list that takes another clone at each poll
//! ends a task for good after 32,767 polls. And two wakers of one task need not look alike, so a list
//! can't tell whether it has one already. Here each waiter has a place of its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// The waker of the one task that waits for something.
#[derive(Debug, Default)]
pub struct KeptWaker(RefCell<Option<Waker>>);

impl KeptWaker {
    /// Keeps the polled task's waker in the place of the former one.
    pub fn keep(&self, context: &Context<'_>) {
        let is_kept = self.0.borrow().as_ref().is_some_and(|kept| kept.will_wake(context.waker()));
        if !is_kept {
            // Dropped after the borrow: dropping the last waker of a task may run it.
            let former = self.0.replace(Some(context.waker().clone()));
            drop(former);
        }
    }

    /// Whether a task waits.
    pub fn is_kept(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Lets the waker go: its task waits no more.
    pub fn forget(&self) {
        let former = self.0.take();
        drop(former);
    }

    /// Wakes the task that waits, if one does.
    pub fn wake(&self) {
        let kept = self.0.take();
        kept.into_iter().for_each(Waker::wake);
    }
}

/// Those who wait for one thing that is announced to all of them.
#[derive(Debug, Default)]
pub struct Waiters {
    next_key: Cell<u64>,
    wakers: RefCell<BTreeMap<u64, Waker>>,
}

impl Waiters {
    /// Waits until `look`, asked now and at each wake, finds something.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let place = Slot { waiters: self, key: Cell::default() };
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                place.keep(context);
                Poll::Pending
            }
        })
        .await
    }

    /// Lets all who wait look again.
    pub fn wake_all(&self) {
        let wakers = self.wakers.take();
        wakers.into_values().for_each(Waker::wake);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.wakers.borrow().len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What happens again and again, and those who wait for the next time.
#[derive(Debug, Default)]
pub struct Changes {
    count: Cell<u64>,
    waiting: Waiters,
}

impl Changes {
    /// It happens: all who wait go on.
    pub fn happen(&self) {
        self.count.set(self.count.get() + 1);
        self.waiting.wake_all();
    }

    /// How often it has happened: who looks at something reads this first, so that no change after it is missed.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Waits until it has happened more often than `seen` times.
    pub async fn after(&self, seen: u64) {
        self.waiting.until(|| (self.count() > seen).then_some(())).await;
    }

    /// Whether nobody waits.
    pub fn is_unawaited(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// One waiter's place, left when it is dropped.
struct Slot<'a> {
    waiters: &'a Waiters,
    key: Cell<Option<u64>>,
}

impl Slot<'_> {
    fn keep(&self, context: &Context<'_>) {
        let next = self.waiters.next_key.get();
        let key = self.key.get().unwrap_or(next);
        if self.key.replace(Some(key)).is_none() {
            self.waiters.next_key.set(next + 1);
        }
        let former = self.waiters.wakers.borrow_mut().insert(key, context.waker().clone());
        // Dropped after the borrow: dropping the last waker of a task may run it.
        drop(former);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let waker = self.key.get().and_then(|key| self.waiters.wakers.borrow_mut().remove(&key));
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use silverback_test_support::waking::{check_is_woken, check_one_waker_is_kept};

    use super::*;

    #[test]
    fn a_waiter_is_kept_once_however_often_it_looks() {
        let waiters = Waiters::default();
        check_one_waker_is_kept(waiters.until(|| None::<()>));
        assert!(waiters.is_empty(), "who is dropped leaves its place");
        let changes = Changes::default();
        check_one_waker_is_kept(changes.after(0));
        assert!(changes.is_unawaited());
        let kept = KeptWaker::default();
        check_one_waker_is_kept(poll_fn(|context| {
            kept.keep(context);
            Poll::<()>::Pending
        }));
    }

    #[test]
    fn who_waits_for_a_change_is_woken_by_it_and_misses_none_since_it_looked() {
        let changes = Changes::default();
        let seen = changes.count();
        check_is_woken(changes.after(seen), || changes.happen());
        check_is_woken(changes.after(changes.count()), || changes.happen());
        assert!(changes.after(seen).now_or_never().is_some() && changes.is_unawaited());
    }
}
