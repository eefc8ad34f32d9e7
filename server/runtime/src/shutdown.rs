//! The notice that the node is to end: given once, from any thread, awaited on every executor.
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use super::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering};

/// A handle to the notice; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next_key: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Shutdown {
    /// A notice that nobody has given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the notice. Doing so again changes nothing.
    pub fn request(&self) {
        let wakers = {
            let mut waiting = self.0.waiting();
            self.0.requested.store(true, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Whether the notice was given.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }

    /// Waits for the notice.
    pub fn requested(&self) -> Requested {
        Requested { shared: self.0.clone(), key: None }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under this lock can leave the map half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The future of [`Shutdown::requested`].
#[derive(Debug)]
pub struct Requested {
    shared: Arc<Shared>,
    key: Option<u64>,
}

impl Future for Requested {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut waiting = shared.waiting();
        if shared.requested.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.next_key += 1;
            waiting.next_key
        });
        // One entry a future, however often it is polled.
        waiting.wakers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // The waker is dropped after the lock: dropping the last one of a task may run it.
            let waker = self.shared.waiting().wakers.remove(&key);
            drop(waker);
        }
    }
}
