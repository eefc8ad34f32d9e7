//! A series as a line of JSON, as exports and imports of VictoriaMetrics have it.

use std::io::Write;

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::json::put_histogram;
use silverback_model::printable::printable_json;

use super::{Series, value_text};
use crate::failure::Failure;

/// Prints it.
pub fn print(series: &Series, out: &mut impl Write) -> Result<(), Failure> {
    let json = serde_json::to_string(series).map_err(std::io::Error::from)?;
    Ok(writeln!(out, "{}", printable_json(&json))?)
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("metric", &Metric(self))?;
        object.serialize_entry("values", &Values(self))?;
        object.serialize_entry("timestamps", &Timestamps(self))?;
        if !self.histograms.is_empty() {
            object.serialize_entry("histograms", &Histograms(self))?;
        }
        object.end()
    }
}

struct Metric<'a>(&'a Series);

impl Serialize for Metric<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.labels.as_slice().iter().map(|(name, value)| (name, value)))
    }
}

struct Values<'a>(&'a Series);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.samples.iter().map(|(_, value)| Value(*value)))
    }
}

struct Timestamps<'a>(&'a Series);

impl Serialize for Timestamps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.samples.iter().map(|(at_ms, _)| at_ms))
    }
}

struct Histograms<'a>(&'a Series);

impl Serialize for Histograms<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pair = |(at_ms, histogram): &(i64, Histogram)| {
            let raw = RawValue::from_string(histogram_text(histogram)).map_err(S::Error::custom)?;
            Ok((*at_ms, raw))
        };
        let pairs = self.0.histograms.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        serializer.collect_seq(pairs)
    }
}

/// As Prometheus' API writes it.
pub(super) fn histogram_text(histogram: &Histogram) -> String {
    let mut json = Vec::new();
    put_histogram(&mut json, histogram);
    String::from_utf8(json).expect("numbers are ASCII")
}

/// A number, or a text for what JSON has no number for.
struct Value(f64);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(&value_text(self.0))
        }
    }
}
