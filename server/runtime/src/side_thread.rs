//! A thread beside the executors, for pure work that is seldom and may take long: an executor would be
//! held by it. What the work is is nothing to it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use futures::channel::oneshot;

/// Work that waits for the thread: more than reads that a node of many cores has in flight have at once.
const WAITING_MAX: usize = 1024;

type Work<S> = Box<dyn FnOnce(&mut S) + Send>;

/// The thread, and what it keeps between pieces of work. It ends with this.
#[derive(Debug)]
pub struct SideThread<S = ()>(SyncSender<Work<S>>);

/// Why work was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SideThreadError {
    /// As much waits as may.
    #[error("too much waits for a thread of the node: try again later")]
    Busy,
    /// It panicked.
    #[error("the node failed at a piece of work, and says more in its log")]
    Panicked,
}

impl SideThread {
    /// Starts it, free to run on every CPU of the process.
    pub fn start(name: &str) -> io::Result<Self> {
        Self::start_with(name, WAITING_MAX, ())
    }

    /// Has work done, and waits for it. Work that nobody waits for any more when its turn comes is left
    /// undone.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SideThreadError> {
        self.run_with(|()| work()).await
    }
}

impl<S: Send + 'static> SideThread<S> {
    /// The same with something that it keeps, and with a bound on the work that waits.
    pub fn start_with(name: &str, waiting_max: usize, mut kept: S) -> io::Result<Self> {
        let (work, waiting) = sync_channel::<Work<S>>(waiting_max);
        let run = move || waiting.into_iter().for_each(|work| work(&mut kept));
        std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self(work))
    }

    /// Like [`SideThread::run`], with what the thread keeps.
    pub async fn run_with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, SideThreadError> {
        let (done, result) = oneshot::channel();
        let work = Box::new(move |kept: &mut S| {
            if !done.is_canceled()
                && let Ok(result) = catch_unwind(AssertUnwindSafe(|| work(kept)))
            {
                // Whoever leaves right now needs no result.
                drop(done.send(result));
            }
        });
        self.0.try_send(work).map_err(|refused| match refused {
            TrySendError::Full(_) => SideThreadError::Busy,
            TrySendError::Disconnected(_) => unreachable!("the thread ends after its last user"),
        })?;
        result.await.map_err(|oneshot::Canceled| SideThreadError::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use futures::executor::block_on;
    use futures::future::{FutureExt, join_all};

    use super::*;

    #[test]
    fn work_is_done_on_another_thread_and_a_panic_ends_it_alone() {
        let thread = SideThread::start("side-test").unwrap();
        let here = std::thread::current().id();
        assert_ne!(block_on(thread.run(|| std::thread::current().id())), Ok(here));
        assert_eq!(
            block_on(thread.run(|| panic!("as the test wants it"))),
            Err::<(), _>(SideThreadError::Panicked)
        );
        assert_eq!(block_on(thread.run(|| 7)), Ok(7));
    }

    #[test]
    fn a_bounded_amount_of_work_waits_and_what_nobody_waits_for_is_left_undone() {
        let thread = SideThread::start("side-test").unwrap();
        let (go, told_to_go) = channel::<()>();
        let (began, has_begun) = channel();
        let mut first = Box::pin(thread.run(move || {
            began.send(()).unwrap();
            told_to_go.recv().unwrap();
        }));
        assert!((&mut first).now_or_never().is_none());
        has_begun.recv().unwrap();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|i| Box::pin(thread.run(move || i))).collect();
        assert!(waiting.iter_mut().all(|work| work.now_or_never().is_none()));
        assert_eq!(block_on(thread.run(|| ())), Err(SideThreadError::Busy));
        // The last one is given up, and another one takes its place as soon as there is one.
        drop(waiting.pop());
        go.send(()).unwrap();
        block_on(first).unwrap();
        let done = block_on(join_all(waiting));
        assert_eq!(done, (0..WAITING_MAX - 1).map(Ok).collect::<Vec<_>>());
        let is_left_undone = Arc::new(AtomicBool::new(true));
        let (flag, (block, blocked)) = (is_left_undone.clone(), channel::<()>());
        let mut busy = Box::pin(thread.run(move || blocked.recv().unwrap()));
        let mut given_up = Box::pin(thread.run(move || flag.store(false, Ordering::Relaxed)));
        assert!((&mut busy).now_or_never().is_none() && (&mut given_up).now_or_never().is_none());
        drop(given_up);
        block.send(()).unwrap();
        assert_eq!(block_on(busy), Ok(()));
        assert_eq!(block_on(thread.run(|| 7)), Ok(7));
        assert!(is_left_undone.load(Ordering::Relaxed));
    }
}
