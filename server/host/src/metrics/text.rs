//! Prometheus' text exposition format, version 0.0.4.

use std::fmt::Write;

use super::{Family, FamilySample, MetricKind};

/// The response's `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The families as a scrape reads them. A family without samples is left out.
pub fn render(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        push_header(&mut out, family);
        family.samples.iter().for_each(|sample| push_sample(&mut out, family.name, sample));
    }
    out
}

fn push_header(out: &mut String, family: &Family) {
    let Family { name, kind, help, .. } = family;
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let help = help.replace('\\', r"\\").replace('\n', r"\n");
    push(out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

fn push_sample(out: &mut String, name: &str, sample: &FamilySample) {
    push(out, format_args!("{name}{}", sample.suffix));
    for (i, (label, value)) in sample.labels.iter().enumerate() {
        let before = if i == 0 { '{' } else { ',' };
        push(out, format_args!("{before}{label}=\""));
        push_escaped(out, value);
        out.push('"');
    }
    let after = if sample.labels.is_empty() { "" } else { "}" };
    push(out, format_args!("{after} {}\n", number(sample.value)));
}

fn push_escaped(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '"' => out.push_str(r#"\""#),
            '\n' => out.push_str(r"\n"),
            other => out.push(other),
        }
    }
}

/// As Go reads it: Rust's own form but for the infinities.
pub(super) fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    value.to_string()
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(families: &[Family], expect: &str) {
        assert_eq!(render(families), expect);
    }

    #[test]
    fn a_family_has_help_type_and_a_line_for_each_sample() {
        let mut family = Family::new("requests_total", MetricKind::Counter, "Requests answered.");
        family.push([("code", "204".to_owned()), ("path", "/".to_owned())], 5.0);
        family.push([], 0.25);
        check(
            &[family],
            "# HELP requests_total Requests answered.\n\
             # TYPE requests_total counter\n\
             requests_total{code=\"204\",path=\"/\"} 5\n\
             requests_total 0.25\n",
        );
    }

    #[test]
    fn what_would_end_a_label_or_a_line_is_escaped() {
        let mut family = Family::new("m", MetricKind::Gauge, "a\\b\nc \"d\"");
        family.push([("v", "a\\b\n\"c\" é".to_owned())], 1.0);
        check(&[family], "# HELP m a\\\\b\\nc \"d\"\n# TYPE m gauge\nm{v=\"a\\\\b\\n\\\"c\\\" é\"} 1\n");
    }

    #[test]
    fn numbers_are_written_as_go_reads_them() {
        let expect = [
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (0.0, "0"),
            (-1.5, "-1.5"),
            (1e6, "1000000"),
            (1e-7, "0.0000001"),
        ];
        for (value, text) in expect {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_family_without_samples_is_left_out() {
        check(&[Family::new("m", MetricKind::Gauge, "")], "");
    }

    #[test]
    fn a_histogram_is_written_in_the_order_of_its_buckets() {
        let mut family = Family::new("h", MetricKind::Histogram, "x");
        family.push_histogram([("shard", "0".to_owned())], &[0.1], &[1, 1], 3.0);
        check(
            &[family],
            "# HELP h x\n# TYPE h histogram\n\
             h_bucket{shard=\"0\",le=\"0.1\"} 1\nh_bucket{shard=\"0\",le=\"+Inf\"} 2\n\
             h_sum{shard=\"0\"} 3\nh_count{shard=\"0\"} 2\n",
        );
    }
}
