//! The net beneath the executors: a thread that wakes each of them some 60 times a second.
//!
//! An executor that parked although a task of its own was runnable runs again at the next wake.
//! It knows when an executor last answered, and warns once when it stays silent.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::beat::Beat;

/// Between 10 and 20 ms: often enough that nobody notices a lost wake, seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(15);

/// An executor that has been silent for this long is logged.
const SILENCE_WORTH_A_WARNING: Duration = Duration::from_secs(5);

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
        let answered = self.beat.answered();
        if answered != self.answered || self.beat.unanswered() == 0 {
            (self.answered, self.answered_at, self.warned) = (answered, Instant::now(), false);
        } else if !self.warned && self.answered_at.elapsed() > SILENCE_WORTH_A_WARNING {
            self.warned = true;
            tracing::warn!(executor, silent_for = ?self.answered_at.elapsed(), "an executor is silent");
        }
    }
}
