//! An answer's value as JSON, byte for byte as Prometheus writes it, series by series so that none of a large answer
//! is in memory twice.

use std::fmt::Write;

use silverback_model::Labels;

use crate::answer::{SampleValue, Value};
use crate::histogram::FloatHistogram;
use crate::number::write_json_float;

/// Writes a value's `data` object part by part.
#[derive(Debug)]
pub struct JsonWriter<'a> {
    value: &'a Value,
    next: usize,
    is_begun: bool,
    end: &'static str,
}

impl<'a> JsonWriter<'a> {
    /// From the start: `{"resultType":…,"result":…}`.
    pub const fn new(value: &'a Value) -> Self {
        Self { value, next: 0, is_begun: false, end: "]}" }
    }

    /// The same without its last brace: the caller has more to put in.
    pub const fn left_open(value: &'a Value) -> Self {
        Self { end: "]", ..Self::new(value) }
    }

    /// Appends the next part, at most one series. Whether more follows.
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
                    write_sample(out, sample.at_ms, &sample.value);
                    out.push('}');
                    true
                }
            },
            Value::Matrix(series) => match series.get(self.next) {
                None => false,
                Some(series) => {
                    self.open(out, &series.labels);
                    let floats =
                        series.floats.iter().map(|(at_ms, value)| (*at_ms, SampleValue::Float(*value)));
                    write_samples(out, "values", floats);
                    let histograms = series.histograms.iter();
                    let histograms =
                        histograms.map(|(at_ms, value)| (*at_ms, SampleValue::Histogram(value.clone())));
                    write_samples(out, "histograms", histograms);
                    out.push('}');
                    true
                }
            },
        };
        self.next += 1;
        if !has_more {
            out.push_str(self.end);
        }
        has_more
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

fn write_samples(out: &mut String, name: &str, samples: impl ExactSizeIterator<Item = (i64, SampleValue)>) {
    if samples.len() == 0 {
        return;
    }
    let _ = write!(out, ",\"{name}\":[");
    for (i, (at_ms, value)) in samples.enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_sample(out, at_ms, &value);
    }
    out.push(']');
}

fn write_sample(out: &mut String, at_ms: i64, value: &SampleValue) {
    out.push('[');
    write_time(out, at_ms);
    out.push(',');
    match value {
        SampleValue::Float(value) => write_float(out, *value),
        SampleValue::Histogram(histogram) => write_histogram(out, histogram),
    }
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
    let _ = write!(out, "{seconds}");
    if ms > 0 {
        let _ = write!(out, ".{ms:03}");
    }
}

fn write_float(out: &mut String, value: f64) {
    out.push('"');
    write_json_float(out, value);
    out.push('"');
}

fn write_histogram(out: &mut String, histogram: &FloatHistogram) {
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
    use std::rc::Rc;

    use super::*;
    use crate::answer::{MatrixSeries, VectorSample};

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
}
