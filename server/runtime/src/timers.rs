//! Time on an executor: sleeping, time limits, and leaving the run queue until I/O was looked at.
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use glommio::timer::Timer;
use pin_project_lite::pin_project;

/// The monotonic time.
pub fn now() -> Instant {
    Instant::now()
}

/// Waits for at least `duration`.
pub async fn sleep(duration: Duration) {
    Timer::new(duration).await;
}

/// The time that was allowed is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time limit is over")]
pub struct Elapsed;

/// Runs `future` for `limit` at most; past it the future is dropped where it is.
pub fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    Timeout { future, limit, timer: None }
}

pin_project! {
    /// A future with a limit of time. Holds it once: an `async fn` would hold it as its argument, too.
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Duration,
        timer: Option<Timer>,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The future first: one that is ready at its first poll takes no timer.
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let timer = this.timer.get_or_insert_with(|| Timer::new(*this.limit));
        Pin::new(timer).poll(cx).map(|_| Err(Elapsed))
    }
}

/// Leaves the run queue until the reactor has been polled: every completion, timer and message
/// that waits is seen before the caller runs again.
///
/// glommio's own `yield_now` and `Timer::new(Duration::ZERO)` don't leave it while nothing preempts:
/// the reactor is polled only when the queue is empty. A timer that is armed for later, polled once
/// (so that it is registered) and then set to zero is found due by the next poll, and not before.
pub async fn reactor_polled() {
    const LATER: Duration = Duration::from_secs(24 * 60 * 60);

    struct Polled(Option<Timer>);
    impl Future for Polled {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if self.0.is_some() {
                return Poll::Ready(());
            }
            let mut timer = Timer::new(LATER);
            let registered = Pin::new(&mut timer).poll(cx);
            debug_assert!(registered.is_pending());
            timer.reset(Duration::ZERO);
            self.0 = Some(timer);
            Poll::Pending
        }
    }
    Polled(None).await;
}

/// Goes to the end of this task queue once. The reactor is *not* polled by it.
pub(super) async fn requeue() {
    let mut queued = false;
    poll_fn(|cx| {
        if queued {
            return Poll::Ready(());
        }
        queued = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
