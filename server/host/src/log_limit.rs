//! A limit on warnings that repeat, so that a broken sender can't fill a disk with them.
//!
//! Knows the moment and the count alone; the line is `tracing`'s.

use std::time::{Duration, Instant};

/// Lets the first few of a kind through each minute and counts the rest.
#[derive(Debug)]
pub struct RateLimit {
    per_minute: u32,
    minute_began: Option<Instant>,
    passed: u32,
    suppressed: u64,
}

/// What to do with one more of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogVerdict {
    /// Log it, and that so many like it were suppressed since the last one logged.
    Tell {
        /// How many.
        suppressed: u64,
    },
    /// Keep quiet; it is counted.
    Suppress,
}

impl RateLimit {
    const MINUTE: Duration = Duration::from_secs(60);

    /// At most `per_minute` of them.
    pub const fn new(per_minute: u32) -> Self {
        Self { per_minute, minute_began: None, passed: 0, suppressed: 0 }
    }

    /// Decides about one that happens at `now`.
    pub fn decide(&mut self, now: Instant) -> LogVerdict {
        let minute_runs = self.minute_began.is_some_and(|began| now.duration_since(began) < Self::MINUTE);
        if !minute_runs {
            self.minute_began = Some(now);
            self.passed = 0;
        }
        if self.passed == self.per_minute {
            self.suppressed += 1;
            return LogVerdict::Suppress;
        }
        self.passed += 1;
        LogVerdict::Tell { suppressed: std::mem::take(&mut self.suppressed) }
    }
}

/// `tracing::warn!`, at most ten times a minute for each place in the code and each thread. The
/// first one logged after a silence says how many were suppressed.
#[macro_export]
macro_rules! warn_limited {
    ($($event:tt)+) => { $crate::limited!(warn, $($event)+) };
}

/// The same for what isn't a warning.
#[macro_export]
macro_rules! info_limited {
    ($($event:tt)+) => { $crate::limited!(info, $($event)+) };
}

/// Logs an event at a level, at a limited rate for its place in the code.
#[macro_export]
macro_rules! limited {
    ($level:ident, $($event:tt)+) => {{
        // For each thread: a core asks nobody whether it may log.
        std::thread_local! {
            static LIMIT: std::cell::RefCell<$crate::log_limit::RateLimit> =
                const { std::cell::RefCell::new($crate::log_limit::RateLimit::new(10)) };
        }
        match LIMIT.with_borrow_mut(|limit| limit.decide(std::time::Instant::now())) {
            $crate::log_limit::LogVerdict::Tell { suppressed } => {
                if suppressed > 0 {
                    tracing::$level!("suppressed {suppressed} like this:");
                }
                tracing::$level!($($event)+);
            }
            $crate::log_limit::LogVerdict::Suppress => {}
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_verdicts(per_minute: u32, steps: &[(u64, LogVerdict)]) {
        let (mut limit, start) = (RateLimit::new(per_minute), Instant::now());
        for (i, (at_s, expect)) in steps.iter().enumerate() {
            assert_eq!(limit.decide(start + Duration::from_secs(*at_s)), *expect, "step {i}");
        }
    }

    #[test]
    fn more_than_the_limit_in_a_minute_is_suppressed_and_then_counted() {
        let tell = |suppressed| LogVerdict::Tell { suppressed };
        check_verdicts(
            2,
            &[
                (0, tell(0)),
                (1, tell(0)),
                (2, LogVerdict::Suppress),
                (59, LogVerdict::Suppress),
                (60, tell(2)),
                (61, tell(0)),
                (62, LogVerdict::Suppress),
                (500, tell(1)),
            ],
        );
    }
}
