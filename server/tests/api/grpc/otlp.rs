//! OTLP metrics over gRPC and HTTP: what becomes of each kind of metric, and what senders are told.

use std::io::Write;

use prost::Message;
use serde_json::{Value, json};
use silverback::config::{Config, OtlpDelta, OtlpHistograms};
use silverback_node_test_support::Node;
use silverback_node_test_support::written::start_ms;
use silverback_proto::otlp::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use silverback_proto::otlp::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use silverback_test_support::http::Answer;
use tonic::Code;

use crate::grpc::channel::{Channel, origin};

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json");
const PATH: &str = "/v1/metrics";

fn attributes(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
}

/// A request of one service with these metrics.
fn request(metrics: Value) -> Value {
    let resource = attributes(&[
        ("service.namespace", "eu"),
        ("service.name", "shop"),
        ("service.instance.id", "i-1"),
        ("host.name", "h1"),
    ]);
    json!({"resourceMetrics": [{
        "resource": {"attributes": resource},
        "scopeMetrics": [{"scope": {"name": "lib"}, "metrics": metrics}],
        "aFieldOfTomorrow": {"x": 1},
    }]})
}

fn nanos(ms: i64) -> String {
    format!("{ms}000000")
}

/// One metric of each kind that is stored.
fn of_all_kinds(ms: i64) -> Value {
    let gauge =
        json!({"asDouble": 0.5, "timeUnixNano": nanos(ms), "attributes": attributes(&[("cpu.id", "0")])});
    let sum = json!({"asInt": "42", "timeUnixNano": nanos(ms), "startTimeUnixNano": nanos(ms - 1000)});
    let histogram = json!({
        "count": "6", "sum": 2.5, "bucketCounts": ["1", "2", "3"], "explicitBounds": [0.5, 10],
        "timeUnixNano": nanos(ms), "exemplars": [{"asDouble": 1.0, "traceId": "5b8efff798038103d269b633813fc60c"}],
    });
    let summary = json!({
        "count": "4", "sum": 9.5, "quantileValues": [{"quantile": 0.99, "value": 7}], "timeUnixNano": nanos(ms),
    });
    let stale = json!({"flags": 1, "timeUnixNano": nanos(ms)});
    json!([
        {"name": "cpu.load", "unit": "1", "gauge": {"dataPoints": [gauge]}},
        {"name": "requests", "sum": {
            "dataPoints": [sum.clone()], "aggregationTemporality": 2, "isMonotonic": true,
        }},
        {"name": "queue.length", "sum": {
            "dataPoints": [sum], "aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE",
        }},
        {"name": "latency", "unit": "s", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 2}},
        {"name": "rtt", "unit": "ms", "summary": {"dataPoints": [summary]}},
        {"name": "gone", "gauge": {"dataPoints": [stale]}},
    ])
}

/// What is stored of [`of_all_kinds`], as lines of name, own labels and value.
const STORED: [&str; 13] = [
    "cpu_load_ratio{cpu_id=0} 0.5",
    "gone{} \"StaleNaN\"",
    "latency_seconds_bucket{le=+Inf} 6",
    "latency_seconds_bucket{le=0.5} 1",
    "latency_seconds_bucket{le=10} 3",
    "latency_seconds_count{} 6",
    "latency_seconds_sum{} 2.5",
    "queue_length{} 42",
    "requests_total{} 42",
    "rtt_milliseconds_count{} 4",
    "rtt_milliseconds_sum{} 9.5",
    "rtt_milliseconds{quantile=0.99} 7",
    "target_info{host_name=h1} 1",
];

/// All series of the service, each with its newest sample at `ms`.
fn stored(node: &Node, ms: i64) -> Vec<String> {
    let lines = node.get("/api/v1/export?match[]=%7Bjob=%22eu/shop%22,instance=%22i-1%22%7D").text();
    let mut stored: Vec<_> = lines
        .lines()
        .map(|line| {
            let series: Value = serde_json::from_str(line).unwrap();
            let labels = series["metric"].as_object().unwrap();
            let own =
                labels.iter().filter(|(name, _)| !["__name__", "job", "instance"].contains(&name.as_str()));
            let own: Vec<_> =
                own.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect();
            assert_eq!(series["timestamps"].as_array().unwrap().last().unwrap(), ms);
            let value = series["values"].as_array().unwrap().last().unwrap();
            format!("{}{{{}}} {value}", labels["__name__"].as_str().unwrap(), own.join(","))
        })
        .collect();
    stored.sort();
    stored
}

fn sorted(lines: &[&str]) -> Vec<String> {
    let mut lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
    lines.sort();
    lines
}

