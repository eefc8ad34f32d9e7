//! Times in UTC, as RFC 3339 writes them for people and for programs.

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
}
