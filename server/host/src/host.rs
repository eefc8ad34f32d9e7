//! What long-running code needs of the thread it runs on, so that a seeded simulation can be that
//! thread.
#![expect(clippy::disallowed_methods, reason = "the thread of a command, which has nothing else to do")]

use std::future::Future;
use std::time::{Duration, Instant};

/// The thread's side of long work. Cheap to clone; a clone is the same job.
pub trait Host: Clone + 'static {
    /// Called at each step of a background job's loops: waits for a slice where the job has none,
    /// and gives way to traffic when the slice is spent.
    fn yield_if_needed(&self) -> impl Future<Output = ()>;

    /// Whether the job's slice is spent: for a step that is long by itself, and can be left and taken up
    /// again.
    fn is_slice_spent(&self) -> bool {
        false
    }

    /// Lays the slice down: called before a background job waits for anything else.
    fn release_slice(&self);

    /// Makes background jobs' slices short until the guard is dropped: somebody waits for the disk.
    fn shorten_slices(&self) -> impl Sized + 'static;

    /// Lets the reactor poll once before this task goes on, whatever the slice has left.
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// Waits for at least so long.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()>;

    /// Runs a task that the node can't go on without: a panic in it ends the process.
    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static);

    /// Runs a job of its own beside traffic, in slices of low shares. A panic in it ends it alone.
    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static);

    /// Like [`Host::spawn_background`], but with traffic's shares: writes wait for this job.
    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static);

    /// Microseconds on a clock that never goes back.
    fn monotonic_us(&self) -> u64;
}

/// A thread with nothing else to do: it never gives way, and runs every job to its end where it is
/// spawned. For commands that work on files, for tests and benches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Host for Alone {
    async fn yield_if_needed(&self) {}

    fn release_slice(&self) {}

    fn shorten_slices(&self) -> impl Sized + 'static {}

    async fn yield_now(&self) {}

    async fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static) {
        futures::executor::block_on(task);
    }

    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        futures::executor::block_on(job(*self));
    }

    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        self.spawn_background(job);
    }

    fn monotonic_us(&self) -> u64 {
        thread_local! {
            static BEGAN: Instant = Instant::now();
        }
        BEGAN.with(|began| began.elapsed().as_micros() as u64)
    }
}
