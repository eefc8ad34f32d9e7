//! Questions that are refused, and exemplars that are.

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, compress, headers};
use silverback_test_support::wire::{label, sample, series_v1};

use crate::exemplars::{data, exemplar_v1, exemplars_path, start_ms};

#[test]
fn questions_that_mean_nothing_are_refused_in_prometheus_shape() {
    let node = Node::start(1);
    let check = |path: &str, status, words: &str| {
        let answer = node.get(path);
        assert_eq!((answer.status, &answer.json()["status"]), (status, &"error".into()), "{path}");
        assert!(answer.text().contains(words), "{path}: {}", answer.text());
    };
    check("/api/v1/query_exemplars", 400, "no query parameter provided");
    check(&exemplars_path("up{"), 400, "parse error: unexpected end of input");
    check(&exemplars_path("{a=~\".*\"}"), 400, "at least one non-empty matcher");
    let backwards = "/api/v1/query_exemplars?query=up&start=2&end=1";
    check(backwards, 400, "end timestamp must not be before start timestamp");
    check("/api/v1/query_exemplars?query=up&start=x", 400, "start=x");
    check("/api/v1/metadata?limit=x", 400, "limit=x");
    check("/api/v1/metadata?limit_per_metric=-1", 400, "limit_per_metric=-1");
    assert_eq!(node.ask("DELETE", "/api/v1/query_exemplars", &[], b"").status, 405);
    assert_eq!(node.post("/api/v1/metadata", &[], b"").status, 405);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(data(&node.post("/api/v1/query_exemplars", &form, b"query=up")), serde_json::json!([]));
}

#[test]
fn exemplars_that_aren_t_kept_are_counted_by_reason_and_fail_nothing() {
    let (node, start) = (Node::start(2), start_ms());
    let hour = 3_600_000;
    let exemplars = [
        exemplar_v1("trace_id", &"x".repeat(121), 1.0, start),
        exemplar_v1("", "no name", 1.0, start),
        exemplar_v1("trace_id", "future", 1.0, start + 2 * hour),
        exemplar_v1("trace_id", "ancient", 1.0, start - 400 * 24 * hour),
        exemplar_v1("trace_id", &"x".repeat(120), 1.0, start),
        exemplar_v1("trace_id", "late", 1.0, start - hour - 1),
        exemplar_v1("trace_id", "just in time", 1.0, start - hour),
    ];
    let series = series_v1(&[label(b"__name__", b"up"), sample(start, 1.0), exemplars.concat()]);
    assert_eq!(node.post(PATH, &headers(Version::V1), &compress(&series)).status, 204);
    let of_expression = exemplars_path("sum(rate(up[5m])) / sum(rate(down[5m]))");
    for path in [exemplars_path("up"), of_expression] {
        assert_eq!(data(&node.get(&path))[0]["exemplars"].as_array().unwrap().len(), 2, "{path}");
    }
    let metrics = node.get("/metrics").text();
    for reason in ["labels_too_long", "bad_labels", "too_far_in_future", "too_old", "out_of_order"] {
        let metric = format!("silverback_exemplars_refused_total{{reason=\"{reason}\"}} 1\n");
        assert!(metrics.contains(&metric), "{metric}: {metrics}");
    }
}

#[test]
fn a_node_that_keeps_none_says_so_and_many_make_room_for_the_newest() {
    let start = start_ms();
    let send = |node: &Node, from: i64, count: i64| {
        let many = (from..from + count).map(|i| exemplar_v1("trace_id", &i.to_string(), 1.0, start + i));
        let series =
            [label(b"__name__", b"up"), sample(start + from, 1.0), many.collect::<Vec<_>>().concat()];
        assert_eq!(node.post(PATH, &headers(Version::V1), &compress(&series_v1(&series))).status, 204);
        data(&node.get(&exemplars_path("up")))
    };
    let none = Node::start_with(1, |config| config.max_exemplars = 0);
    assert_eq!(send(&none, 0, 3), serde_json::json!([]));
    assert!(
        none.get("/metrics").text().contains("silverback_exemplars_refused_total{reason=\"disabled\"} 3\n")
    );
    let few = Node::start_with(1, |config| config.max_exemplars = 10);
    send(&few, 0, 7);
    let kept = send(&few, 7, 8);
    let kept = kept[0]["exemplars"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["labels"]["trace_id"]), (10, &"5".into()));
    // More than one request may have: the rest of it is stored all the same.
    let many = send(&Node::start(1), 0, 17_000);
    assert_eq!(many[0]["exemplars"].as_array().unwrap().len(), 512);
}
