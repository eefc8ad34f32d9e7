//! An answer's value as JSON, byte for byte as Prometheus writes it, part by part so that none of a large answer is in
//! memory twice, and none of a long series holds a core.

use std::fmt::Write;
use std::rc::Rc;

use silverback_model::Labels;

use crate::answer::{MatrixSeries, SampleValue, Value};
use crate::histogram::FloatHistogram;
use crate::number::write_json_float;

/// Points of a series that one part has: some 50 µs' worth.
const PART_POINTS: usize = 512;
/// Numbers of a histogram's bucket, each of which takes as long as a point.
const BUCKET_NUMBERS: usize = 3;

/// Writes a value's `data` object part by part.
#[derive(Debug)]
pub struct JsonWriter<'a> {
    value: &'a Value,
    next: usize,
    /// Points of the next series that are written.
    points: usize,
    is_begun: bool,
    end: &'static str,
}

impl<'a> JsonWriter<'a> {
    /// From the start: `{"resultType":…,"result":…}`.
    pub const fn new(value: &'a Value) -> Self {
        Self { value, next: 0, points: 0, is_begun: false, end: "]}" }
    }

    /// The same without its last brace: the caller has more to put in.
    pub const fn left_open(value: &'a Value) -> Self {
        Self { end: "]", ..Self::new(value) }
    }

    /// Appends the next part, one series or some points of it. Whether more follows.
    pub fn write_part(&mut self, out: &mut String) -> bool {
        if !self.is_begun {
            self.is_begun = true;
            let _ = write!(out, "{{\"resultType\":\"{}\",\"result\":[", self.value.kind());
            return true;
        }
        let has_more = match self.value {
            Value::Scalar { at_ms, value } => {
                write_time(out, *at_ms);
                out.push(',');
                write_float(out, *value);
                false
            }
            Value::Text { at_ms, text } => {
                write_time(out, *at_ms);
                out.push(',');
                write_text(out, text);
                false
            }
            Value::Vector(samples) => match samples.get(self.next) {
                None => false,
                Some(sample) => {
                    self.open(out, &sample.labels);
                    out.push_str(match sample.value {
                        SampleValue::Float(_) => ",\"value\":",
                        SampleValue::Histogram(_) => ",\"histogram\":",
                    });
                    match &sample.value {
                        SampleValue::Float(value) => write_point(out, sample.at_ms, *value, write_float),
                        SampleValue::Histogram(histogram) => {
                            write_point(out, sample.at_ms, histogram, write_histogram);
                        }
                    }
                    out.push('}');
                    self.next += 1;
                    true
                }
            },
            Value::Matrix(series) => match series.get(self.next) {
                None => false,
                Some(series) => {
                    self.write_points(out, series);
                    true
                }
            },
        };
        if !has_more {
            out.push_str(self.end);
        }
        has_more
    }

    /// The next points of the next series, after its labels and up to its end.
    fn write_points(&mut self, out: &mut String, series: &MatrixSeries) {
        if self.points == 0 {
            self.open(out, &series.labels);
        }
        let (floats, mut room) = (series.floats.len(), PART_POINTS);
        while room > 0 && self.points < floats {
            write_list_head(out, "values", self.points);
            let (at_ms, value) = series.floats[self.points];
            write_point(out, at_ms, value, write_float);
            room -= 1;
            self.points += 1;
            if self.points == floats {
                out.push(']');
            }
        }
        while room > 0 && self.points >= floats && self.points < floats + series.histograms.len() {
            let place = self.points - floats;
            write_list_head(out, "histograms", place);
            let (at_ms, histogram) = &series.histograms[place];
            write_point(out, *at_ms, histogram, write_histogram);
            let buckets = histogram.positive.len() + histogram.negative.len();
            room = room.saturating_sub(1 + BUCKET_NUMBERS * buckets);
            self.points += 1;
            if place + 1 == series.histograms.len() {
                out.push(']');
            }
        }
        if self.points == floats + series.histograms.len() {
            out.push('}');
            self.points = 0;
            self.next += 1;
        }
    }

    fn open(&self, out: &mut String, labels: &Labels) {
        out.push_str(if self.next == 0 { "{\"metric\":" } else { ",{\"metric\":" });
        write_labels(out, labels);
    }
}

impl Value {
    /// All of it: `{"resultType":…,"result":…}`.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut writer = JsonWriter::new(self);
        while writer.write_part(&mut out) {}
        out
    }
}

/// What is before a point of a list.
fn write_list_head(out: &mut String, name: &str, place: usize) {
    if place > 0 {
        out.push(',');
    } else {
        let _ = write!(out, ",\"{name}\":[");
    }
}

fn write_point<T>(out: &mut String, at_ms: i64, value: T, write: impl Fn(&mut String, T)) {
    out.push('[');
    write_time(out, at_ms);
    out.push(',');
    write(out, value);
    out.push(']');
}

fn write_labels(out: &mut String, labels: &Labels) {
    out.push('{');
    for (i, (name, value)) in labels.0.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_text(out, name);
        out.push(':');
        write_text(out, value);
    }
    out.push('}');
}

/// Seconds, with as many decimals of the milliseconds as Prometheus writes.
fn write_time(out: &mut String, at_ms: i64) {
    if at_ms < 0 {
        out.push('-');
    }
    let (seconds, ms) = (at_ms.unsigned_abs() / 1000, at_ms.unsigned_abs() % 1000);
    out.push_str(itoa::Buffer::new().format(seconds));
    if ms > 0 {
        let _ = write!(out, ".{ms:03}");
    }
}

