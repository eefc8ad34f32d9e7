//! A series as a line of JSON, as exports and imports of VictoriaMetrics have it.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::json::put_histogram;
use silverback_model::printable::printable_json;

use super::{QueriedSeries, value_text};
use crate::error::Done;

/// Prints it.
pub(super) fn print(series: &QueriedSeries, out: &mut impl Write) -> Done {
    let histogram = |(at_ms, histogram): &(i64, Histogram)| {
        RawValue::from_string(histogram_text(histogram)).map(|raw| (*at_ms, raw))
    };
    let line = Line {
        metric: series.labels.as_slice().iter().map(|(name, value)| (&**name, &**value)).collect(),
        values: series.samples.iter().map(|(_, value)| Value::of(*value)).collect(),
        timestamps: series.samples.iter().map(|(at_ms, _)| *at_ms).collect(),
        histograms: series.histograms.iter().map(histogram).collect::<Result<_, _>>()?,
    };
    let json = serde_json::to_string(&line).map_err(std::io::Error::from)?;
    Ok(writeln!(out, "{}", printable_json(&json))?)
}

#[derive(Serialize)]
struct Line<'a> {
    metric: BTreeMap<&'a str, &'a str>,
    values: Vec<Value>,
    timestamps: Vec<i64>,
    /// As Prometheus' API has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    histograms: Vec<(i64, Box<RawValue>)>,
}

/// A number, or its text where JSON has no number for it.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    fn of(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Text(value_text(value)) }
    }
}

/// As Prometheus' API writes it.
pub(super) fn histogram_text(histogram: &Histogram) -> String {
    let mut json = Vec::new();
    put_histogram(&mut json, histogram);
    String::from_utf8(json).expect("numbers are ASCII")
}
