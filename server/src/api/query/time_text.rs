//! Times as clients write them: RFC 3339, or seconds since the Unix epoch with decimals.

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;

/// How Prometheus' own clients write the least and the greatest time.
const OLDEST_TEXT: &str = "-292273086-05-16T16:47:06Z";
const NEWEST_TEXT: &str = "292277025-08-18T07:12:54.999999999Z";

/// Milliseconds since the Unix epoch; `None` for what is no time. A time beyond what 64 bits hold is
/// the last one that they do.
pub(crate) fn parse_time_ms(text: &str) -> Option<i64> {
    if text.contains(['T', 't', ':']) {
        return match text {
            OLDEST_TEXT => Some(i64::MIN),
            NEWEST_TEXT => Some(i64::MAX),
            _ => parse_rfc3339_ms(text),
        };
    }
    let seconds: f64 = text.parse().ok()?;
    seconds.is_finite().then(|| (seconds * 1000.0).round() as i64)
}

fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (year, month, day) = parse_date(date)?;
    let (time, offset_ms) = split_offset(time)?;
    Some(days_from_epoch(year, month, day) * MS_PER_DAY + parse_clock_ms(time)? - offset_ms)
}

fn parse_date(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    (parts.next().is_none() && is_date).then_some((year, month, day))
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days of the proleptic Gregorian calendar. A year begins in March here, so that a leap day is the
/// last day of its year.
const fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
    let is_offset = hours < 24 && minutes < 60;
    is_offset
        .then_some((&text[..sign_at], if text[sign_at..].starts_with('-') { -ahead_ms } else { ahead_ms }))
}

/// `HH:MM:SS`, with decimals or without.
fn parse_clock_ms(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes, seconds) = (digits(hours, 2)?, digits(minutes, 2)?, digits(seconds, 2)?);
    let is_clock = parts.next().is_none() && hours < 24 && minutes < 60 && seconds < 60;
    let decimals_ms = digits(format!("{decimals:0<3}").get(..3)?, 3)?;
    let are_decimals = !decimals.is_empty() && decimals.bytes().all(|b| b.is_ascii_digit());
    (is_clock && are_decimals).then(|| ((hours * 60 + minutes) * 60 + seconds) * 1000 + decimals_ms)
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(parse_time_ms(text), expect, "{text:?}");
    }

    #[test]
    fn seconds_are_read_with_their_decimals() {
        check("0", Some(0));
        check("1435781430.781", Some(1_435_781_430_781));
        check("-1.5", Some(-1500));
        check("1.7e9", Some(1_700_000_000_000));
        check("1e300", Some(i64::MAX));
        for text in ["", "x", "NaN", "Inf", "1 ", "0x10", "1_000"] {
            check(text, None);
        }
    }

    #[test]
    fn rfc_3339_is_read_with_offset_and_decimals() {
        check("1970-01-01T00:00:00Z", Some(0));
        check("2015-07-01T20:10:30.781Z", Some(1_435_781_430_781));
        check("2015-07-01T22:10:30.781+02:00", Some(1_435_781_430_781));
        check("2015-07-01T14:40:30.781999999-05:30", Some(1_435_781_430_781));
        check("2000-02-29T00:00:00.5Z", Some(951_782_400_500));
        check("1969-12-31T23:59:59Z", Some(-1000));
        check("0000-03-01T00:00:00Z", Some(-62_162_035_200_000));
        check(OLDEST_TEXT, Some(i64::MIN));
        check(NEWEST_TEXT, Some(i64::MAX));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "2015-07-01T20:10:30",
            "2015-02-29T00:00:00Z",
            "2015-13-01T00:00:00Z",
            "2015-00-01T00:00:00Z",
            "2015-07-01T24:00:00Z",
            "2015-07-01T20:10Z",
            "2015-07-01T20:10:30.Z",
            "2015-07-01T20:10:30.éZ",
            "2015-07-01T20:10:30+2:00",
            "2015-07-01T20:10:30+02:00:00",
            "15-07-01T20:10:30Z",
            "+015-07-01T20:10:30Z",
            "T",
            "T+",
            ":",
        ] {
            check(text, None);
        }
    }
}
