//! Times in UTC, as RFC 3339 writes them for people and for programs, and as they are read back.

const MS_PER_SECOND: i64 = 1_000;
const MS_PER_DAY: i64 = 24 * 60 * 60 * MS_PER_SECOND;

/// A time in ms since the Unix epoch as RFC 3339, with milliseconds where it has any:
/// `2015-07-01T20:10:30.781Z`.
pub fn format_rfc3339(at_ms: i64) -> String {
    let (year, month, day) = date_of(at_ms.div_euclid(MS_PER_DAY));
    let decimals_ms = at_ms.rem_euclid(MS_PER_SECOND);
    let decimals = if decimals_ms == 0 { String::new() } else { format!(".{decimals_ms:03}") };
    format!("{year:04}-{month:02}-{day:02}T{}{decimals}Z", format_clock(at_ms))
}

/// The time of day, as `HH:MM:SS`.
pub fn format_clock(at_ms: i64) -> String {
    let second = at_ms.rem_euclid(MS_PER_DAY) / MS_PER_SECOND;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The month and the day, as `MM-DD`.
pub fn format_day(at_ms: i64) -> String {
    let (_, month, day) = date_of(at_ms.div_euclid(MS_PER_DAY));
    format!("{month:02}-{day:02}")
}

/// The year, month and day of a day since the epoch, in the proleptic Gregorian calendar. A year begins in
/// March here, so that a leap day is the last day of its year.
pub const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
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
pub const fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_the_milliseconds_that_they_have() {
        let check = |at_ms, text| assert_eq!(format_rfc3339(at_ms), text);
        check(1_435_781_430_781, "2015-07-01T20:10:30.781Z");
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400_000, "2000-02-29T00:00:00Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(i64::MAX, "292278994-08-17T07:12:55.807Z");
        check(i64::MIN, "-292275055-05-16T16:47:04.192Z");
        assert_eq!(format_day(951_782_400_000), "02-29");
    }

    #[test]
    fn what_is_formatted_is_read_back() {
        for day in (-719_162..2_932_896).step_by(97) {
            let at_ms = day * MS_PER_DAY + 45_296_007;
            assert_eq!(parse_rfc3339_ms(&format_rfc3339(at_ms)), Some(at_ms));
        }
    }
}
