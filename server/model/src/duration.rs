//! Durations as Prometheus has people write them: `1h30m`, `250ms`.

use std::time::Duration;

/// The units, the largest first, in ms.
pub const UNITS_MS: [(&str, u64); 7] = [
    ("y", 365 * 24 * 60 * 60 * 1000),
    ("w", 7 * 24 * 60 * 60 * 1000),
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];

/// In which order the units of one duration may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitOrder {
    /// Any, and more than once each.
    Any,
    /// Descending, and once each, as Prometheus has it: `1h30m`, not `30m1h`.
    Descending,
}

/// Reads numbers, each with its unit.
pub fn parse_duration(text: &str, order: UnitOrder) -> Option<Duration> {
    let (mut rest, mut total_ms, mut units) = (text, 0u64, &UNITS_MS[..]);
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let place = units.iter().position(|(name, _)| *name == unit)?;
        let number: u64 = number.parse().ok()?;
        total_ms = total_ms.checked_add(number.checked_mul(units[place].1)?)?;
        if order == UnitOrder::Descending {
            units = &units[place + 1..];
        }
        rest = after;
    }
    (!text.is_empty()).then_some(Duration::from_millis(total_ms))
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_in_the_order_that_is_asked_for() {
        let both = |text| [UnitOrder::Any, UnitOrder::Descending].map(|order| parse_duration(text, order));
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(both("1h30m"), [ms(5_400_000); 2]);
        assert_eq!(both("30m1h"), [ms(5_400_000), None]);
        assert_eq!(both("1h1h"), [ms(7_200_000), None]);
        for wrong in ["", "5", "h", "1.5h", "-1h", "1 h", "1h ", "99999999999999y", "1µs"] {
            assert_eq!(both(wrong), [None; 2], "{wrong:?}");
        }
    }
}