fn write_float(out: &mut String, value: f64) {
    out.push('"');
    write_json_float(out, value);
    out.push('"');
}

fn write_histogram(out: &mut String, histogram: &Rc<FloatHistogram>) {
    out.push_str("{\"count\":");
    write_float(out, histogram.count);
    out.push_str(",\"sum\":");
    write_float(out, histogram.sum);
    let mut is_open = false;
    for bucket in histogram.buckets().filter(|bucket| bucket.count != 0.0) {
        out.push_str(if is_open { ",[" } else { ",\"buckets\":[[" });
        is_open = true;
        let _ = write!(out, "{},", bucket.boundaries());
        for (i, value) in [bucket.lower, bucket.upper, bucket.count].into_iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_float(out, value);
        }
        out.push(']');
    }
    if is_open {
        out.push(']');
    }
    out.push('}');
}

/// A text in JSON's quotes.
pub fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::VectorSample;

    fn labels() -> Rc<Labels> {
        Rc::new(Labels::from_pairs([("__name__", "up"), ("job", "a\"b")]))
    }

    #[test]
    fn values_are_written_as_prometheus_writes_them() {
        let scalar = Value::Scalar { at_ms: 1_500, value: 1.5 };
        assert_eq!(scalar.to_json(), r#"{"resultType":"scalar","result":[1.500,"1.5"]}"#);
        let text = Value::Text { at_ms: 4_000, text: "x\n".into() };
        assert_eq!(text.to_json(), r#"{"resultType":"string","result":[4,"x\n"]}"#);
        let (mut open, mut writer) = (String::new(), JsonWriter::left_open(&text));
        while writer.write_part(&mut open) {}
        assert_eq!(open + "}", text.to_json());
        assert_eq!(Value::Vector(Vec::new()).to_json(), r#"{"resultType":"vector","result":[]}"#);
        let sample = VectorSample { labels: labels(), at_ms: 1, value: SampleValue::Float(f64::INFINITY) };
        let expect = r#"{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a\"b"},"value":[0.001,"+Inf"]}]}"#;
        assert_eq!(Value::Vector(vec![sample]).to_json(), expect);
        let series = MatrixSeries {
            labels: Rc::default(),
            floats: vec![(0, 1e-9), (1000, 2.0)],
            histograms: Vec::new(),
        };
        let expect = r#"{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1e-09"],[1,"2"]]},{"metric":{},"values":[[0,"1e-09"],[1,"2"]]}]}"#;
        assert_eq!(Value::Matrix(vec![series.clone(), series]).to_json(), expect);
    }

    /// All of a value, and how many times a part begins a list in it, at most.
    fn parts(value: &Value) -> (String, usize) {
        let (mut writer, mut whole, mut most) = (JsonWriter::new(value), String::new(), 0);
        loop {
            let before = whole.len();
            let has_more = writer.write_part(&mut whole);
            most = most.max(whole[before..].matches('[').count());
            if !has_more {
                return (whole, most);
            }
        }
    }

    #[test]
    fn a_long_series_is_written_in_parts_that_give_the_same() {
        let points = |count: usize| (0..count).map(|at| (1000 * at as i64, at as f64)).collect::<Vec<_>>();
        let histograms = |count: usize| {
            let histogram = Rc::new(FloatHistogram::default());
            (0..count).map(|at| (1000 * at as i64, Rc::clone(&histogram))).collect::<Vec<_>>()
        };
        for (floats, others) in [
            (0, 0),
            (1, 0),
            (PART_POINTS, 0),
            (PART_POINTS + 1, 0),
            (2 * PART_POINTS, 3),
            (5, 2 * PART_POINTS),
        ] {
            let series =
                MatrixSeries { labels: labels(), floats: points(floats), histograms: histograms(others) };
            let list = |name: &str, of: Vec<String>| {
                if of.is_empty() { String::new() } else { format!(",\"{name}\":[{}]", of.join(",")) }
            };
            let values = (0..floats).map(|at| format!("[{at},\"{at}\"]")).collect();
            let empty = r#"{"count":"0","sum":"0"}"#;
            let of_histograms = (0..others).map(|at| format!("[{at},{empty}]")).collect();
            let one = format!(
                r#"{{"metric":{{"__name__":"up","job":"a\"b"}}{}{}}}"#,
                list("values", values),
                list("histograms", of_histograms)
            );
            let expect = format!(r#"{{"resultType":"matrix","result":[{one},{one}]}}"#);
            let (whole, most) = parts(&Value::Matrix(vec![series.clone(), series]));
            assert_eq!(whole, expect, "{floats} and {others}");
            assert!(most <= PART_POINTS + 2, "{most} points in a part: {floats} and {others}");
        }
    }

    #[test]
    fn histograms_of_many_buckets_are_written_one_or_two_at_a_time() {
        const BUCKETS: usize = 100;
        let positive = (0..BUCKETS as i32).map(|index| (index, 1.0)).collect();
        let histogram = Rc::new(FloatHistogram { positive, ..FloatHistogram::default() });
        let histograms: Vec<_> = (0..20).map(|at| (at, Rc::clone(&histogram))).collect();
        let series = MatrixSeries { labels: labels(), floats: Vec::new(), histograms };
        let (whole, most) = parts(&Value::Matrix(vec![series]));
        assert_eq!(whole.matches('[').count(), 20 * (BUCKETS + 2) + 2);
        assert!(most <= 2 * (BUCKETS + 2) + 1, "{most}");
    }
}