fn protobuf(request: &Value) -> ExportMetricsServiceRequest {
    serde_json::from_value(request.clone()).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn post_json(node: &Node, request: &Value) -> Answer {
    node.post(PATH, &[JSON], request.to_string().as_bytes())
}

fn response(answer: &Answer) -> Option<ExportMetricsPartialSuccess> {
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/x-protobuf"));
    ExportMetricsServiceResponse::decode(&answer.body[..]).unwrap().partial_success
}

#[test]
fn json_is_stored_as_prometheus_names_it() {
    let (node, ms) = (Node::start(3), start_ms());
    let answer = post_json(&node, &request(of_all_kinds(ms)));
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "application/json"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json(), json!({}));
    assert_eq!(stored(&node, ms), sorted(&STORED));
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_write_requests_total{protocol=\"otlp\"} 1\n"), "{metrics}");
    let exemplars: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("silverback_exemplars_appended_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(exemplars, 1, "{metrics}");
    let starts =
        metrics.lines().filter(|line| line.starts_with("silverback_start_timestamps_appended_total{"));
    let starts = starts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(starts.sum::<u64>(), 2, "of two sums: {metrics}");
}

#[test]
fn protobuf_is_stored_compressed_and_not_under_both_paths() {
    let (node, ms) = (Node::start(2), start_ms());
    let bytes = protobuf(&request(of_all_kinds(ms))).encode_to_vec();
    assert_eq!(response(&node.post("/api/v1/otlp/v1/metrics", &[PROTOBUF], &bytes)), None);
    assert_eq!(stored(&node, ms), sorted(&STORED));
    let again = node.post(PATH, &[PROTOBUF, ("content-encoding", "gzip")], &gzip(&bytes));
    assert_eq!(response(&again), None, "what is stored already is accepted");
    let (mut first, mut second) = bytes.split_at(bytes.len() / 2);
    let members = [gzip(std::mem::take(&mut first)), gzip(std::mem::take(&mut second))].concat();
    assert_eq!(response(&node.post(PATH, &[PROTOBUF, ("content-encoding", "gzip")], &members)), None);
}

#[test]
fn histograms_with_explicit_bounds_are_native_ones_where_that_is_asked_for() {
    let node = Node::start_with(2, |config| config.otlp_histograms = OtlpHistograms::Custom);
    let ms = start_ms();
    let of = |temporality: u8, count: u8| {
        let point = json!({
            "count": count.to_string(), "sum": 2.5, "bucketCounts": ["0", "2", "3"], "explicitBounds": [0.5, 10],
            "timeUnixNano": nanos(ms), "exemplars": [{"asDouble": 1.0, "traceId": "5b8efff798038103d269b633813fc60c"}],
        });
        let data = json!({"dataPoints": [point], "aggregationTemporality": temporality});
        let request = request(json!([{"name": "latency", "unit": "s", "histogram": data}]));
        node.post(PATH, &[PROTOBUF], &protobuf(&request).encode_to_vec())
    };
    assert_eq!(response(&of(2, 5)), None);
    let export = || node.get("/api/v1/export?match[]=%7B__name__=~%22latency.*%22%7D").text();
    let stored: Value = serde_json::from_str(&export()).expect("one series");
    let expect = json!([[ms, {"count": "5", "sum": "2.5", "buckets": [[0, "0.5", "10", "2"], [0, "10", "+Inf", "3"]]}]]);
    assert_eq!((&stored["metric"]["__name__"], &stored["histograms"]), (&json!("latency_seconds"), &expect));
    let exemplars = node.get("/api/v1/query_exemplars?query=latency_seconds").text();
    assert!(exemplars.contains("trace_id"), "{exemplars}");
    let told = [of(2, 6), of(1, 5)].map(|answer| response(&answer).expect("it is refused").error_message);
    assert!(told[0].contains("count") && told[1].contains("delta"), "{told:?}");
    assert_eq!(export().lines().count(), 1);
}

fn refuse_deltas(config: &mut Config) {
    config.otlp_delta = OtlpDelta::Refuse;
}

/// What came since the last report, at one time: a counter and a histogram.
fn deltas(ms: i64, orders: f64, buckets: [u64; 2]) -> Vec<u8> {
    let sum = json!({"asDouble": orders, "timeUnixNano": nanos(ms)});
    let histogram = json!({
        "count": (buckets[0] + buckets[1]).to_string(), "sum": 0.5, "timeUnixNano": nanos(ms),
        "bucketCounts": buckets.map(|count| count.to_string()), "explicitBounds": [1],
    });
    let metrics = json!([
        {"name": "orders", "sum": {"dataPoints": [sum], "aggregationTemporality": 1, "isMonotonic": true}},
        {"name": "took", "histogram": {"dataPoints": [histogram], "aggregationTemporality": 1}},
    ]);
    protobuf(&request(metrics)).encode_to_vec()
}

