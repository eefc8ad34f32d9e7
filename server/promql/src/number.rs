//! Numbers and durations as Go and Prometheus read and write them.

use std::fmt::Write;

use silverback_model::duration::UNITS_MS;

/// The most that Go's nanoseconds hold.
const DURATION_MS_MAX: i64 = i64::MAX / 1_000_000;

/// The shortest decimals that are read back as the same number: `1000000`, `0.1`, `NaN`, `+Inf`.
pub fn format_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    format!("{value}")
}

/// Whole numbers below this are exact.
pub(crate) const WHOLE_END: f64 = (1_u64 << 53) as f64;

/// As a value is in an answer's JSON: with an exponent where that is much shorter.
pub(crate) fn write_json_float(out: &mut String, value: f64) {
    let size = value.abs();
    if size < WHOLE_END && value.trunc() == value && (size != 0.0 || value.is_sign_positive()) {
        out.push_str(itoa::Buffer::new().format(value as i64));
    } else if value.is_finite() && size != 0.0 && !(1e-6..1e21).contains(&size) {
        out.push_str(&with_exponent(&format!("{value:e}")));
    } else if (1e-4..WHOLE_END).contains(&size) {
        // The same digits, for a fifth of the time; no exponent in this range.
        out.push_str(zmij::Buffer::new().format_finite(value));
    } else {
        out.push_str(&format_float(value));
    }
}

/// As Go's `%g` writes a number.
pub(crate) fn format_general(value: f64) -> String {
    if !value.is_finite() {
        return format_float(value);
    }
    let scientific = format!("{value:e}");
    let exponent = exponent_of(&scientific);
    let is_plain = value == 0.0 || (-4..6).contains(&exponent);
    if is_plain { format!("{value}") } else { with_exponent(&scientific) }
}

/// As Go's `%f` writes a number.
pub(crate) fn format_fixed(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { format_float(value) }
}

/// As Go's `%.2g` writes a number.
pub(crate) fn format_two_digits(value: f64) -> String {
    if !value.is_finite() {
        return format_float(value);
    }
    let scientific = format!("{value:.1e}");
    let exponent = exponent_of(&scientific);
    let (digits, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    if value == 0.0 || (-4..2).contains(&exponent) {
        let rounded: f64 = scientific.parse().unwrap_or(value);
        format!("{rounded}")
    } else {
        with_exponent(&format!("{digits}e{exponent}"))
    }
}

fn exponent_of(scientific: &str) -> i32 {
    scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Go writes at least two digits and a sign in an exponent.
fn with_exponent(scientific: &str) -> String {
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific.to_owned() };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Reads a number as PromQL takes it: decimal, hexadecimal, octal, with underscores, `inf`, `nan`.
pub(crate) fn parse_number(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let lower = plain.to_ascii_lowercase();
    match lower.as_str() {
        "inf" | "+inf" => return Some(f64::INFINITY),
        "-inf" => return Some(f64::NEG_INFINITY),
        "nan" => return Some(f64::NAN),
        _number => {}
    }
    if let Some(digits) = lower.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().map(|value| value as f64);
    }
    if lower.len() > 1 && lower.starts_with('0') && lower.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return i64::from_str_radix(&lower, 8).ok().map(|value| value as f64);
    }
    let is_decimal = lower.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-'));
    if is_decimal { lower.parse().ok().filter(|value: &f64| value.is_finite()) } else { None }
}

/// Reads a duration such as `1h30m`; milliseconds, or what is wrong with it.
pub fn parse_duration_ms(text: &str) -> Result<i64, String> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err("empty duration string".to_owned());
    }
    let invalid = || format!("not a valid duration string: {}", quote(text));
    let (mut rest, mut next_unit, mut total) = (text, 0, 0_i64);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let found = UNITS_MS.iter().position(|(name, _)| *name == unit).filter(|at| *at >= next_unit);
        let (Some(unit), false) = (found, number.is_empty()) else { return Err(invalid()) };
        let count: i64 = number.parse().map_err(|_| "duration out of range".to_owned())?;
        let part = count.checked_mul(UNITS_MS[unit].1 as i64);
        total = part.and_then(|part| total.checked_add(part)).ok_or("duration out of range")?;
        if total > DURATION_MS_MAX {
            return Err("duration out of range".to_owned());
        }
        (rest, next_unit) = (after, unit + 1);
    }
    Ok(total)
}

