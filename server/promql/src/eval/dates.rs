//! What a time is in the calendar of UTC.

use silverback_model::utc::{date_of, days_from_epoch};

use crate::functions::Function;

const SECONDS_PER_DAY: i64 = 86_400;

/// A part of a date, or `None` for functions that give none.
pub(super) fn part(function: Function, seconds: f64) -> Option<f64> {
    // As Go converts: what is no time is the least one.
    let seconds = if seconds.is_nan() { i64::MIN } else { seconds as i64 };
    let (days, of_day) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
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
        assert!(part(Function::Year, f64::NAN).is_some());
    }
}
