//! A histogram in JSON, as Prometheus' HTTP API writes it.
//!
//! `{"count":"6","sum":"3.5","buckets":[[0,"1","2","6"]]}`: each bucket has a number that says which of its bounds
//! belong to it (0 the upper, 1 the lower, 2 none, 3 both), the two bounds, and its count. Empty buckets aren't
//! written.
use std::io::Write;

use super::bounds::HistogramBucket;
use super::value::Histogram;

/// Appends a histogram as an object.
pub fn put_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    out.extend_from_slice(b"{\"count\":");
    put_float(out, histogram.kind.number(histogram.count));
    out.extend_from_slice(b",\"sum\":");
    put_float(out, histogram.sum());
    let mut before: &[u8] = b",\"buckets\":[";
    for bucket in histogram.buckets_in_use() {
        out.extend_from_slice(before);
        put_bucket(out, bucket);
        before = b",";
    }
    // The list is left out where it would be empty.
    out.extend_from_slice(if before == b"," { b"]}" } else { b"}" });
}

fn put_bucket(out: &mut Vec<u8>, bucket: HistogramBucket) {
    let boundaries = match (bucket.includes_lower, bucket.includes_upper) {
        (false, true) => b'0',
        (true, false) => b'1',
        (false, false) => b'2',
        (true, true) => b'3',
    };
    out.extend([b'[', boundaries]);
    for number in [bucket.lower, bucket.upper, bucket.count] {
        out.push(b',');
        put_float(out, number);
    }
    out.push(b']');
}

/// Appends a float as a string: as Go writes it, with an exponent below 1e-6 and from 1e21 on.
pub fn put_float(out: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    let written = if value.is_nan() {
        write!(out, "\"NaN\"")
    } else if value.is_infinite() {
        write!(out, "\"{}Inf\"", if value > 0.0 { '+' } else { '-' })
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        put_with_exponent(out, value)
    } else {
        write!(out, "\"{value}\"")
    };
    written.expect("a number can be written to memory");
}

/// The exponent has a sign and two digits at least.
fn put_with_exponent(out: &mut Vec<u8>, value: f64) -> std::io::Result<()> {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("an exponent");
    let sign = if exponent.starts_with('-') { '-' } else { '+' };
    write!(out, "\"{digits}e{sign}{:0>2}\"", exponent.trim_start_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Buckets, HistogramKind, Span};

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (34_593.34, "34593.34"),
            (1e-6, "0.000001"),
            (1.5e-7, "1.5e-07"),
            (1e-300, "1e-300"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e21, "1e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, expect) in cases {
            assert_eq!(text(|out| put_float(out, value)), format!("\"{expect}\""));
        }
    }

    #[test]
    fn a_histogram_is_written_as_prometheus_api_writes_it() {
        let histogram = Histogram {
            count: 42,
            sum_bits: 34_593.34_f64.to_bits(),
            zero_count: 3,
            zero_threshold: 0.25,
            positive: Buckets { spans: vec![Span { offset: -1, length: 2 }], words: vec![12, 9] },
            negative: Buckets { spans: vec![Span { offset: 1, length: 1 }], words: vec![6] },
            ..Histogram::default()
        };
        let expect = r#"{"count":"42","sum":"34593.34","buckets":[[1,"-2","-1","6"],[3,"-0.25","0.25","3"],[0,"0.25","0.5","12"],[0,"0.5","1","21"]]}"#;
        assert_eq!(text(|out| put_histogram(out, &histogram)), expect);
    }

    #[test]
    fn a_histogram_without_observations_has_no_list_of_buckets() {
        let empty = Histogram { kind: HistogramKind::Float, ..Histogram::default() };
        assert_eq!(text(|out| put_histogram(out, &empty)), r#"{"count":"0","sum":"0"}"#);
    }
}
