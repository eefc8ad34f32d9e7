//! What a time is in the calendar of UTC.

use silverback_model::utc::{date_of, days_from_epoch};

use crate::functions::Function;

const SECONDS_PER_DAY: i128 = 86_400;
/// The least number of 64 bits: Go on x86-64 makes it of all that has no more room there, infinities and NaN too.
const LEAST: f64 = i64::MIN as f64;
/// Where Go's calendar begins, in seconds: what is earlier has the date that is as much before its end.
const BEGIN: i128 = -9_223_372_028_741_760_000;
const CALENDAR: i128 = 1 << 64;

/// A part of a date, or `None` for functions that give none.
pub(super) fn part(function: Function, seconds: f64) -> Option<f64> {
    let seconds = i128::from(if seconds < -LEAST { seconds as i64 } else { i64::MIN });
    let seconds = if seconds < BEGIN { seconds + CALENDAR } else { seconds };
    let (days, of_day) = (seconds.div_euclid(SECONDS_PER_DAY) as i64, seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = date_of(days);
    Some(match function {
        Function::Minute => (of_day / 60 % 60) as f64,
        Function::Hour => (of_day / 3600) as f64,
        // The first of January 1970 was a Thursday.
        Function::DayOfWeek => (days + 4).rem_euclid(7) as f64,
        Function::DayOfMonth => day as f64,
        Function::DayOfYear => (days - days_from_epoch(year, 1, 1) + 1) as f64,
        Function::DaysInMonth => days_in_month(year, month) as f64,
        Function::Month => month as f64,
        Function::Year => year as f64,
        _other => return None,
    })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_epoch(next_year, next_month, 1) - days_from_epoch(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_dates_are_those_of_the_calendar() {
        // 2000-02-29T23:59:58Z
        let check = |function, expect| assert_eq!(part(function, 951_868_798.0), Some(expect));
        check(Function::Year, 2000.0);
        check(Function::Month, 2.0);
        check(Function::DayOfMonth, 29.0);
        check(Function::DayOfYear, 60.0);
        check(Function::DaysInMonth, 29.0);
        check(Function::DayOfWeek, 2.0);
        check(Function::Hour, 23.0);
        check(Function::Minute, 59.0);
        assert_eq!(part(Function::Year, -1.0), Some(1969.0));
    }

    #[test]
    fn what_is_no_time_has_the_date_that_prometheus_gives_it() {
        for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -LEAST, LEAST] {
            let parts =
                [Function::Year, Function::Month, Function::DayOfMonth, Function::Hour, Function::Minute]
                    .map(|function| part(function, seconds).unwrap());
            assert_eq!(parts, [292_277_026_596.0, 12.0, 4.0, 15.0, 30.0], "{seconds}");
        }
        assert!(part(Function::Year, -9.223_372_03e18).is_some_and(|year| year > 0.0));
        assert!(part(Function::Year, -9.223_372_02e18).is_some_and(|year| year < 0.0));
    }
}
