//! How many have come to a point, on any thread, and who waits there until enough have.
//!
//! What the point is, and how many are enough, is nothing to it.
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use super::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// A handle to the point; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Arrivals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Those who wait, by how many arrivals each wants.
#[derive(Debug, Default)]
struct Waiting {
    next_key: u64,
    wakers: BTreeMap<(usize, u64), Waker>,
}

impl Arrivals {
    /// One more has come. Returns how many have, and wakes those for whom that is enough.
    pub fn arrive(&self) -> usize {
        let (count, wakers) = {
            let mut waiting = self.0.waiting();
            let count = self.0.count.fetch_add(1, Ordering::AcqRel) + 1;
            let others = waiting.wakers.split_off(&(count + 1, 0));
            (count, std::mem::replace(&mut waiting.wakers, others))
        };
        for waker in wakers.into_values() {
            waker.wake();
        }
        count
    }

    /// How many have come. What they did before they came is seen.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Waits until so many have come.
    pub fn reached(&self, wanted: usize) -> Reached {
        Reached { shared: self.0.clone(), wanted, key: None }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under this lock can leave the map half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The future of [`Arrivals::reached`].
#[derive(Debug)]
pub struct Reached {
    shared: Arc<Shared>,
    wanted: usize,
    key: Option<u64>,
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut waiting = shared.waiting();
        if shared.count.load(Ordering::Acquire) >= self.wanted {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.next_key += 1;
            waiting.next_key
        });
        // One entry a future, however often it is polled.
        let former = waiting.wakers.insert((self.wanted, key), cx.waker().clone());
        // Dropped after the lock: dropping the last waker of a task may run it.
        drop(waiting);
        drop(former);
        Poll::Pending
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // Here, too.
            let waker = self.shared.waiting().wakers.remove(&(self.wanted, key));
            drop(waker);
        }
    }
}
