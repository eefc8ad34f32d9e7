//! Samples' values in JSON: numbers in their shortest form, and strings for what JSON has no number.
//!
//! `"NaN"`, `"+Inf"` and `"-Inf"` as Prometheus writes them. A staleness marker is `"StaleNaN"`, so
//! that an export tells the end of a series from a value that isn't a number; the bits of other NaNs
//! are not written.

use std::io::Write;

use silverback_model::Sample;

/// Whole numbers up to here are written without decimals and exponent, and each is exact.
const WHOLE_MAX: f64 = 1e15;

/// Appends a sample's value.
pub(crate) fn put_value(out: &mut Vec<u8>, sample: Sample) {
    let value = sample.value;
    if value.is_nan() {
        out.extend_from_slice(if sample.is_stale() { b"\"StaleNaN\"" } else { b"\"NaN\"" });
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"+Inf\"" } else { b"\"-Inf\"" });
    } else if value.fract() == 0.0 && value.abs() < WHOLE_MAX && value.to_bits() != (-0.0f64).to_bits() {
        put_whole(out, value as i64);
    } else {
        serde_json::to_writer(out, &value).expect("a number can be written to memory");
    }
}

/// Appends a time in seconds, with ms where it has some.
pub(crate) fn put_seconds(out: &mut Vec<u8>, timestamp_ms: i64) {
    let (sign, size) = (if timestamp_ms < 0 { "-" } else { "" }, timestamp_ms.unsigned_abs());
    let written = match size % 1000 {
        0 => write!(out, "{sign}{}", size / 1000),
        ms => write!(out, "{sign}{}.{ms:03}", size / 1000),
    };
    written.expect("a number can be written to memory");
}

/// Appends a whole number.
pub(crate) fn put_whole(out: &mut Vec<u8>, number: i64) {
    write!(out, "{number}").expect("a number can be written to memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::STALE_NAN_BITS;
    use silverback_model::histogram::json::put_float;

    fn check(value: f64, expect: &str) {
        let mut out = Vec::new();
        put_value(&mut out, Sample::new(0, value));
        assert_eq!(String::from_utf8(out).unwrap(), expect);
        if let Ok(read) = serde_json::from_str::<f64>(expect) {
            assert_eq!(read.to_bits(), value.to_bits(), "{expect}");
        }
    }

    #[test]
    fn numbers_are_short_and_exact() {
        check(0.0, "0");
        check(-0.0, "-0.0");
        check(1.0, "1");
        check(-17.0, "-17");
        check(0.1, "0.1");
        check(123_456_789.25, "123456789.25");
        check(1e15, "1000000000000000.0");
        check(f64::MAX, "1.7976931348623157e+308");
        check(5e-324, "5e-324");
    }

    #[test]
    fn values_in_quotes_and_times_are_as_prometheus_writes_them() {
        let check = |value, expect: &str| {
            let mut out = Vec::new();
            put_float(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), format!("\"{expect}\""));
        };
        check(6.0, "6");
        check(-0.001, "-0.001");
        check(0.000001, "0.000001");
        check(0.0000001, "1e-07");
        check(1.5e21, "1.5e+21");
        check(1e20, "100000000000000000000");
        check(5e-324, "5e-324");
        check(-0.0, "-0");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Inf");
        let times = [
            (1_600_096_945_479, "1600096945.479"),
            (-1_005, "-1.005"),
            (7_000, "7"),
            (i64::MIN, "-9223372036854775.808"),
        ];
        for (time, expect) in times {
            let mut out = Vec::new();
            put_seconds(&mut out, time);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        }
    }

    #[test]
    fn what_json_has_no_number_for_is_a_string() {
        check(f64::NAN, "\"NaN\"");
        check(f64::from_bits(STALE_NAN_BITS), "\"StaleNaN\"");
        check(f64::INFINITY, "\"+Inf\"");
        check(f64::NEG_INFINITY, "\"-Inf\"");
    }
}
