//! When a connection's next request goes out, and the end that all connections come to. It blocks the
//! thread that asks: a thread sleeps to some 50 µs, a runtime's timer to a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use silverback_load::pace::Pace;

/// So often a sleeper looks whether the end has come.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Says to all connections at once: begin nothing more.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

/// The end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

impl Stop {
    /// Says it.
    pub(super) fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was said.
    pub(super) fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until then, or until the end.
    pub(super) fn sleep_until(&self, until: Instant) -> Result<(), Stopped> {
        loop {
            if self.is_told() {
                return Err(Stopped);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_PERIOD));
        }
    }
}

/// One connection's turns.
#[derive(Debug)]
pub(super) struct SendTurns {
    pace: Option<Pace>,
    begin: Instant,
    samples_before: u64,
    stop: Stop,
}

impl SendTurns {
    /// From `begin` on: in an open loop by their pace, in a closed one at once.
    pub(super) fn new(pace: Option<Pace>, begin: Instant, stop: Stop) -> Self {
        Self { pace, begin, samples_before: 0, stop }
    }

    /// The end that these turns come to.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether a refused request is sent again: in an open loop the next one is due already.
    pub(super) fn may_send_again(&self) -> bool {
        self.pace.is_none()
    }

    /// Waits for the turn of a request with so many samples. Returns the time from which its latency
    /// counts: when it was due, however late it is now.
    pub(super) fn wait(&mut self, samples: u64) -> Result<Instant, Stopped> {
        let at_once = || self.begin.max(Instant::now());
        let due = self.pace.map_or_else(at_once, |pace| pace.due(self.samples_before));
        self.stop.sleep_until(due)?;
        self.samples_before += samples;
        Ok(due)
    }

    /// Samples that were due by now and did not get their turn.
    pub(super) fn samples_overdue(&self) -> u64 {
        let (now, before) = (Instant::now(), self.samples_before);
        // A part of a request that isn't due as a whole is not late.
        let pace = self.pace.filter(|pace| pace.due(before) < now);
        pace.map_or(0, |pace| pace.samples_due(now).saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_counts_from_when_it_was_due() {
        let first = Instant::now() - Duration::from_secs(2);
        let mut turns = SendTurns::new(Some(Pace::new(first, 1000.0)), first, Stop::default());
        assert_eq!(turns.wait(500), Ok(first));
        assert_eq!(turns.wait(500), Ok(first + Duration::from_millis(500)));
        assert!((1000..1500).contains(&turns.samples_overdue()), "{}", turns.samples_overdue());
        let mut ahead = SendTurns::new(Some(Pace::new(first, 1000.0)), first, Stop::default());
        ahead.samples_before = 1_000_000;
        assert_eq!(ahead.samples_overdue(), 0);
    }

    #[test]
    fn the_end_wakes_who_waits_for_a_turn() {
        let (stop, first) = (Stop::default(), Instant::now() + Duration::from_secs(3600));
        let mut turns = SendTurns::new(Some(Pace::new(first, 1.0)), first, stop.clone());
        let waiting = thread::spawn(move || turns.wait(1));
        stop.tell();
        assert_eq!(waiting.join().expect("a thread"), Err(Stopped));
    }
}
