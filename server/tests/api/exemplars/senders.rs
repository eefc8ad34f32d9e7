//! What each protocol brings in.

use serde_json::json;
use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, compress, headers};
use silverback_test_support::wire::{field, label, number, refs, sample, series_v1, series_v2, symbols};

use crate::exemplars::{data, double, exemplar, exemplar_v1, exemplars_path, histogram, series, start_ms};

fn post(node: &Node, version: Version, body: &[u8]) -> silverback_test_support::http::Answer {
    let answer = node.post(PATH, &headers(version), &compress(body));
    assert_eq!(answer.status, 204, "{}", answer.text());
    answer
}

fn exemplars(node: &Node, query: &str) -> serde_json::Value {
    data(&node.get(&exemplars_path(query)))
}

fn metadata(node: &Node, parameters: &str) -> serde_json::Value {
    data(&node.get(&format!("/api/v1/metadata{parameters}")))
}

#[test]
fn remote_write_1_brings_exemplars_with_samples_and_alone_and_metadata_of_families() {
    let (node, start) = (Node::start(3), start_ms());
    let labels = [label(b"__name__", b"latency_bucket"), label(b"le", b"1")].concat();
    let with = series_v1(&[
        labels.clone(),
        sample(start, 1.0),
        exemplar_v1("trace_id", "a", 0.5, start),
        exemplar_v1("trace_id", "b", 0.25, start + 1500),
    ]);
    let said = |name: &str, kind, help: &str| {
        let texts = [field(2, name.as_bytes()), field(4, help.as_bytes()), field(5, b"seconds")].concat();
        field(3, &[number(1, kind), texts].concat())
    };
    let families =
        [said("latency", 3, "How \"long\"."), said("up", 2, ""), said("up", 1, "Otherwise.")].concat();
    post(&node, Version::V1, &[families, with].concat());
    // As Prometheus sends them: a series of its own, which may come late and again.
    let late = exemplar_v1("trace_id", "c", 0.75, start - 60_000);
    let alone = series_v1(&[labels, late]);
    post(&node, Version::V1, &[alone.clone(), alone].concat());
    let expect = series(
        json!({"__name__": "latency_bucket", "le": "1"}),
        &[
            exemplar(json!({"trace_id": "c"}), "0.75", start - 60_000),
            exemplar(json!({"trace_id": "a"}), "0.5", start),
            exemplar(json!({"trace_id": "b"}), "0.25", start + 1500),
        ],
    );
    assert_eq!(exemplars(&node, "latency_bucket"), json!([expect]));
    assert_eq!(exemplars(&node, "{le=\"2\"}"), json!([]));
    let up = json!([
        {"type": "gauge", "unit": "seconds", "help": ""}, {"type": "counter", "unit": "seconds", "help": "Otherwise."},
    ]);
    let latency = json!([{"type": "histogram", "unit": "seconds", "help": "How \"long\"."}]);
    assert_eq!(metadata(&node, ""), json!({"latency": latency, "up": up}));
    assert_eq!(metadata(&node, "?metric=latency"), json!({"latency": latency}));
    assert_eq!(metadata(&node, "?metric=other"), json!({}));
    assert_eq!(metadata(&node, "?limit=1&limit_per_metric=1"), json!({"latency": latency}));
    assert_eq!(metadata(&node, "?limit=0"), json!({}));
    assert_eq!(metadata(&node, "?limit_per_metric=1")["up"].as_array().unwrap().len(), 1);
}

