//! How far the shards' replays have come, for whoever asks while they run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When so much is read it shows how fast it goes.
const PERCENT_OF_A_PACE: u8 = 5;

/// Shared by all shards of a node. Each adds what it has to read and what it has read.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

/// A moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaying {
    /// Of what is to be read, rounded down.
    pub percent: u8,
    /// At the pace so far; `None` before there is one: what a start takes before it reads would count for too much.
    pub left: Option<Duration>,
}

impl ReplayProgress {
    /// Adds bytes that are to be read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were read.
    pub(crate) fn advance(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How far it is, `elapsed` after its begin.
    pub fn after(&self, elapsed: Duration) -> Replaying {
        let total = self.total_bytes.load(Ordering::Relaxed);
        let done = self.done_bytes.load(Ordering::Relaxed).min(total);
        let percent = (done * 100).checked_div(total).unwrap_or(0) as u8;
        let left = || elapsed.mul_f64((total - done) as f64 / done as f64);
        Replaying { percent, left: (percent >= PERCENT_OF_A_PACE).then(left) }
    }
}

impl std::fmt::Display for Replaying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "replaying the write-ahead log: {} %", self.percent)?;
        match self.left {
            Some(left) => write!(f, ", about {} s left", left.as_secs_f64().ceil()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_pace() {
        let progress = ReplayProgress::default();
        assert_eq!(progress.after(Duration::from_secs(1)), Replaying { percent: 0, left: None });
        progress.expect(100);
        progress.expect(300);
        progress.advance(19);
        let early = progress.after(Duration::from_secs(1));
        assert_eq!(early.to_string(), "replaying the write-ahead log: 4 %");
        progress.advance(81);
        let after = progress.after(Duration::from_secs(2));
        assert_eq!(after, Replaying { percent: 25, left: Some(Duration::from_secs(6)) });
        assert_eq!(after.to_string(), "replaying the write-ahead log: 25 %, about 6 s left");
    }

    #[test]
    fn more_than_was_expected_is_all_of_it() {
        let progress = ReplayProgress::default();
        progress.expect(10);
        progress.advance(20);
        assert_eq!(progress.after(Duration::from_secs(1)).percent, 100);
    }
}
