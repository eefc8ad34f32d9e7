//! What the status page asks of a node: its status, and its own past.

use std::num::NonZeroU64;
use std::time::Duration;

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_test_support::Waiting;

use serde_json::Value;

/// What an export of the node's own metrics has, as the page asks for it.
fn own_past(node: &Node, status: &Value) -> String {
    let (instance, now_s) =
        (&status["own_metrics"]["instance"], status["time_ms"].as_f64().unwrap() / 1000.0);
    let selector = format!(
        "{{__name__=~\"silverback_samples_total|process_resident_memory_bytes\",job=\"silverback\",\
         instance={instance}}}"
    );
    let encoded: String = selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
    node.get(&format!("/api/v1/export?match[]={encoded}&start={}&end={now_s:.3}", now_s - 60.0)).text()
}

#[test]
fn the_page_finds_the_node_s_past_in_the_metrics_that_it_stores_of_itself() {
    let node = Node::start_with(2, |config| config.self_scrape_interval = Some(Duration::from_millis(100)));
    let waiting = Waiting::begin();
    loop {
        let status = node.get("/api/v1/status/node").json();
        assert_eq!(status["own_metrics"]["interval_s"], 0.1);
        let past = own_past(&node, &status);
        let lines: Vec<Value> = past.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let has_two = |line: &Value| line["values"].as_array().unwrap().len() >= 2;
        // One of each shard, and the process' own.
        if lines.len() == 3 && lines.iter().all(has_two) {
            let shards: Vec<_> = lines.iter().filter_map(|line| line["metric"]["shard"].as_str()).collect();
            assert_eq!(shards, ["0", "1"]);
            return;
        }
        waiting.again(|| past);
    }
}

#[test]
fn a_node_that_stores_nothing_of_itself_says_so() {
    let node = Node::start(1);
    assert_eq!(node.get("/api/v1/status/node").json()["own_metrics"], Value::Null);
}

#[test]
fn the_disk_s_room_and_the_writes_are_told_by_the_status_and_by_metrics() {
    let node = Node::start(1);
    write(&node, &[series(&[("__name__", "up")], start_ms(), [1.0])]);
    let status = node.get("/api/v1/status/node").json();
    let disk = |name: &str| status["disk"][name].as_u64().unwrap();
    assert!(0 < disk("free_bytes") && disk("free_bytes") <= disk("size_bytes"), "{status}");
    assert_eq!(status["writes"]["requests_total"]["remote_write_1"], 1);
    let took = status["writes"]["took_total"].as_array().unwrap();
    assert_eq!(took.iter().filter_map(Value::as_u64).sum::<u64>(), 1);
    let metrics = node.get("/metrics").text();
    for name in ["silverback_disk_size_bytes ", "silverback_disk_free_bytes "] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{metrics}");
    }
}

#[test]
fn each_shard_s_part_of_the_series_limit_is_a_metric_where_there_is_one() {
    let limited = Node::start_with(2, |config| config.max_series = NonZeroU64::new(1000));
    let metrics = limited.get("/metrics").text();
    for shard in 0..2 {
        assert!(
            metrics.contains(&format!("silverback_series_limit{{shard=\"{shard}\"}} 500\n")),
            "{metrics}"
        );
    }
    let unlimited = Node::start(1).get("/metrics").text();
    assert!(!unlimited.contains("silverback_series_limit"), "{unlimited}");
}