#[test]
fn remote_write_2_is_told_how_many_exemplars_are_kept_and_brings_metadata_with_its_series() {
    let (node, start) = (Node::start(2), start_ms());
    let table = symbols(&[
        b"",
        b"__name__",
        b"requests_total",
        b"trace_id",
        b"a",
        b"Requests.",
        b"1",
        b"latency",
        b"span_id",
    ]);
    let exemplar_of = |references: &[u64], value, at: i64| {
        field(4, &[refs(references), double(2, value), number(3, at as u64)].concat())
    };
    let said = field(5, &[number(1, 1), number(3, 5), number(4, 6)].concat());
    let with = series_v2(&[
        refs(&[1, 2]),
        sample(start, 1.0),
        exemplar_of(&[8, 6, 3, 4], f64::NAN, start),
        exemplar_of(&[], 2.0, start + 1),
        said.clone(),
    ]);
    // Labels in no order, and only exemplars: of a series that is known, and of one that isn't.
    let alone = series_v2(&[refs(&[1, 2]), exemplar_of(&[3, 4], 3.0, start + 2), said]);
    let unknown = series_v2(&[refs(&[1, 7]), exemplar_of(&[3, 4], 3.0, start + 2)]);
    let unknown = compress(&[table.clone(), unknown].concat());
    let bad = exemplar_of(&[3, 99], 3.0, start);
    let bad = series_v2(&[refs(&[1, 2]), sample(start + 1, 1.0), bad, exemplar_of(&[3], 1.0, start)]);
    let body = compress(&[table.clone(), with.clone(), alone, bad].concat());
    let answer = node.post(PATH, &headers(Version::V2), &body);
    let told = |answer: &silverback_test_support::http::Answer| {
        ["samples", "histograms", "exemplars"]
            .map(|what| answer.header(&format!("x-prometheus-remote-write-{what}-written")).to_owned())
    };
    assert_eq!((answer.status, told(&answer)), (400, ["2", "0", "3"].map(str::to_owned)));
    assert!(answer.text().starts_with("2 of 5 exemplars refused, the first one as bad_labels"));
    // And never where they come otherwise.
    let answer = node.post(PATH, &headers(Version::V2), &unknown);
    assert_eq!((answer.status, told(&answer)), (400, ["0", "0", "0"].map(str::to_owned)));
    assert!(answer.text().starts_with("1 of 1 exemplars refused, the first one as unknown_series"));
    // A retry is accepted, and counts.
    assert_eq!(told(&post(&node, Version::V2, &[table, with].concat())), ["1", "0", "2"]);
    let expect = series(
        json!({"__name__": "requests_total"}),
        &[
            exemplar(json!({"span_id": "1", "trace_id": "a"}), "NaN", start),
            exemplar(json!({}), "2", start + 1),
            exemplar(json!({"trace_id": "a"}), "3", start + 2),
        ],
    );
    assert_eq!(exemplars(&node, "requests_total"), json!([expect]));
    let within = format!("{}&start={}&end={}", exemplars_path("requests_total"), start / 1000, start / 1000);
    assert_eq!(data(&node.get(&within))[0]["exemplars"].as_array().unwrap().len(), 1);
    let said = json!([{"type": "counter", "unit": "1", "help": "Requests."}]);
    assert_eq!(metadata(&node, ""), json!({"requests_total": said}));
    let metrics = node.get("/metrics").text();
    for refused in ["unknown_series\"} 1\n", "bad_labels\"} 2\n"] {
        let metric = format!("silverback_exemplars_refused_total{{reason=\"{refused}");
        assert!(metrics.contains(&metric), "{metric}: {metrics}");
    }
}

