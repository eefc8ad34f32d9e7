//! JSON lines: a series with its samples, as `/api/v1/export` of VictoriaMetrics and of Silverback
//! gives them, or one sample.
//!
//! `{"metric":{"__name__":"up","job":"a"},"values":[1,0],"timestamps":[1700000000000,1700000015000]}`
//! `{"name":"up","labels":{"job":"a"},"timestamp":1700000000000,"value":1}`

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::{LineEntry, LineError, NORMAL_NAN, parse_value};
use crate::label_set::{LabelSet, METRIC_NAME};
use crate::time_text::parse_rfc3339_ms;

type LabelMap = BTreeMap<String, String>;

#[derive(Deserialize)]
struct Object {
    metric: Option<LabelMap>,
    values: Option<Vec<Value>>,
    timestamps: Option<Vec<i64>>,
    name: Option<String>,
    labels: Option<LabelMap>,
    value: Option<Value>,
    timestamp: Option<Timestamp>,
}

/// Reads one line.
pub(super) fn parse(line: &[u8]) -> Result<LineEntry, LineError> {
    let object: Object = serde_json::from_slice(line)?;
    match object {
        Object { metric: Some(metric), values: Some(values), timestamps: Some(timestamps), .. } => {
            series(metric, &values, &timestamps)
        }
        Object { value: Some(value), name, labels, timestamp, .. } => {
            let mut labels = labels.unwrap_or_default();
            labels.extend(name.map(|name| (METRIC_NAME.to_owned(), name)));
            let sample = (timestamp.map(|Timestamp(timestamp_ms)| timestamp_ms), value.0);
            Ok(LineEntry { labels: LabelSet::new(labels.into_iter().collect())?, samples: vec![sample] })
        }
        _other => Err(LineError::Shape("neither metric, values and timestamps, nor name and value")),
    }
}

fn series(metric: LabelMap, values: &[Value], timestamps: &[i64]) -> Result<LineEntry, LineError> {
    if values.len() != timestamps.len() {
        return Err(LineError::Shape("values and timestamps are not of the same number"));
    }
    let samples = timestamps.iter().zip(values);
    let samples = samples.map(|(timestamp_ms, Value(value))| (Some(*timestamp_ms), *value)).collect();
    Ok(LineEntry { labels: LabelSet::new(metric.into_iter().collect())?, samples })
}

/// A number, a text for what JSON has no number for, or `null` for a NaN.
struct Value(f64);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"+Inf\", \"-Inf\", \"StaleNaN\" or null")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value(value as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        parse_value(text).map(Value).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value(NORMAL_NAN))
    }
}

/// Milliseconds since the Unix epoch, or RFC 3339.
struct Timestamp(i64);

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimestampVisitor)
    }
}

struct TimestampVisitor;

impl Visitor<'_> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("milliseconds since 1970, or a time like \"2026-01-31T12:00:00Z\"")
    }

    fn visit_i64<E: de::Error>(self, timestamp_ms: i64) -> Result<Timestamp, E> {
        Ok(Timestamp(timestamp_ms))
    }

    fn visit_u64<E: de::Error>(self, timestamp_ms: u64) -> Result<Timestamp, E> {
        let in_range = i64::try_from(timestamp_ms).map(Timestamp);
        in_range.map_err(|_| E::invalid_value(de::Unexpected::Unsigned(timestamp_ms), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let timestamp = parse_rfc3339_ms(text).map(Timestamp);
        timestamp.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
