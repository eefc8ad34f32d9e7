//! When each shard's worker last gave a sign, for whoever on any core asks whether the node is healthy.
//!
//! Times are ms since the node's start. What asks the workers for signs is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The signs of all shards of a node. Touched once a second by each core.
#[derive(Debug)]
pub struct Pulses {
    /// When any core last looked after its worker.
    looked_ms: AtomicU64,
    signs_ms: Box<[AtomicU64]>,
}

/// A shard that gives no sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} has not answered for {} s", time.as_secs())]
pub struct SilentShardError {
    /// Its number.
    pub shard: usize,
    /// For how long.
    pub time: Duration,
}

impl Pulses {
    /// Of so many shards, each of which counts as there at the start.
    pub fn new(shards: usize) -> Self {
        Self { looked_ms: AtomicU64::new(0), signs_ms: (0..shards).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A core looked after its worker, and found a sign since its last look or none.
    pub fn looked(&self, shard: usize, now_ms: u64, gave_sign: bool) {
        if gave_sign && let Some(sign_ms) = self.signs_ms.get(shard) {
            sign_ms.store(now_ms, Ordering::Relaxed);
        }
        self.looked_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// The shard that has been silent for longest, if it is longer than `limit`.
    ///
    /// Counted to the last look of any core, not to now: a process that was stopped as a whole, or a
    /// machine that slept, has no shard that is worse than the others.
    pub fn silent(&self, limit: Duration) -> Option<SilentShardError> {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let silence = |(shard, sign_ms): (usize, &AtomicU64)| {
            let time = Duration::from_millis(looked_ms.saturating_sub(sign_ms.load(Ordering::Relaxed)));
            SilentShardError { shard, time }
        };
        let longest = self.signs_ms.iter().enumerate().map(silence).max_by_key(|silent| silent.time);
        longest.filter(|silent| silent.time > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_shard_without_a_sign_for_longer_than_the_limit_is_silent() {
        let pulses = Pulses::new(2);
        for second in 1..=40 {
            pulses.looked(0, second * 1000, true);
            pulses.looked(1, second * 1000, second < 10);
            assert_eq!(pulses.silent(LIMIT).is_some(), second > 39, "{second}");
        }
        let silent = pulses.silent(LIMIT).expect("one is silent");
        assert_eq!(silent, SilentShardError { shard: 1, time: Duration::from_secs(31) });
        assert_eq!(silent.to_string(), "shard 1 has not answered for 31 s");
        pulses.looked(1, 41_000, true);
        assert_eq!(pulses.silent(LIMIT), None);
    }

    #[test]
    fn a_core_that_looks_no_more_is_silent_as_long_as_another_looks() {
        let pulses = Pulses::new(2);
        pulses.looked(1, 1000, true);
        pulses.looked(0, 60_000, true);
        assert_eq!(pulses.silent(LIMIT), Some(SilentShardError { shard: 1, time: Duration::from_secs(59) }));
    }
}
