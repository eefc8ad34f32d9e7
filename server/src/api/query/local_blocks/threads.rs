//! The threads that read blocks, and a piece of work there: it looks now and then whether anybody still waits for it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use silverback_block::{BlockError, OpenBlock};
use silverback_runtime::{SideThread, SideThreadError};
use silverback_storage::message::ReadTicket;

/// Blocks are read by so many threads: beside a disk one computes.
const THREADS: usize = 2;
const _: () = assert!(THREADS > 0);
/// Pieces of work that wait for one of them.
const WAITING_MAX: usize = 256;

/// Why a piece of work was not done.
#[derive(Debug)]
pub(crate) enum BlockJobError {
    /// A block isn't what was written.
    Damaged(Arc<OpenBlock>, BlockError),
    /// A block that is there can't be opened now: what is in it isn't known.
    NotAllOpen,
    /// A damaged block has what is to be deleted.
    SetAside,
    /// A block can't be changed.
    NotWritten(BlockError),
    /// Nobody waits for it any more.
    GivenUp,
    /// Other reads have the memory.
    BudgetExceeded,
    /// It alone would take more than all may.
    TooLarge { bytes_max: usize },
}

/// Threads that read blocks.
#[derive(Debug)]
pub(super) struct Threads {
    all: Vec<SideThread>,
    next: AtomicUsize,
}

impl Threads {
    pub(super) fn start() -> io::Result<Self> {
        let start = |number| SideThread::start_with(&format!("blocks-{number}"), WAITING_MAX, ());
        Ok(Self { all: (0..THREADS).map(start).collect::<Result<_, _>>()?, next: AtomicUsize::new(0) })
    }

    /// Has work done. Dropped before, the work stops at its next look.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        ticket: &ReadTicket,
        work: impl FnOnce(&BlockJob) -> T + Send + 'static,
    ) -> Result<T, SideThreadError> {
        let thread = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        run_on(&self.all[thread], ticket, work).await
    }
}

/// Has work done on a thread. Dropped before, the work stops at its next look.
pub(super) async fn run_on<T: Send + 'static>(
    thread: &SideThread,
    ticket: &ReadTicket,
    work: impl FnOnce(&BlockJob) -> T + Send + 'static,
) -> Result<T, SideThreadError> {
    let waits = Arc::new(());
    let job = BlockJob { ticket: ticket.clone(), waits: Arc::downgrade(&waits) };
    thread.run(move || work(&job)).await
}

/// A piece of work, as it knows who waits for it.
#[derive(Debug)]
pub(crate) struct BlockJob {
    ticket: ReadTicket,
    waits: Weak<()>,
}

impl BlockJob {
    /// Goes on only where somebody waits.
    pub(super) fn check(&self) -> Result<(), BlockJobError> {
        let is_given_up = self.ticket.is_cancelled() || self.waits.strong_count() == 0;
        if is_given_up { Err(BlockJobError::GivenUp) } else { Ok(()) }
    }
}

/// What a block is asked; its fault is that block's.
pub(super) fn ask<T>(
    block: &Arc<OpenBlock>,
    ask: impl FnOnce(&OpenBlock) -> Result<T, BlockError>,
) -> Result<T, BlockJobError> {
    ask(block).map_err(|fault| BlockJobError::Damaged(Arc::clone(block), fault))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn work_stops_at_its_next_look_once_nobody_waits_for_it() {
        let threads = Threads::start().unwrap();
        let ticket = ReadTicket::issue();
        assert!(block_on(threads.run(&ticket, BlockJob::check)).unwrap().is_ok());
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (stopped, has_stopped) = std::sync::mpsc::channel();
        let mut given_up = Box::pin(threads.run(&ticket, move |job| {
            begun.send(()).unwrap();
            while job.check().is_ok() {}
            stopped.send(()).unwrap();
        }));
        assert!((&mut given_up).now_or_never().is_none());
        has_begun.recv().unwrap();
        drop(given_up);
        has_stopped.recv().unwrap();
        ticket.cancel();
        assert!(matches!(block_on(threads.run(&ticket, BlockJob::check)), Ok(Err(BlockJobError::GivenUp))));
    }
}
