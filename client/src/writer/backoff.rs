//! How long to wait after a failure, and when to give up. Decides only; who calls it waits.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use silverback_model::backoff;
use tokio::time::Instant;

use super::options::RetryPolicy;

/// Failures in a row.
#[derive(Debug)]
pub(crate) struct WriterBackoff {
    policy: RetryPolicy,
    failures: u32,
    failing_since: Option<Instant>,
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryVerdict {
    /// Try again after this.
    Wait(Duration),
    /// Give up: it has been failing for so long.
    GiveUp(Duration),
}

impl WriterBackoff {
    pub(super) const fn new(policy: RetryPolicy) -> Self {
        Self { policy, failures: 0, failing_since: None }
    }

    /// Something succeeded.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
        self.failing_since = None;
    }

    /// Something failed; the node wants to be left alone for `retry_after` at least.
    pub(super) fn failed(&mut self, retry_after: Duration) -> RetryVerdict {
        // A hasher's random key is all the randomness that a jitter needs.
        self.failed_at(Instant::now(), RandomState::new().hash_one(self.failures), retry_after)
    }

    fn failed_at(&mut self, now: Instant, random: u64, retry_after: Duration) -> RetryVerdict {
        let failing_for = now.duration_since(*self.failing_since.get_or_insert(now));
        let time_left = match self.policy.give_up_after {
            Some(limit) if failing_for >= limit => return RetryVerdict::GiveUp(failing_for),
            Some(limit) => limit - failing_for,
            None => Duration::MAX,
        };
        let RetryPolicy { backoff_min, backoff_max, .. } = self.policy;
        let wait = backoff::after_failure(backoff_min, backoff_max, self.failures, random);
        self.failures = self.failures.saturating_add(1);
        RetryVerdict::Wait(wait.max(retry_after).min(time_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        backoff_min: Duration::from_millis(100),
        backoff_max: Duration::from_millis(1000),
        give_up_after: None,
    };

    fn millis(waits: &[u64]) -> Vec<RetryVerdict> {
        waits.iter().map(|ms| RetryVerdict::Wait(Duration::from_millis(*ms))).collect()
    }

    fn waits(policy: RetryPolicy, random: u64, retry_after_ms: u64) -> Vec<RetryVerdict> {
        let (mut backoff, now) = (WriterBackoff::new(policy), Instant::now());
        (0..6).map(|_| backoff.failed_at(now, random, Duration::from_millis(retry_after_ms))).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_less_a_half_by_chance() {
        assert_eq!(waits(POLICY, 0, 0), millis(&[100, 200, 400, 800, 1000, 1000]));
        assert_eq!(waits(POLICY, u64::MAX, 0), millis(&[50, 100, 200, 400, 500, 500]));
    }

    #[test]
    fn a_node_that_says_when_is_left_alone_until_then() {
        assert_eq!(waits(POLICY, 0, 700), millis(&[700, 700, 700, 800, 1000, 1000]));
    }

    #[test]
    fn a_success_begins_anew() {
        let mut backoff = WriterBackoff::new(POLICY);
        let now = Instant::now();
        backoff.failed_at(now, 0, Duration::ZERO);
        backoff.reset();
        assert_eq!(backoff.failed_at(now, 0, Duration::ZERO), millis(&[100])[0]);
    }

    #[test]
    fn the_last_try_is_at_the_limit() {
        let limit = Duration::from_millis(150);
        let mut backoff = WriterBackoff::new(RetryPolicy { give_up_after: Some(limit), ..POLICY });
        let now = Instant::now();
        assert_eq!(backoff.failed_at(now, 0, Duration::ZERO), millis(&[100])[0]);
        let later = now + Duration::from_millis(100);
        assert_eq!(backoff.failed_at(later, 0, Duration::ZERO), millis(&[50])[0]);
        assert_eq!(backoff.failed_at(now + limit, 0, Duration::ZERO), RetryVerdict::GiveUp(limit));
    }
}
