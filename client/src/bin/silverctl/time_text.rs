//! Times and durations as people write them, and as they read them.
//!
//! A time is `now`, `-1h` (before now), RFC 3339, or a number: milliseconds since the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use silverback_model::utc::date_of;
pub use silverback_model::utc::{format_clock, format_day, format_rfc3339};

const MS_PER_SECOND: i64 = 1_000;
const MS_PER_DAY: i64 = 24 * 60 * 60 * MS_PER_SECOND;

const UNITS_MS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_536_000_000),
];

/// Milliseconds since the Unix epoch, by this machine's clock.
pub fn now_ms() -> i64 {
    // A clock before 1970 is a broken one, and everything it says is far too old.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Reads `1h30m`, `250ms`, `7d`: Prometheus' durations.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration like 30s, 1h30m or 7d");
    let (mut rest, mut total_ms) = (text, 0u64);
    while !rest.is_empty() {
        let (digits, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let (_, unit_ms) = UNITS_MS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let count: u64 = digits.parse().map_err(|_| wrong())?;
        let part_ms = count.checked_mul(unit_ms);
        total_ms = part_ms.and_then(|part_ms| total_ms.checked_add(part_ms)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(total_ms)) }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// A time as it was given: relative ones are resolved once, so that two of them mean the same now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeArg {
    /// Milliseconds since the Unix epoch.
    At(i64),
    /// So long before now.
    BeforeNow(Duration),
}

impl TimeArg {
    /// Milliseconds since the Unix epoch.
    pub fn resolve_ms(self, now_ms: i64) -> i64 {
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
pub fn parse_time(text: &str) -> Result<TimeArg, String> {
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
        format!("{text:?} is no time: write now, -1h, 2026-01-31T12:00:00Z, or milliseconds since 1970")
    })
}

/// Milliseconds since the Unix epoch; `None` for what isn't RFC 3339.
pub fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, offset_ms) = split_offset(time)?;
    Some(parse_date_days(date)? * MS_PER_DAY + parse_clock_ms(time)? - offset_ms)
}

fn parse_date_days(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let days = days_from_epoch(year, month, day);
    // A date that isn't one, as February 30th, comes back as another.
    let is_date = (1..=12).contains(&month) && date_of(days) == (year, month, day);
    (parts.next().is_none() && is_date).then_some(days)
}

/// The time of day, and how far it is ahead of UTC in ms.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let sign_at = text.rfind(['+', '-'])?;
    let (hours, minutes) = text[sign_at + 1..].split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    let ahead_ms = (hours * 60 + minutes) * 60_000;
    let offset_ms = if text[sign_at..].starts_with('-') { -ahead_ms } else { ahead_ms };
    (hours < 24 && minutes < 60).then_some((&text[..sign_at], offset_ms))
}

/// `HH:MM:SS`, with decimals or without.
fn parse_clock_ms(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let (hours, minutes, seconds) =
        (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_clock = parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 60;
    let are_decimals = !decimals.is_empty() && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let decimals_ms = digits(format!("{decimals:0<3}").get(..3)?, 3)?;
    (is_clock && are_decimals)
        .then_some(((hours * 60 + minutes) * 60 + seconds) * MS_PER_SECOND + decimals_ms)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok())?
}

/// Days of the proleptic Gregorian calendar. A year begins in March here, so that a leap day is the
/// last day of its year.
const fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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

    #[test]
    fn what_is_formatted_is_read_back() {
        assert_eq!(format_rfc3339(1_435_781_430_781), "2015-07-01T20:10:30.781Z");
        assert_eq!(format_rfc3339(0), "1970-01-01T00:00:00Z");
        for day in (-719_162..2_932_896).step_by(97) {
            let at_ms = day * MS_PER_DAY + 45_296_007;
            assert_eq!(parse_rfc3339_ms(&format_rfc3339(at_ms)), Some(at_ms));
        }
    }
}
