//! Wakers whose clones and wakes can be counted, for tests of those who keep wakers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// More polls than a task may have wakers.
const POLLS: usize = 40_000;

struct Nothing;

impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

/// Polls `waiting` again and again: it never ends, and no more than one waker of its task is kept.
pub fn check_one_waker_is_kept<T>(waiting: impl Future<Output = T>) {
    let task = Arc::new(Nothing);
    let waker = Waker::from(Arc::clone(&task));
    let mut waiting = pin!(waiting);
    for _ in 0..POLLS {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let kept = Arc::strong_count(&task) - 2;
    assert!(kept <= 1, "{kept} wakers are kept of one task");
}

/// How often a task was woken.
#[derive(Debug, Default)]
pub struct Wakes(AtomicUsize);

impl Wakes {
    /// So far.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls `waiting`, which has nothing yet and sleeps; does what it waits for, which wakes it; and gives what it
/// has then.
pub fn check_is_woken<T>(waiting: impl Future<Output = T>, happens: impl FnOnce()) -> T {
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    let mut waiting = pin!(waiting);
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "there is something already");
    assert_eq!(wakes.count(), 0, "it wakes itself");
    happens();
    assert!(wakes.count() > 0, "nothing has woken it");
    match waiting.as_mut().poll(&mut context) {
        Poll::Ready(found) => found,
        Poll::Pending => panic!("it was woken for nothing"),
    }
}
