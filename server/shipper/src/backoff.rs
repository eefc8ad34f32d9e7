//! How many failures there were in a row, and how long to wait before the next try.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use silverback_model::backoff;

/// The waits after failures in a row.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    random: RandomState,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, failures: 0, random: RandomState::new() }
    }

    /// After one more failure.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let random = self.random.hash_one(self.failures);
        let wait = backoff::after_failure(self.min, self.max, self.failures, random);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// After something went well.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_begin_anew_after_a_success() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut backoff = Backoff::new(second, minute);
        let mut between = |failures: u32, min: Duration, max: Duration| {
            let wait = backoff.after_failure();
            assert!(min / 2 <= wait && wait <= max, "after {failures}: {wait:?}");
        };
        between(1, second, second);
        between(2, 2 * second, 2 * second);
        for failures in 3..8 {
            between(failures, second, minute);
        }
        for failures in 8..100 {
            between(failures, minute, minute);
        }
        backoff.reset();
        assert!(backoff.after_failure() <= second);
    }

    #[test]
    fn two_nodes_don_t_come_back_at_the_same_moment() {
        let waits = |_| {
            let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
            (0..8).map(|_| backoff.after_failure()).collect::<Vec<_>>()
        };
        let [one, other] = [0, 1].map(waits);
        assert_ne!(one, other);
    }
}
