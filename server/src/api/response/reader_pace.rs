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

/// One answer's pace.
pub(crate) struct ReaderPace {
    lease: ReadLease,
    lag: Lag,
    /// Reads that had been refused for want of memory when the client last had taken all that it must.
    refused: u64,
}

/// How far a client is behind the floor, in bytes. What the node itself took longer for isn't the client's time.
#[derive(Debug, Default)]
struct Lag(f64);

impl Lag {
    /// So far behind, a client is too slow.
    const MAX: f64 = READER_BYTES_PER_S_MIN as f64 * READER_GRACE.as_secs() as f64;

    /// The client was waited for.
    fn waited(&mut self, time: Duration) {
        // One that nobody waited for may have been slow for long: it is soon forgiven.
        self.0 = (self.0 + READER_BYTES_PER_S_MIN as f64 * time.as_secs_f64()).min(Self::MAX);
    }

    /// It took bytes.
    fn took(&mut self, bytes: usize) {
        // One that was fast for long may be slow for no longer than others.
        self.0 = (self.0 - bytes as f64).max(0.0);
    }

    fn is_none(&self) -> bool {
        self.0 == 0.0
    }

    fn is_too_far(&self) -> bool {
        self.0 >= Self::MAX
    }
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
        Self { lease, lag: Lag::default(), refused }
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
            // What was late beyond that wasn't the client.
            self.lag.waited(began.elapsed().min(LOOK_INTERVAL));
            self.look()?;
            match has_room {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return Err(ReaderError::Gone),
                Err(Elapsed) => {}
            }
        }
        self.took(bytes);
        to.start_send(piece).map_err(|_| ReaderError::Gone)
    }

    fn took(&mut self, bytes: usize) {
        self.lag.took(bytes);
        if self.lag.is_none() {
            self.refused = self.lease.refused_for_room();
        }
    }

    /// Whether the client keeps others waiting.
    fn look(&self) -> Result<(), ReaderError> {
        let is_waited_for = || self.lease.is_waited_for() || self.lease.refused_for_room() != self.refused;
        if self.lag.is_too_far() && is_waited_for() { Err(ReaderError::TooSlow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::routing::{Asker, ReadGate};

    const PIECE: usize = 60 << 10;

    /// Takes so many pieces, each after it was waited for so long. Whether it was ever too slow.
    fn take(lag: &mut Lag, pieces: usize, waited_ms: u64) -> bool {
        let is_too_slow = |_| {
            lag.waited(Duration::from_millis(waited_ms));
            let is_too_far = lag.is_too_far();
            lag.took(PIECE);
            is_too_far
        };
        (0..pieces).map(is_too_slow).fold(false, |ever, now| ever | now)
    }

    #[test]
    fn a_client_that_takes_the_floor_or_more_is_never_too_slow() {
        assert!(!take(&mut Lag::default(), 10_000, 10));
        assert!(!take(&mut Lag::default(), 10_000, 930));
    }

    #[test]
    fn one_that_takes_less_is_too_slow_after_the_grace_however_fast_it_was_before() {
        let mut lag = Lag::default();
        assert!(!take(&mut lag, 10_000, 1));
        lag.waited(READER_GRACE - Duration::from_millis(1));
        assert!(!lag.is_too_far());
        lag.waited(Duration::from_millis(1));
        assert!(lag.is_too_far());
        assert!(take(&mut Lag::default(), 10, 1900), "half of the floor");
    }

    #[test]
    fn who_was_refused_while_a_client_kept_up_did_not_wait_for_it() {
        let gate = ReadGate::new(2, 1, usize::MAX);
        let read = gate.enter(Asker::default()).now_or_never().expect("a turn").expect("a read");
        let mut pace = ReaderPace::new(read.lease().clone());
        gate.room_was_refused();
        pace.took(PIECE);
        pace.lag.waited(READER_GRACE);
        assert_eq!(pace.look(), Ok(()), "nobody waits");
        gate.room_was_refused();
        assert_eq!(pace.look(), Err(ReaderError::TooSlow));
    }

    #[test]
    fn one_that_stood_still_for_long_is_forgiven_as_soon_as_another() {
        let mut lag = Lag::default();
        lag.waited(Duration::from_secs(3600));
        lag.took(Lag::MAX as usize);
        assert!(lag.is_none());
    }
}