#[test]
fn delta_temporality_is_added_up_and_what_is_sent_again_is_added_once() {
    let (node, ms) = (Node::start(2), start_ms());
    let send = |body: &[u8]| response(&node.post(PATH, &[PROTOBUF], body));
    let requests = [deltas(ms, 3.0, [1, 0]), deltas(ms + 1000, 4.0, [2, 5]), deltas(ms + 2000, 0.5, [0, 1])];
    for request in &requests {
        assert_eq!(send(request), None);
        assert_eq!(send(request), None, "the same again");
    }
    assert_eq!(send(&requests[0]), None, "older than the newest, and stored");
    let stored = |selector: &str| {
        let answer = node.get(&format!("/api/v1/export?match[]={selector}"));
        let line = answer.json();
        (line["timestamps"].clone(), line["values"].clone())
    };
    let times = json!([ms, ms + 1000, ms + 2000]);
    assert_eq!(stored("orders_total"), (times.clone(), json!([3, 7, 7.5])));
    assert_eq!(stored("took_count"), (times.clone(), json!([1, 8, 9])));
    assert_eq!(stored("took_sum"), (times.clone(), json!([0.5, 1, 1.5])));
    assert_eq!(stored("took_bucket%7Ble=%221%22%7D"), (times.clone(), json!([1, 3, 3])));
    assert_eq!(stored("took_bucket%7Ble=%22%2BInf%22%7D"), (times, json!([1, 8, 9])));
    let late = send(&deltas(ms + 500, 1.0, [0, 0])).unwrap();
    assert!(late.error_message.contains("out of order"), "{}", late.error_message);
}

#[tokio::test]
async fn grpc_stores_the_same() {
    let (node, ms) = (Node::start_with(2, refuse_deltas), start_ms());
    let mut client =
        MetricsServiceClient::with_origin(Channel::open(node.address).await, origin(node.address))
            .send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let answer = client.export(protobuf(&request(of_all_kinds(ms)))).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);
    assert_eq!(stored(&node, ms), sorted(&STORED));

    let delta = json!([{"name": "d", "sum": {
        "aggregationTemporality": 1, "dataPoints": [{"asInt": "1", "timeUnixNano": nanos(ms)}],
    }}]);
    let partial =
        client.export(protobuf(&request(delta))).await.unwrap().into_inner().partial_success.unwrap();
    assert_eq!(partial.rejected_data_points, 1);
    assert!(partial.error_message.contains("use cumulative"), "{}", partial.error_message);
}

#[tokio::test]
async fn a_malformed_message_is_told_so() {
    let node = Node::start(1);
    let mut broken = protobuf(&request(of_all_kinds(start_ms()))).encode_to_vec();
    broken.truncate(broken.len() - 3);
    let answer = node.post(PATH, &[PROTOBUF], &broken);
    assert_eq!((answer.status, answer.header("content-type")), (400, "application/x-protobuf"));
    // `code = INVALID_ARGUMENT`
    assert_eq!(answer.body[..2], [8, 3]);
    assert!(String::from_utf8_lossy(&answer.body).contains("malformed request at byte"));
    assert_eq!(stored(&node, 0), [""; 0]);
}

