//! Values and times as lines write them.

/// What Prometheus stores for a NaN that isn't a staleness marker.
const NORMAL_NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// A value in Prometheus' text format: a number as Go and Rust write it, `NaN`, `+Inf`, `-Inf`. None, as there, for
/// digits that no finite number is near to.
pub(crate) fn value(text: &[u8]) -> Option<f64> {
    let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    if value.is_infinite() && text.iter().any(u8::is_ascii_digit) {
        return None;
    }
    Some(if value.is_nan() { f64::from_bits(NORMAL_NAN_BITS) } else { value })
}

/// A number that is finite, as InfluxDB takes it.
pub(crate) fn finite(text: &[u8]) -> Option<f64> {
    value(text).filter(|value| value.is_finite())
}

/// A whole number.
pub(crate) fn whole<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// A timestamp in Prometheus' text format, in ms since the Unix epoch. What would lie in 1970's first 25 days or
/// before, taken for ms, is in seconds, as OpenMetrics has it.
pub(crate) fn timestamp_ms(text: &[u8]) -> Option<i64> {
    const SECONDS_MAX: i64 = i32::MAX as i64;

    if let Some(time) = whole::<i64>(text) {
        return Some(if (-SECONDS_MAX..=SECONDS_MAX).contains(&time) { time * 1000 } else { time });
    }
    let time = finite(text)?;
    let ms = if time.abs() <= SECONDS_MAX as f64 { time * 1000.0 } else { time }.round();
    // Within the precision of a float.
    (ms.abs() < (1_u64 << 53) as f64).then_some(ms as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<f64>) {
        assert_eq!(value(text.as_bytes()).map(f64::to_bits), expect.map(f64::to_bits), "{text}");
    }

    #[test]
    fn values_are_written_as_go_writes_them() {
        check("1", Some(1.0));
        check("-1.5e-3", Some(-0.0015));
        check("+.5", Some(0.5));
        check("1e-400", Some(0.0));
        check("+Inf", Some(f64::INFINITY));
        check("Inf", Some(f64::INFINITY));
        check("-Inf", Some(f64::NEG_INFINITY));
        check("NaN", Some(f64::from_bits(NORMAL_NAN_BITS)));
        check("nan", Some(f64::from_bits(NORMAL_NAN_BITS)));
        for none in ["", "-", "1,5", "0x", "1 ", "one", "1e400", "-1e309", "\u{663}"] {
            check(none, None);
        }
        assert_eq!(value(b"1\xff"), None);
        assert_eq!([&b"1e400"[..], b"NaN", b"-Inf"].map(finite), [None; 3]);
    }

    #[test]
    fn times_are_ms_or_openmetrics_seconds() {
        let check = |text: &str, expect| assert_eq!(timestamp_ms(text.as_bytes()), expect, "{text}");
        check("1700000000000", Some(1_700_000_000_000));
        check("1700000000", Some(1_700_000_000_000));
        check("1700000000.123", Some(1_700_000_000_123));
        check("1.7e9", Some(1_700_000_000_000));
        check("-1", Some(-1000));
        check("2147483647", Some(2_147_483_647_000));
        check("2147483648", Some(2_147_483_648));
        check("1700000000123.0", Some(1_700_000_000_123));
        check("9223372036854775807", Some(i64::MAX));
        for none in ["", "x", "1s", "1e300", "NaN", "9223372036854775808000"] {
            check(none, None);
        }
    }
}