#[test]
fn otlp_brings_exemplars_as_prometheus_receiver_has_them_and_descriptions() {
    let (node, start) = (Node::start(2), start_ms());
    let nanos = |ms: i64| format!("{ms}000000");
    let one = |value: f64, trace: &str, attributes: serde_json::Value| {
        json!({"asDouble": value, "timeUnixNano": nanos(start + 5), "traceId": trace, "spanId": "0102030405060708",
            "filteredAttributes": attributes})
    };
    let trace = "5b8efff798038103d269b633813fc60c";
    let user = json!([{"key": "user", "value": {"stringValue": "u"}}]);
    let long = json!([{"key": "user", "value": {"stringValue": "u".repeat(128)}}]);
    let histogram = json!({"count": "6", "sum": 2.5, "bucketCounts": ["1", "2", "3"], "explicitBounds": [0.5, 10],
        "timeUnixNano": nanos(start), "exemplars": [one(99.0, trace, user.clone()), one(0.5, trace, long)]});
    let without_time = json!({"asInt": "7", "traceId": trace});
    let sum = json!({"asInt": "42", "timeUnixNano": nanos(start), "exemplars": [without_time]});
    let gauge = json!({"asInt": "1", "timeUnixNano": nanos(start), "exemplars": [one(1.0, trace, user)]});
    let metrics = json!([
        {"name": "http.duration", "unit": "s", "description": "How long.",
         "histogram": {"aggregationTemporality": 2, "dataPoints": [histogram]}},
        {"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [sum]}},
        {"name": "load", "description": "Load.", "gauge": {"dataPoints": [gauge]}},
    ]);
    let request = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string();
    let answer = node.post("/v1/metrics", &[("content-type", "application/json")], request.as_bytes());
    assert_eq!((answer.status, answer.text()), (200, "{}".to_owned()));
    let bucket = |le: &str| json!({"__name__": "http_duration_seconds_bucket", "le": le});
    let (span, ids) = ("0102030405060708", json!({"trace_id": trace}));
    let expect = json!([
        series(json!({"__name__": "hits_total"}), &[exemplar(ids, "7", start)]),
        series(
            bucket("+Inf"),
            &[exemplar(json!({"span_id": span, "trace_id": trace, "user": "u"}), "99", start + 5)]
        ),
        series(bucket("0.5"), &[exemplar(json!({"span_id": span, "trace_id": trace}), "0.5", start + 5)]),
    ]);
    assert_eq!(exemplars(&node, "{__name__=~\".+\"}"), expect);
    let expect = json!({
        "hits_total": [{"type": "counter", "unit": "", "help": ""}],
        "http_duration_seconds": [{"type": "histogram", "unit": "seconds", "help": "How long."}],
        "load": [{"type": "gauge", "unit": "", "help": "Load."}],
    });
    assert_eq!(metadata(&node, ""), expect);
}

#[test]
fn lines_bring_exemplars_behind_their_samples_and_metadata_in_comments() {
    let (node, start) = (Node::start(2), start_ms());
    let lines = format!(
        "# HELP a_seconds Said \\\"so\\\".\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
         a_seconds_total{{job=\"x\"}} 3 {start} # {{trace_id=\"t\",odd=\"q\\\"\"}} 0.5 {}.25\n\
         a_seconds_total{{job=\"y\"}} 3 {start} # {{}} 1e-9\nb 1 {start} # {{broken 1\n# TYPE b gauge\n# EOF\n",
        start / 1000 + 7,
    );
    let answer = node.post("/api/v1/import/prometheus", &[], lines.as_bytes());
    assert_eq!(answer.status, 204, "{}", answer.text());
    let of = |job: &str| json!({"__name__": "a_seconds_total", "job": job});
    let expect = json!([
        series(of("x"), &[exemplar(json!({"odd": "q\"", "trace_id": "t"}), "0.5", start + 7250)]),
        series(of("y"), &[exemplar(json!({}), "1e-09", start)]),
    ]);
    assert_eq!(exemplars(&node, "a_seconds_total"), expect);
    let a = json!([{"type": "counter", "unit": "seconds", "help": "Said \"so\"."}]);
    assert_eq!(
        metadata(&node, ""),
        json!({"a_seconds": a, "b": [{"type": "gauge", "unit": "", "help": ""}]})
    );
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_exemplars_refused_total{reason=\"malformed\"} 1\n"), "{metrics}");
}

#[test]
fn a_series_of_native_histograms_has_exemplars_by_each_protocol_that_has_both() {
    let (node, start) = (Node::start(3), start_ms());
    let traced = exemplar_v1("trace_id", "a", 0.5, start);
    let both = series_v1(&[label(b"__name__", b"one"), field(4, &histogram(start)), traced]);
    post(&node, Version::V1, &both);
    // First of a series that isn't known, then of one that is.
    let table = symbols(&[b"", b"__name__", b"two", b"trace_id", b"a"]);
    for (at, expect) in [(start, ["0", "1", "1"]), (start + 1, ["0", "1", "1"])] {
        let traced = field(4, &[refs(&[3, 4]), double(2, 0.5), number(3, at as u64)].concat());
        let both = series_v2(&[refs(&[1, 2]), field(3, &histogram(at)), traced]);
        let answer = post(&node, Version::V2, &[table.clone(), both].concat());
        let told = ["samples", "histograms", "exemplars"]
            .map(|what| answer.header(&format!("x-prometheus-remote-write-{what}-written")).to_owned());
        assert_eq!(told, expect);
    }
    let point = json!({
        "timeUnixNano": format!("{start}000000"), "scale": 1, "count": "0", "zeroCount": "0",
        "exemplars": [{"timeUnixNano": format!("{start}000000"), "asDouble": 0.5, "traceId": "0a".repeat(16)}],
    });
    let metric = json!({"name": "three", "exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [point]}});
    let request = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).to_string();
    let json = [("content-type", "application/json")];
    assert_eq!(node.post("/v1/metrics", &json, request.as_bytes()).status, 200);

    let of = |name: &str, trace: &str, times: &[i64]| {
        let all: Vec<_> = times.iter().map(|at| exemplar(json!({"trace_id": trace}), "0.5", *at)).collect();
        json!([series(json!({"__name__": name}), &all)])
    };
    assert_eq!(exemplars(&node, "one"), of("one", "a", &[start]));
    assert_eq!(exemplars(&node, "two"), of("two", "a", &[start, start + 1]));
    assert_eq!(exemplars(&node, "three"), of("three", &"0a".repeat(16), &[start]));
    assert_eq!(metadata(&node, "?metric=three")["three"][0]["type"], "histogram");
}

#[test]
fn more_metadata_than_a_page_or_an_answer_in_memory_has_is_answered_whole() {
    let node = Node::start(2);
    let help = "x".repeat(4000);
    let name = |number: usize| format!("metric_{number:05}");
    let said = |number: usize| {
        field(3, &[vec![0x08, 2], field(2, name(number).as_bytes()), field(4, help.as_bytes())].concat())
    };
    for first in (0..5000).step_by(500) {
        let body: Vec<_> = (first..first + 500).flat_map(said).collect();
        post(&node, Version::V1, &body);
    }
    let all = metadata(&node, "");
    let all = all.as_object().unwrap();
    assert_eq!(all.len(), 5000);
    let expect = json!([{"type": "gauge", "unit": "", "help": help}]);
    assert!((0..5000).all(|number| all[&name(number)] == expect));
    assert_eq!(metadata(&node, "?limit=3000").as_object().unwrap().len(), 3000);
}
