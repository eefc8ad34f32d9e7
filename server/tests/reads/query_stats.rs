//! What an answer tells of its making where `stats` is asked for: Prometheus' shape, and the same samples on any number
//! of shards.

use serde_json::{Value, json};
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{series, start_ms, write};

use crate::queries::ask;

/// Six series of 121 samples, a second apart.
fn filled(shards: usize, start: i64) -> Node {
    let node = Node::start(shards);
    let written = (0..6).map(|host| {
        let host = host.to_string();
        series(&[("__name__", "requests_total"), ("host", &host)], start, (0..=120).map(f64::from))
    });
    write(&node, &written.collect::<Vec<_>>());
    node
}

fn stats(node: &Node, path: &str, query: &str, more: &str) -> Value {
    let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (status, answer) = ask(node, &format!("/api/v1/{path}?query={query}&{more}"));
    assert_eq!(status, 200, "{answer}");
    answer["data"]["stats"].clone()
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn statistics_have_prometheus_shape_and_are_told_where_they_are_asked_for() {
    let start = start_ms();
    let node = filled(2, start);
    let at = |s: i64| (start + s * 1000) as f64 / 1000.0;
    let range = format!("start={}&end={}&step=10", at(0), at(120));
    for more in ["", "&stats="] {
        assert_eq!(stats(&node, "query_range", "requests_total", &format!("{range}{more}")), Value::Null);
    }
    for wanted in ["1", "true", "all"] {
        let stats =
            stats(&node, "query_range", "sum(rate(requests_total[1m]))", &format!("{range}&stats={wanted}"));
        assert_eq!(keys(&stats), ["samples", "timings"]);
        let times = [
            "evalTotalTime",
            "execQueueTime",
            "execTotalTime",
            "innerEvalTime",
            "queryPreparationTime",
            "resultSortTime",
        ];
        assert_eq!(keys(&stats["timings"]), times);
        let time = |name: &str| stats["timings"][name].as_f64().unwrap();
        assert!(times.iter().all(|name| time(name) >= 0.0) && time("innerEvalTime") > 0.0, "{stats}");
        let parts = time("queryPreparationTime") + time("innerEvalTime") + time("resultSortTime");
        assert!((time("evalTotalTime") - parts).abs() < 1e-9, "{stats}");
        assert!(
            (time("execTotalTime") - time("evalTotalTime") - time("execQueueTime")).abs() < 1e-9,
            "{stats}"
        );
        let mut samples = vec!["peakSamples", "totalQueryableSamples"];
        if wanted == "all" {
            samples.push("totalQueryableSamplesPerStep");
        }
        assert_eq!(keys(&stats["samples"]), samples, "{wanted}");
        assert!(stats["samples"]["peakSamples"].as_u64().unwrap() > 0, "{stats}");
    }
}

#[test]
fn the_samples_of_each_step_are_counted_as_prometheus_counts_them_on_any_number_of_shards() {
    let start = start_ms();
    let nodes = [filled(1, start), filled(3, start)];
    let at = |s: i64| (start + s * 1000) as f64 / 1000.0;
    let check = |query: &str, path: &str, times: &str, total: u64, steps: &[(f64, u64)]| {
        for (node, shards) in nodes.iter().zip([1, 3]) {
            let samples = stats(node, path, query, &format!("{times}&stats=all"))["samples"].clone();
            assert_eq!(samples["totalQueryableSamples"], json!(total), "{query} on {shards}: {samples}");
            let told = &samples["totalQueryableSamplesPerStep"];
            let told: Vec<_> = told
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (pair[0].as_f64().unwrap(), pair[1].as_u64().unwrap()))
                .collect();
            assert_eq!(told, steps, "{query} on {shards}");
        }
    };
    let instant = format!("time={}", at(120));
    let once = |query: &str, total| check(query, "query", &instant, total, &[(at(120), total)]);
    once("requests_total", 6);
    once("sum(requests_total)", 6);
    once("requests_total[30s]", 180);
    once("rate(requests_total[1m])", 360);
    once("sum(rate(requests_total[1m]))", 360);
    once("requests_total + requests_total", 12);
    once(&format!("sum(requests_total) / count(requests_total @ {})", at(60)), 12);
    // A subquery's own values count where a range has them: three of each series.
    once("max_over_time(requests_total[30s:10s])", 18);
    once("1 + 1", 0);
    let range = format!("start={}&end={}&step=60", at(0), at(120));
    let at_steps = |query: &str, [a, b, c]: [u64; 3]| {
        check(query, "query_range", &range, a + b + c, &[(at(0), a), (at(60), b), (at(120), c)]);
    };
    at_steps("requests_total", [6, 6, 6]);
    at_steps("sum(rate(requests_total[1m]))", [6, 360, 360]);
    at_steps("topk(1, sum_over_time(requests_total[10s]))", [6, 60, 60]);
    // What is the same at each step counts at each.
    at_steps(&format!("requests_total @ {}", at(60)), [6, 6, 6]);
    at_steps(&format!("sum(rate(requests_total[1m] @ {}))", at(60)), [360, 360, 360]);
}
