//! Times and durations as people write them, and as they read them.
//!
//! A time is `now`, `-1h` (before now), RFC 3339, or a number: milliseconds since the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use silverback_model::duration::{self, UnitOrder};
pub(crate) use silverback_model::utc::{format_clock, format_day, format_rfc3339, parse_rfc3339_ms};

/// Milliseconds since the Unix epoch, by this machine's clock.
pub(crate) fn now_ms() -> i64 {
    // A clock before 1970 is a broken one, and everything it says is far too old.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Reads `1h30m`, `250ms`, `7d`: Prometheus' durations.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse_duration(text, UnitOrder::Any)
        .ok_or_else(|| format!("{text:?} isn't a duration like 30s, 1h30m or 7d"))
}

/// A time as it was given: relative ones are resolved once, so that two of them mean the same now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArg {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// So long before now.
    BeforeNow(Duration),
}

impl TimeArg {
    /// Milliseconds since the Unix epoch.
    pub(crate) fn resolve_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(at_ms) => at_ms,
            Self::BeforeNow(ago) => now_ms.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)),
        }
    }
}

/// As it can be given again.
impl fmt::Display for TimeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at_ms) => f.write_str(&format_rfc3339(*at_ms)),
            Self::BeforeNow(ago) => write!(f, "-{}ms", ago.as_millis()),
        }
    }
}

/// Reads a time.
pub(crate) fn parse_time(text: &str) -> Result<TimeArg, String> {
    if text == "now" {
        return Ok(TimeArg::BeforeNow(Duration::ZERO));
    }
    if let Ok(at_ms) = text.parse() {
        return Ok(TimeArg::At(at_ms));
    }
    if let Some(ago) = text.strip_prefix('-') {
        return parse_duration(ago).map(TimeArg::BeforeNow);
    }
    parse_rfc3339_ms(text).map(TimeArg::At).ok_or_else(|| {
        format!("{text:?} isn't a time: write now, -1h, 2026-01-31T12:00:00Z, or milliseconds since 1970")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_duration(text: &str, expect_ms: Option<u64>) {
        assert_eq!(parse_duration(text).ok(), expect_ms.map(Duration::from_millis), "{text:?}");
    }

    fn check_time(text: &str, expect_ms: Option<i64>) {
        let at_ms = parse_time(text).ok().map(|time| time.resolve_ms(10_000_000));
        assert_eq!(at_ms, expect_ms, "{text:?}");
    }

    #[test]
    fn durations_are_numbers_with_units() {
        check_duration("30s", Some(30_000));
        check_duration("1h30m", Some(5_400_000));
        check_duration("250ms", Some(250));
        check_duration("1w1d", Some(8 * 86_400_000));
        for wrong in ["", "5", "s", "1.5h", "1h30", "-1h", "1 h", "99999999999999y", "1µs"] {
            check_duration(wrong, None);
        }
    }

    #[test]
    fn times_are_relative_absolute_or_milliseconds() {
        check_time("now", Some(10_000_000));
        check_time("-1h", Some(6_400_000));
        check_time("-1h30m", Some(4_600_000));
        check_time("1700000000000", Some(1_700_000_000_000));
        check_time("-1000", Some(-1000));
        check_time("2015-07-01T20:10:30.781Z", Some(1_435_781_430_781));
        check_time("2015-07-01T22:10:30+02:00", Some(1_435_781_430_000));
        check_time("2000-02-29 00:00:00Z", Some(951_782_400_000));
        for wrong in ["", "yesterday", "-", "1h", "2015-02-30T00:00:00Z", "2015-13-01T00:00:00Z", "T", "T+"] {
            check_time(wrong, None);
        }
    }
}
