//! How fast a client takes its answer. One that is slow holds a read's permit, and memory: as long as others wait for
//! permits, or are refused for want of memory, it must take a floor of bytes a second, else it loses its own.

use std::future::poll_fn;
use std::time::Duration;

use futures::channel::mpsc;

use crate::routing::ReadLease;
use silverback_model::limits::{READER_BYTES_PER_S_MIN, READER_GRACE};
use silverback_runtime::{Elapsed, now, timeout};

/// How often a client that takes nothing is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What a client may have taken ahead counts for no longer than it is looked at.
const BYTES_AHEAD_MAX: usize = READER_BYTES_PER_S_MIN * READER_GRACE.as_secs() as usize;

/// One answer's pace.
pub(crate) struct ReaderPace {
    lease: ReadLease,
    /// For how long the client was waited for since it was looked at last, and what it took meanwhile. What the
    /// node itself took longer for isn't the client's time.
    waited: Duration,
    bytes: usize,
    /// Reads that had been refused for want of memory by then.
    refused: u64,
}

/// Why an answer goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReaderError {
    /// The client went away.
    #[error("the client went away")]
    Gone,
    /// It took less than the floor while others waited.
    #[error(
        "the client takes less than {} KiB/s while other reads wait for their turn, or for memory",
        READER_BYTES_PER_S_MIN >> 10
    )]
    TooSlow,
}

impl ReaderPace {
    /// Of an answer that begins now.
    pub(crate) fn new(lease: ReadLease) -> Self {
        let refused = lease.refused_for_room();
        Self { lease, waited: Duration::ZERO, bytes: 0, refused }
    }

    /// Waits until the client has room for a piece, and sends it. No slice may be held meanwhile.
    pub(crate) async fn send<T>(
        &mut self,
        to: &mut mpsc::Sender<T>,
        bytes: usize,
        piece: T,
    ) -> Result<(), ReaderError> {
        loop {
            let began = now();
            let has_room = timeout(LOOK_INTERVAL, poll_fn(|context| to.poll_ready(context))).await;
            self.waited += began.elapsed();
            self.look()?;
            match has_room {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(ReaderError::Gone),
                Err(Elapsed) => {}
            }
        }
        // A client that was fast for long may be slow for no longer than others.
        self.bytes = (self.bytes + bytes).min(BYTES_AHEAD_MAX);
        to.start_send(piece).map_err(|_| ReaderError::Gone)
    }

    /// Looks at the client whenever it was waited for long enough.
    fn look(&mut self) -> Result<(), ReaderError> {
        if self.waited < READER_GRACE {
            return Ok(());
        }
        let is_slow = (self.bytes as f64) < READER_BYTES_PER_S_MIN as f64 * self.waited.as_secs_f64();
        let refused = self.lease.refused_for_room();
        if is_slow && (self.lease.is_waited_for() || refused != self.refused) {
            return Err(ReaderError::TooSlow);
        }
        (self.waited, self.bytes, self.refused) = (Duration::ZERO, 0, refused);
        Ok(())
    }
}
