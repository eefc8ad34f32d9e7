//! Round numbers and times for the axes of a plot.

use crate::time_text::{format_clock, format_day, format_rfc3339};

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Steps that a clock's face has.
const TIME_STEPS_MS: [i64; 27] = [
    1,
    5,
    10,
    50,
    100,
    500,
    SECOND_MS,
    2 * SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    15 * SECOND_MS,
    30 * SECOND_MS,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    28 * DAY_MS,
];

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// The value, or milliseconds since the Unix epoch.
    pub at: f64,
    /// What is written beside it.
    pub label: String,
}

/// Ticks for values, with so many steps at most. The first is at most `min`, the last at least `max`.
pub(super) fn value_ticks(min: f64, max: f64, steps_max: usize) -> Vec<Tick> {
    // A flat line runs in the middle.
    let (min, max) = if min < max { (min, max) } else { widened(min) };
    // One step more than fits is what rounding both ends outwards may take.
    let step = round_step((max - min) / steps_max.saturating_sub(1).max(1) as f64);
    let (first, last) = ((min / step).floor(), (max / step).ceil());
    let decimals = usize::try_from(-step.log10().floor() as i64).unwrap_or(0);
    let tick = |index: usize| {
        let at = (first + index as f64) * step;
        Tick { at, label: value_label(at, step, decimals) }
    };
    (0..=(last - first) as usize).map(tick).collect()
}

/// Ticks for times, with so many steps at most, all of them within the range.
pub(super) fn time_ticks(min_ms: i64, max_ms: i64, steps_max: usize) -> Vec<Tick> {
    let steps_max = i64::try_from(steps_max.max(1)).unwrap_or(i64::MAX);
    let span_ms = max_ms.saturating_sub(min_ms);
    let fits = |step_ms: &&i64| span_ms / **step_ms <= steps_max;
    let days_ms = (span_ms / steps_max / DAY_MS).saturating_add(1).saturating_mul(DAY_MS);
    let step_ms = TIME_STEPS_MS.iter().find(fits).copied().unwrap_or(days_ms);
    let (first, last) = (min_ms.div_euclid(step_ms), max_ms.div_euclid(step_ms));
    let times_ms = (first..=last).map(|index| index.saturating_mul(step_ms));
    let within = times_ms.filter(|at_ms| (min_ms..=max_ms).contains(at_ms));
    within.map(|at_ms| Tick { at: at_ms as f64, label: time_label(at_ms, step_ms) }).collect()
}

fn widened(value: f64) -> (f64, f64) {
    let around = if value == 0.0 { 1.0 } else { value.abs() / 10.0 };
    (value - around, value + around)
}

/// 1, 2 or 5 times a power of ten.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= at_least);
    factor.unwrap_or(10.0) * power
}

fn value_label(value: f64, step: f64, decimals: usize) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // Not "-0".
    let value = if value.abs() < step / 2.0 { 0.0 } else { value };
    if value.abs() >= 1e15 || (value != 0.0 && decimals > 9) {
        return format!("{value:.3e}");
    }
    // Only where the step is one of the unit: 1,001 to 1,004 would all be "1k".
    match UNITS.into_iter().find(|(unit, _)| step >= unit / 10.0 && value.abs() >= *unit) {
        Some((unit, name)) => {
            let text = format!("{:.1}", value / unit);
            format!("{}{name}", text.strip_suffix(".0").unwrap_or(&text))
        }
        None => format!("{value:.decimals$}"),
    }
}

fn time_label(at_ms: i64, step_ms: i64) -> String {
    let clock = format_clock(at_ms);
    if step_ms >= DAY_MS {
        format_rfc3339(at_ms)[..10].to_owned()
    } else if at_ms.rem_euclid(DAY_MS) == 0 && step_ms >= HOUR_MS {
        format_day(at_ms)
    } else if step_ms >= MINUTE_MS {
        clock[..5].to_owned()
    } else if step_ms >= SECOND_MS {
        clock
    } else {
        format!("{}.{:03}", &clock[3..], at_ms.rem_euclid(SECOND_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    fn check_values(min: f64, max: f64, steps_max: usize, expect: &[&str]) {
        let ticks = value_ticks(min, max, steps_max);
        assert_eq!(labels(&ticks), expect, "{min} to {max}");
        assert!(ticks[0].at <= min && max <= ticks[ticks.len() - 1].at, "{ticks:?}");
    }

    fn check_times(min_ms: i64, max_ms: i64, steps_max: usize, expect: &[&str]) {
        let ticks = time_ticks(min_ms, max_ms, steps_max);
        assert_eq!(labels(&ticks), expect);
    }

    #[test]
    fn values_stand_at_round_numbers() {
        check_values(0.0, 100.0, 6, &["0", "20", "40", "60", "80", "100"]);
        check_values(-1.0, 1.0, 5, &["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        check_values(0.012, 0.0168, 6, &["0.012", "0.013", "0.014", "0.015", "0.016", "0.017"]);
        check_values(3e6, 5e6, 5, &["3M", "3.5M", "4M", "4.5M", "5M"]);
        check_values(1001.0, 1003.0, 3, &["1001", "1002", "1003"]);
        check_values(5.0, 5.0, 3, &["4.5", "5.0", "5.5"]);
        check_values(0.0, 0.0, 3, &["-1", "0", "1"]);
    }

    #[test]
    fn values_of_any_size_have_ticks() {
        for (min, max) in [(1e300, 2e300), (1e-320, 1e-310), (-1e18, 1e18), (1e16, 1e16 + 2.0)] {
            let ticks = value_ticks(min, max, 5);
            assert!((2..=6).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn times_stand_at_those_of_a_clock() {
        check_times(
            60_000,
            4 * 60_000,
            6,
            &["00:01:00", "00:01:30", "00:02:00", "00:02:30", "00:03:00", "00:03:30", "00:04:00"],
        );
        check_times(1, 3 * HOUR_MS, 3, &["01:00", "02:00", "03:00"]);
        check_times(0, 10_000, 3, &["00:00:00", "00:00:05", "00:00:10"]);
        check_times(0, 2 * DAY_MS, 6, &["01-01", "12:00", "01-02", "12:00", "01-03"]);
        check_times(0, 5, 8, &["00:00.000", "00:00.001", "00:00.002", "00:00.003", "00:00.004", "00:00.005"]);
        check_times(7, 7, 8, &["00:00.007"]);
    }

    #[test]
    fn times_of_any_span_have_ticks() {
        for (min_ms, max_ms) in [(0, i64::MAX), (i64::MIN, i64::MAX), (0, 0)] {
            let ticks = time_ticks(min_ms, max_ms, 5);
            assert!((1..=12).contains(&ticks.len()), "{ticks:?}");
        }
    }
}