/// Writes a duration with whole units: `1h30m`. Years and weeks only where nothing is left of them.
pub(crate) fn format_duration(duration_ms: i64) -> String {
    if duration_ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    let mut left = duration_ms.unsigned_abs();
    if duration_ms < 0 {
        out.push('-');
    }
    for (unit, unit_ms) in UNITS_MS {
        let wants_exact = matches!(unit, "y" | "w");
        if left / unit_ms > 0 && (!wants_exact || left.is_multiple_of(unit_ms)) {
            let _ = write!(out, "{}{unit}", left / unit_ms);
            left %= unit_ms;
        }
    }
    out
}

/// A text in Go's double quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if c < ' ' || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if silverback_model::printable::is_printable(c) => out.push(c),
            c => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

/// One character in Go's single quotes.
pub(crate) fn quote_char(c: char) -> String {
    let quoted = quote(c.encode_utf8(&mut [0; 4]));
    match c {
        '"' => "'\"'".to_owned(),
        '\'' => "'\\''".to_owned(),
        _other => format!("'{}'", &quoted[1..quoted.len() - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quick_ways_to_write_a_number_give_what_the_slow_one_gives(
            bits in any::<u64>(),
            whole in any::<i64>(),
            part in any::<i32>(),
            exponent in -8..20_i32,
        ) {
            let near = f64::from(part) * 10_f64.powi(exponent - 9);
            for value in [f64::from_bits(bits), whole as f64, near, near.trunc()] {
                let (mut out, size) = (String::new(), value.abs());
                write_json_float(&mut out, value);
                let has_exponent = value.is_finite() && size != 0.0 && !(1e-6..1e21).contains(&size);
                let expect =
                    if has_exponent { with_exponent(&format!("{value:e}")) } else { format_float(value) };
                prop_assert_eq!(out, expect);
            }
        }
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let json = |value| {
            let mut out = String::new();
            write_json_float(&mut out, value);
            out
        };
        for (value, plain, in_json, general, two) in [
            (0.0, "0", "0", "0", "0"),
            (-0.0, "-0", "-0", "-0", "-0"),
            (1e6, "1000000", "1000000", "1e+06", "1e+06"),
            (0.1, "0.1", "0.1", "0.1", "0.1"),
            (1e21, "1000000000000000000000", "1e+21", "1e+21", "1e+21"),
            (5e-7, "0.0000005", "5e-07", "5e-07", "5e-07"),
            (123.456, "123.456", "123.456", "123.456", "1.2e+02"),
            (f64::INFINITY, "+Inf", "+Inf", "+Inf", "+Inf"),
            (f64::NAN, "NaN", "NaN", "NaN", "NaN"),
        ] {
            assert_eq!(format_float(value), plain);
            assert_eq!(json(value), in_json);
            assert_eq!(format_general(value), general, "{value}");
            assert_eq!(format_two_digits(value), two);
        }
    }

    #[test]
    fn numbers_are_read_in_each_base() {
        for (text, expect) in [
            ("1", Some(1.0)),
            ("1_000", Some(1000.0)),
            ("0x1F", Some(31.0)),
            ("010", Some(8.0)),
            ("08", Some(8.0)),
            (".5", Some(0.5)),
            ("1e3", Some(1000.0)),
            ("+Inf", Some(f64::INFINITY)),
            ("1e999", None),
            ("x", None),
        ] {
            assert_eq!(parse_number(text), expect, "{text}");
        }
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms) in [("1h30m", 5_400_000), ("1w", 604_800_000), ("8d", 691_200_000), ("1s5ms", 1005)] {
            assert_eq!(parse_duration_ms(text), Ok(ms));
            assert_eq!(format_duration(ms), text);
        }
        assert_eq!(format_duration(0), "0s");
        assert_eq!(format_duration(-60_000), "-1m");
        for bad in ["", "1", "1x", "1m1h", "h", "1m1m"] {
            assert!(parse_duration_ms(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_duration_ms("300y"), Err("duration out of range".to_owned()));
    }
}
