//! What the pinger and one executor share: how many pings were sent, and how many of them are answered.
//!
//! It knows nothing of threads and of time.
use std::{
    future::Future,
    pin::Pin,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use super::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

/// Wakes that an executor may leave unanswered. Each holds a reference to the beat's task, and
/// glommio counts those in an `i16`.
pub(super) const UNANSWERED_MAX: u64 = 4;

/// One executor's; the pinger has it too.
#[derive(Debug, Default)]
pub(super) struct Beat {
    presence: Mutex<Presence>,
    sent: AtomicU64,
    answered: AtomicU64,
}

/// Whether the executor is in the round.
#[derive(Debug, Default)]
enum Presence {
    /// Its task was never polled.
    #[default]
    Awaited,
    There(Waker),
    /// For good: a task that is polled once more doesn't bring it back.
    Gone,
}

impl Beat {
    fn presence(&self) -> MutexGuard<'_, Presence> {
        // It is only ever replaced as a whole.
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the executor out of the round: called on it, before it ends.
    pub(super) fn stop(&self) {
        let before = std::mem::replace(&mut *self.presence(), Presence::Gone);
        // The waker is dropped after the lock: dropping the last one of a task may run it.
        drop(before);
    }

    /// Wakes the executor's task, if it may be woken. For the pinger alone.
    pub(super) fn ping(&self) {
        if self.unanswered() >= UNANSWERED_MAX {
            return;
        }
        if let Presence::There(waker) = &*self.presence() {
            self.sent.fetch_add(1, Ordering::Relaxed);
            waker.wake_by_ref();
        }
    }

    /// Pings that were answered.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Pings that were not. For the pinger alone: others could see one answered before they see it sent.
    pub(super) fn unanswered(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) - self.answered()
    }
}

/// The task that the pinger wakes; to be spawned first on its executor.
pub(super) struct BeatTask(pub(super) Arc<Beat>);

impl Future for BeatTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let beat = &self.0;
        // All that was sent before this poll is answered by it, however many wakes became one.
        beat.answered.store(beat.sent.load(Ordering::Acquire), Ordering::Release);
        let mut presence = beat.presence();
        if let Presence::Awaited = *presence {
            *presence = Presence::There(cx.waker().clone());
        }
        Poll::Pending
    }
}