#[test]
fn json_that_means_nothing_is_told_so_in_json() {
    let node = Node::start(1);
    let check = |body: &str, words: &str| {
        let answer = node.post(PATH, &[JSON], body.as_bytes());
        assert_eq!((answer.status, answer.header("content-type")), (400, "application/json"));
        let status = answer.json();
        assert_eq!(status["code"], 3);
        assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    };
    check("{", "EOF");
    check("[]", "invalid type");
    check(r#"{"resourceMetrics": [{"scopeMetrics": 7}]}"#, "invalid type");
    // Whatever its size would ask for.
    for depth in [128, 1000, 100_000] {
        check(&r#"{"a":"#.repeat(depth), "nested deeper than 127 objects and lists");
    }
}

#[test]
fn another_kind_of_request_is_refused() {
    let node = Node::start_with(1, |config| config.max_decoded_bytes = 100_000);
    let check = |answer: Answer, status: u16| assert_eq!(answer.status, status);
    check(node.get(PATH), 405);
    check(node.post(PATH, &[("content-type", "text/plain")], b""), 415);
    check(node.post(PATH, &[PROTOBUF, ("content-encoding", "zstd")], b""), 415);
    check(node.post(PATH, &[PROTOBUF, ("content-encoding", "gzip")], b"no gzip"), 400);
    let bomb = gzip(&vec![0; 1 << 20]);
    check(node.post(PATH, &[PROTOBUF, ("content-encoding", "gzip")], &bomb), 413);
    check(node.post(PATH, &[JSON], &vec![b' '; (1 << 20) + 1]), 413);
    assert_eq!(node.get("/-/healthy").status, 200);
}

#[test]
fn what_is_refused_is_counted_by_data_points_and_the_rest_is_stored() {
    let (node, ms) = (Node::start_with(3, refuse_deltas), start_ms());
    let point = json!({"asDouble": 1.0, "timeUnixNano": nanos(ms)});
    let old =
        json!({"count": "2", "bucketCounts": ["1", "1"], "explicitBounds": [1], "timeUnixNano": "1000000"});
    let metrics = json!([
        {"name": "good", "gauge": {"dataPoints": [point]}},
        {"name": "delta", "sum": {"dataPoints": [point, point], "aggregationTemporality": 1}},
        {"name": "exp", "exponentialHistogram": {"dataPoints": [{"count": "1"}], "aggregationTemporality": 2}},
        {"name": "empty", "gauge": {"dataPoints": [{"timeUnixNano": nanos(ms)}]}},
        {"name": "old", "histogram": {"dataPoints": [old], "aggregationTemporality": 2}},
        {"name": "...", "gauge": {"dataPoints": [point]}},
    ]);
    let answer = post_json(&node, &request(metrics)).json();
    let partial = &answer["partialSuccess"];
    assert_eq!(partial["rejectedDataPoints"], "6", "{answer}");
    let words = partial["errorMessage"].as_str().unwrap();
    for expect in [
        "6 of 7 data points refused",
        "delta temporality is refused (--otlp-delta): use cumulative (2)",
        "native histogram's counts are negative or don't add up (1)",
        "sample is older than the retention (1)",
        "metric \"delta\"",
    ] {
        assert!(words.contains(expect), "{words}");
    }
    assert_eq!(stored(&node, ms), ["good{} 1", "target_info{host_name=h1} 1"]);
    let metrics = node.get("/metrics").text();
    assert!(
        metrics.contains("silverback_samples_refused_total{reason=\"delta_temporality\"} 2\n"),
        "{metrics}"
    );
}

#[test]
fn a_long_request_leaves_others_their_turn_and_is_stored_whole() {
    let (node, ms) = (Node::start(2), start_ms());
    let point = |i: i32| {
        let attributes = attributes(&[("i", &i.to_string()), ("zone", "a")]);
        json!({"asInt": i.to_string(), "timeUnixNano": nanos(ms), "attributes": attributes})
    };
    let points: Vec<_> = (0..20_000).map(point).collect();
    let bytes =
        protobuf(&request(json!([{"name": "many", "gauge": {"dataPoints": points}}]))).encode_to_vec();
    assert_eq!(response(&node.post(PATH, &[PROTOBUF], &bytes)), None);
    let values = node.get("/api/v1/label/i/values").json();
    assert_eq!(values["data"].as_array().unwrap().len(), 20_000);
}

#[test]
fn label_sets_that_are_written_out_far_beyond_their_bytes_are_bounded() {
    let (node, ms) = (Node::start(1), start_ms());
    let long = attributes(&[("a", &"x".repeat(8000))]);
    let bounds: Vec<_> = (0..40_000).collect();
    let counts: Vec<_> = (0..40_001).map(|_| "1").collect();
    let point = json!({
        "count": "40001", "bucketCounts": counts, "explicitBounds": bounds, "attributes": long,
        "timeUnixNano": nanos(ms),
    });
    let metrics = json!([{"name": "h", "histogram": {"dataPoints": [point], "aggregationTemporality": 2}}]);
    let bytes = protobuf(&request(metrics)).encode_to_vec();
    let answer = node.post(PATH, &[PROTOBUF], &bytes);
    assert!([400, 413].contains(&answer.status), "{}", answer.status);
    assert_eq!(node.get("/-/healthy").status, 200);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_told_so() {
    let node = Node::start(1);
    let mut client =
        MetricsServiceClient::with_origin(Channel::open(node.address).await, origin(node.address))
            .max_encoding_message_size(8 << 20);
    let long = "x".repeat(5 << 20);
    let request = request(json!([{"name": long, "gauge": {"dataPoints": [{"asInt": "1"}]}}]));
    let status = client.export(protobuf(&request)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}
