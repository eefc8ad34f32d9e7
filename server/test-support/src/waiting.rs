//! Waiting until something is so.
//!
//! A test that passes waits no longer than it must. One that fails may take its time, so there is one limit for
//! all, which a machine with many times the work that it can do keeps, too.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until it is so.
///
/// # Panics
///
/// Where it isn't within [`TEST_TIMEOUT`], with `what` is missing.
#[track_caller]
pub fn eventually(what: impl Display, mut is_so: impl FnMut() -> bool) {
    let waiting = Waiting::begin();
    while !is_so() {
        waiting.again(|| &what);
    }
}

/// Waits until a look finds something, and gives that.
///
/// # Panics
///
/// Where none does within [`TEST_TIMEOUT`], with what the last one said.
#[track_caller]
pub fn eventually_found<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let waiting = Waiting::begin();
    loop {
        match look() {
            Ok(found) => return found,
            Err(missing) => waiting.again(|| missing),
        }
    }
}

/// A loop that waits, where [`eventually`] can't be: one that awaits, or that does something.
#[derive(Debug, Clone, Copy)]
pub struct Waiting(Instant);

impl Waiting {
    /// Begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Sleeps until the next look: this thread, so that whatever is waited for is to happen on another one.
    ///
    /// # Panics
    ///
    /// After [`TEST_TIMEOUT`], with `what` is missing.
    #[track_caller]
    pub fn again<T: Display>(&self, what: impl FnOnce() -> T) {
        self.check(what);
        std::thread::sleep(LOOK_INTERVAL);
    }

    /// The same without sleep.
    ///
    /// # Panics
    ///
    /// After [`TEST_TIMEOUT`], with `what` is missing.
    #[track_caller]
    pub fn check<T: Display>(&self, what: impl FnOnce() -> T) {
        let waited = self.0.elapsed();
        assert!(waited < TEST_TIMEOUT, "after {waited:.0?}: {}", what());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_so_is_waited_for_and_found() {
        let mut looks = 0;
        eventually("three looks", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        let mut numbers = 0..;
        assert_eq!(eventually_found(|| numbers.next().filter(|n| *n > 3).ok_or("small")), 4);
    }

    #[test]
    #[should_panic(expected = "nothing came")]
    fn what_never_becomes_so_fails_with_its_words() {
        let long_ago = Instant::now().checked_sub(TEST_TIMEOUT).expect("the machine has run for so long");
        Waiting(long_ago).again(|| "nothing came");
    }
}
