//! Exemplars and metadata, from each protocol that has them to what is read back: at once, after kills, with other
//! numbers of shards, and while cells move.

mod bad_input;
mod kept;
mod senders;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_test_support::http::Answer;
use silverback_test_support::wire::{field, number};

/// Half an hour ago, in whole seconds, as ms.
fn start_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_secs() as i64 - 1800) * 1000
}

/// What a query for exemplars asks.
fn exemplars_path(query: &str) -> String {
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    format!("/api/v1/query_exemplars?query={query}")
}

/// The data of an answer that is a success.
fn data(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["status"], "success", "{answer}");
    answer["data"].clone()
}

/// A series with its exemplars, as it is answered.
fn series(labels: Value, exemplars: &[Value]) -> Value {
    json!({"seriesLabels": labels, "exemplars": exemplars})
}

/// An exemplar as it is answered.
fn exemplar(labels: Value, value: &str, timestamp_ms: i64) -> Value {
    let seconds = match timestamp_ms % 1000 {
        0 => json!(timestamp_ms / 1000),
        _some => json!(timestamp_ms as f64 / 1000.0),
    };
    json!({"labels": labels, "value": value, "timestamp": seconds})
}

/// A number of eight bytes, in a field.
fn double(field: u64, value: f64) -> Vec<u8> {
    [&[(field << 3 | 1) as u8][..], &value.to_le_bytes()].concat()
}

/// A native histogram without observations, as remote write has it.
fn histogram(timestamp_ms: i64) -> Vec<u8> {
    let mut message = Vec::new();
    Histogram::default()
        .put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
    message
}

/// An exemplar of remote write 1 with one label.
fn exemplar_v1(name: &str, label: &str, value: f64, timestamp_ms: i64) -> Vec<u8> {
    let label = field(1, &[field(1, name.as_bytes()), field(2, label.as_bytes())].concat());
    field(3, &[label, double(2, value), number(3, timestamp_ms as u64)].concat())
}
