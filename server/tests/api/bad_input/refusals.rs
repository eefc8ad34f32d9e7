//! What an operator sees of refusals: who, which job, why, how many, and the first in the words that its
//! sender got.

use std::time::Duration;

use serde_json::{Value, json};
use silverback::api::ingest::remote_write::Version;
use silverback::config::OtlpDelta;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_test_support::http::Answer;

use crate::bad_input::bystander::now_ms;

fn write(node: &Node, series: &[Series]) -> Answer {
    node.post(PATH, &headers(Version::V1), &body(Version::V1, series))
}

fn refusals(node: &Node) -> Vec<Value> {
    let answer = node.get("/api/v1/status/refusals");
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let told = answer.json();
    assert_eq!(told["status"], "success");
    told["data"].as_array().unwrap().clone()
}

/// Of one kind: all but its times, which must be there.
fn kind(node: &Node, reason: &str) -> Value {
    let mut told = refusals(node).into_iter().find(|entry| entry["reason"] == reason).expect(reason);
    for time in [told["first"]["time"].take(), told["lastTime"].take()] {
        let time = time.as_str().unwrap();
        assert!(time.len() >= 20 && time.ends_with('Z'), "{time}");
    }
    told
}

fn expect(job: &str, reason: &str, unit: &str, count: u64, text: &str) -> Value {
    json!({
        "peer": "127.0.0.1", "job": job, "reason": reason, "unit": unit, "count": count,
        "first": {"time": null, "text": text}, "lastTime": null,
    })
}

#[test]
fn refused_samples_stand_under_their_sender_s_job_and_reason() {
    let node = Node::start(2);
    assert_eq!(refusals(&node), Vec::<Value>::new());
    let now = now_ms();
    let series = |job: &str, instance: &str| {
        Series::new([("__name__", "up"), ("instance", instance), ("job", job)]).sample(now, 1.0)
    };
    assert_eq!(write(&node, &[series("a", "1"), series("a", "2"), series("b", "1")]).status, 204);
    let late = |job, instance| Series::sample(series(job, instance), now - 3_600_001, 1.0);
    let answer = write(&node, &[late("a", "1"), late("a", "2"), late("b", "1")]);
    let told = answer.text();
    let first = told.trim_end().split_once("; first: ").unwrap().1;
    assert!(first.contains(" out of order sample: its time is ") && first.contains("newest of its series"));
    write(&node, &[late("a", "1")]);
    let entries = refusals(&node);
    let counts: Vec<_> = entries.iter().map(|entry| (entry["job"].clone(), entry["count"].clone())).collect();
    assert_eq!(counts.len(), 2, "{entries:?}");
    assert!(
        counts.contains(&(json!("a"), json!(3))) && counts.contains(&(json!("b"), json!(1))),
        "{counts:?}"
    );
    assert!(entries.iter().any(|entry| entry["first"]["text"] == first), "{entries:?} has not {first}");
}

#[test]
fn samples_in_seconds_are_told_so() {
    let node = Node::start(1);
    let seconds = Series::new([("__name__", "up"), ("job", "script")]).sample(now_ms() / 1000, 1.0);
    let told = write(&node, &[seconds]).text();
    assert!(told.contains("--retention goes back to"), "{told}");
    assert!(told.trim_end().ends_with("; these are seconds, not milliseconds"), "{told}");
    assert_eq!(kind(&node, "too_old")["job"], "script");
}

#[test]
fn a_series_that_the_decoder_refuses_is_told_with_the_limit() {
    let node = Node::start(1);
    let long = "x".repeat(9000);
    let series = Series::new([("__name__", "up"), ("job", "a"), ("note", &long)]).sample(now_ms(), 1.0);
    let told = write(&node, &[series]).text();
    assert!(told.contains("bytes at most, and a value 8192"), "{told}");
    assert_eq!(kind(&node, "label_too_long")["job"], "a");
}

#[test]
fn requests_that_are_refused_whole_are_told_too() {
    let node = Node::start(1);
    let answer = node.post(PATH, &headers(Version::V1), b"no snappy");
    let text = answer.text();
    assert_eq!(kind(&node, "snappy"), expect("", "snappy", "requests", 1, text.trim_end()));
    let answer = node.post("/v1/metrics", &[("content-type", "application/json")], b"{no json");
    assert_eq!(answer.status, 400);
    assert_eq!(kind(&node, "json")["unit"], "requests");
    let metrics = node.get("/metrics").text();
    let gauge = "silverback_recent_refusals{peer=\"127.0.0.1\",sender_job=\"\",reason=\"snappy\",unit=\"requests\"} 1";
    assert!(metrics.contains(gauge), "{metrics}");
}

/// Whoever may choose a label's values there would choose how many series the node makes.
#[test]
fn what_is_refused_makes_no_series_of_the_node_s_own() {
    let node = Node::start_with(1, |config| config.self_scrape_interval = Some(Duration::from_millis(100)));
    node.post(PATH, &headers(Version::V1), b"no snappy");
    let names = || node.get("/api/v1/label/__name__/values").text();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(1) || !names().contains("silverback_samples_refused_total") {
        assert!(began.elapsed() < Duration::from_secs(20), "its own metrics are stored");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!names().contains("silverback_recent_refusals"), "{}", names());
}

#[test]
fn data_points_of_otlp_stand_under_their_service() {
    let node = Node::start_with(1, |config| config.otlp_delta = OtlpDelta::Refuse);
    let delta = json!({"resourceMetrics": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeMetrics": [{"metrics": [{"name": "orders", "sum": {
            "aggregationTemporality": 1, "isMonotonic": true,
            "dataPoints": [{"asDouble": 1.0, "timeUnixNano": format!("{}000000", now_ms())}],
        }}]}],
    }]});
    let answer =
        node.post("/v1/metrics", &[("content-type", "application/json")], delta.to_string().as_bytes());
    assert_eq!(answer.status, 200);
    let words = "metric \"orders\": delta temporality is refused (--otlp-delta): use cumulative";
    let told = kind(&node, "delta_temporality");
    assert_eq!(told, expect("shop", "delta_temporality", "samples", 1, words));
}
