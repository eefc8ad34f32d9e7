//! The net beneath the executors: a thread that wakes each of them some 60 times a second.
//!
//! An executor that parked although a task of its own was runnable runs again at the next wake.
//! It knows when an executor last answered, and warns once when it stays silent.
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Between 10 and 20 ms: often enough that nobody notices a lost wake, seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(15);

/// Wakes that an executor may leave unanswered. Each holds a reference to the beat's task, and
/// glommio counts those in an `i16`.
const UNANSWERED_MAX: u64 = 4;

/// An executor that has been silent for this long is told of.
const SILENCE_WORTH_A_WARNING: Duration = Duration::from_secs(5);

/// What the pinger and one executor share.
#[derive(Debug, Default)]
pub(super) struct Beat {
    waker: Mutex<Option<Waker>>,
    sent: AtomicU64,
    answered: AtomicU64,
}

impl Beat {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        // An Option is never half changed.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the executor out of the round: called on it, before it ends.
    pub(super) fn stop(&self) {
        let waker = self.waker().take();
        drop(waker);
    }

    fn ping(&self) {
        let unanswered = self.sent.load(Ordering::Relaxed) - self.answered.load(Ordering::Acquire);
        if unanswered >= UNANSWERED_MAX {
            return;
        }
        if let Some(waker) = &*self.waker() {
            self.sent.fetch_add(1, Ordering::Relaxed);
            waker.wake_by_ref();
        }
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
        let mut waker = beat.waker();
        if waker.is_none() && beat.sent.load(Ordering::Relaxed) == 0 {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Pinger {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pinger {
    pub(super) fn start(beats: Vec<Arc<Beat>>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("pinger".into()).spawn(move || {
            let mut rounds: Vec<_> = beats.into_iter().map(Watched::new).collect();
            while !stopped.load(Ordering::Acquire) {
                for (executor, watched) in rounds.iter_mut().enumerate() {
                    watched.round(executor);
                }
                std::thread::sleep(INTERVAL);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the pinger had panicked");
        }
    }
}

struct Watched {
    beat: Arc<Beat>,
    answered: u64,
    answered_at: Instant,
    warned: bool,
}

impl Watched {
    fn new(beat: Arc<Beat>) -> Self {
        Self { beat, answered: 0, answered_at: Instant::now(), warned: false }
    }

    fn round(&mut self, executor: usize) {
        self.beat.ping();
        let answered = self.beat.answered.load(Ordering::Acquire);
        let owes_an_answer = self.beat.sent.load(Ordering::Relaxed) > answered;
        if answered != self.answered || !owes_an_answer {
            (self.answered, self.answered_at, self.warned) = (answered, Instant::now(), false);
        } else if !self.warned && self.answered_at.elapsed() > SILENCE_WORTH_A_WARNING {
            self.warned = true;
            tracing::warn!(executor, silent_for = ?self.answered_at.elapsed(), "an executor is silent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::noop_waker_ref;

    #[test]
    fn an_executor_that_does_not_answer_gets_no_more_than_the_capped_wakes() {
        let beat = Arc::new(Beat::default());
        let mut task = BeatTask(beat.clone());
        let mut cx = Context::from_waker(noop_waker_ref());
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        for _ in 0..100 {
            beat.ping();
        }
        assert_eq!(beat.sent.load(Ordering::Relaxed), UNANSWERED_MAX);

        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        beat.ping();
        assert_eq!(beat.sent.load(Ordering::Relaxed), UNANSWERED_MAX + 1);
    }

    #[test]
    fn a_stopped_beat_is_woken_no_more() {
        let beat = Arc::new(Beat::default());
        let mut task = BeatTask(beat.clone());
        let mut cx = Context::from_waker(noop_waker_ref());
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        beat.ping();
        beat.stop();
        beat.ping();
        assert_eq!(beat.sent.load(Ordering::Relaxed), 1);
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert!(beat.waker().is_none(), "a last poll doesn't bring it back");
    }
}
