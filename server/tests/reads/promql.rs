//! PromQL over HTTP: over shards, in Prometheus' shapes and words, and as Grafana asks.

use prost::Message;
use serde_json::{Value, json};
use silverback_node_test_support::written::{compress, series, start_ms, write};
use silverback_node_test_support::{Node, OUT_OF_REACH};
use silverback_proto::prometheus::histogram::{Count, ZeroCount};
use silverback_proto::prometheus::{Histogram, Label, TimeSeries, WriteRequest};

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

/// Counters of two jobs on three hosts: 121 samples, a second apart, that grow by 1, 2 and 3 a second.
fn with_counters(shards: usize, start_ms: i64) -> Node {
    let node = Node::start(shards);
    let mut written = Vec::new();
    for (factor, host) in [(1.0, "a"), (2.0, "b"), (3.0, "c")] {
        let values = || (0..=120).map(move |i| f64::from(i) * factor);
        for job in ["api", "web"] {
            let labels = [("__name__", "requests_total"), ("host", host), ("job", job)];
            written.push(series(&labels, start_ms, values()));
        }
    }
    write(&node, &written);
    node
}

/// What a form is answered with: the status, and the JSON.
fn ask(node: &Node, path: &str, form: &str) -> (u16, Value) {
    let answer = node.post(&format!("/api/v1/{path}"), &FORM, form.as_bytes());
    (answer.status, answer.json())
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn refused(kind: &str, words: &str) -> Value {
    json!({"status": "error", "errorType": kind, "error": words})
}

#[test]
fn grafana_s_check_of_a_data_source_passes() {
    let node = Node::start(2);
    let one = json!({"status": "success", "data": {"resultType": "scalar", "result": [4, "2"]}});
    assert_eq!(ask(&node, "query", "query=1%2B1&time=4"), (200, one));
    let build = node.get("/api/v1/status/buildinfo").json();
    assert!(build["data"]["features"].is_null(), "with these Grafana takes it for Mimir: {build}");
}

#[test]
fn expressions_are_evaluated_over_the_series_of_all_shards() {
    for shards in [1, 3] {
        let start = start_ms();
        let node = with_counters(shards, start);
        let time = (start + 120_000) as f64 / 1000.0;
        let query = encoded("sum by (job) (rate(requests_total[1m]))");
        let (status, answer) = ask(&node, "query", &format!("query={query}&time={time}"));
        assert_eq!(status, 200, "{answer}");
        let row = |job| json!({"metric": {"job": job}, "value": [time, "6"]});
        assert_eq!(answer["data"], json!({"resultType": "vector", "result": [row("api"), row("web")]}));
        // GET says the same.
        let get = node.get(&format!("/api/v1/query?query={query}&time={time}"));
        assert_eq!(get.json(), answer);
    }
}

/// Parts of queries that cores evaluated for others.
fn query_parts(node: &Node) -> f64 {
    let metrics = node.get("/metrics").text();
    let values = metrics.lines().filter(|line| line.starts_with("silverback_query_parts_total"));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Whether numbers in texts are the same but for the last digits.
fn is_near(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_near(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len() && left.iter().all(|(key, left)| is_near(left, &right[key]))
        }
        (Value::String(left), Value::String(right)) if left != right => {
            let (left, right): (f64, f64) = (left.parse().unwrap(), right.parse().unwrap());
            (left - right).abs() <= 1e-12 * right.abs().max(1e-3)
        }
        (left, right) => left == right,
    }
}

#[test]
fn each_core_folds_the_series_of_its_own_shard_and_the_answer_is_that_of_one() {
    let start = start_ms();
    let (one, many) = (with_counters(1, start), with_counters(3, start));
    let at = |s: i64| (start + s * 1000) as f64 / 1000.0;
    let parts_of = |query: &str, path: &str, times: &str| {
        let before = query_parts(&many);
        let form = format!("query={}&{times}", encoded(query));
        let (of_many, of_one) = (ask(&many, path, &form), ask(&one, path, &form));
        match query.starts_with("std") {
            true => assert!(is_near(&of_many.1, &of_one.1), "{query}: {} {}", of_many.1, of_one.1),
            false => assert_eq!(of_many, of_one, "{query}"),
        }
        assert_eq!(of_many.0, 200, "{query}: {}", of_many.1);
        assert_ne!(of_many.1["data"]["result"], json!([]), "{query}");
        query_parts(&many) - before
    };
    let (instant, range) = (format!("time={}", at(120)), format!("start={}&end={}&step=7", at(0), at(120)));
    for aggregator in ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"] {
        for by in ["", "by (job)", "without (host)"] {
            let query = format!("{aggregator} {by} (rate(requests_total[1m]))");
            assert_eq!(parts_of(&query, "query", &instant), 2.0, "{query}");
            assert_eq!(parts_of(&query, "query_range", &range), 2.0, "{query}");
        }
    }
    let ratio = "sum by (job) (requests_total) / on (job) count by (job) (requests_total * 2)";
    assert_eq!(parts_of(ratio, "query_range", &range), 4.0);
    for aggregator in ["topk(1", "topk by (job) (2", "bottomk(100", "topk without (host) (1"] {
        let query = format!("{aggregator}, rate(requests_total[1m]))");
        assert_eq!(parts_of(&query, "query", &instant), 2.0, "{query}");
        assert_eq!(parts_of(&query, "query_range", &range), 2.0, "{query}");
    }
    assert_eq!(parts_of("topk(scalar(count(requests_total)), requests_total)", "query", &instant), 2.0);
    for query in ["quantile(0.5, requests_total)", "count_values by (job) (\"v\", requests_total)"] {
        assert_eq!(parts_of(query, "query", &instant), 2.0, "{query}");
        assert_eq!(parts_of(query, "query_range", &range), 2.0, "{query}");
    }
    assert_eq!(parts_of("sum(rate({job!=\"\"}[1m]))", "query", &instant), 0.0);
    assert_eq!(query_parts(&one), 0.0);
}

#[test]
fn native_histograms_are_summed_by_the_core_that_was_asked() {
    let start = start_ms();
    let node = with_counters(3, start);
    let histogram = |at_ms: i64| Histogram {
        count: Some(Count::CountInt(3)),
        zero_count: Some(ZeroCount::ZeroCountInt(3)),
        sum: 2.0,
        timestamp: at_ms,
        ..Default::default()
    };
    let label = |name: &str, value: &str| Label { name: name.to_owned(), value: value.to_owned() };
    let timeseries = (0..8).map(|i| TimeSeries {
        labels: vec![label("__name__", "latency_seconds"), label("host", &format!("h{i}"))],
        histograms: vec![histogram(start)],
        ..Default::default()
    });
    let request = WriteRequest { timeseries: timeseries.collect(), ..Default::default() };
    let body = compress(&request.encode_to_vec());
    assert_eq!(node.post("/api/v1/write", &[], &body).status, 204);
    let form =
        format!("query={}&time={}", encoded("histogram_count(sum(latency_seconds))"), start as f64 / 1000.0);
    let (status, answer) = ask(&node, "query", &form);
    assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &json!("24")), "{answer}");
    let form = form.replace(&encoded("histogram_count(sum("), &encoded("(count("));
    let (_, answer) = ask(&node, "query", &form);
    assert_eq!(answer["data"]["result"][0]["value"][1], "8", "{answer}");
}

#[test]
fn ranges_are_answered_step_by_step() {
    let start = start_ms();
    let node = with_counters(2, start);
    let at = |s: i64| (start + s * 1000) as f64 / 1000.0;
    let query = encoded("requests_total{host=\"b\",job=\"api\"}");
    let form = format!("query={query}&start={}&end={}&step=60", at(0), at(120));
    let expect = json!({"status": "success", "data": {"resultType": "matrix", "result": [{
        "metric": {"__name__": "requests_total", "host": "b", "job": "api"},
        "values": [[at(0), "0"], [at(60), "120"], [at(120), "240"]],
    }]}});
    assert_eq!(ask(&node, "query_range", &form), (200, expect));
}

#[test]
fn a_range_s_samples_are_left_open_and_lookback_too() {
    let start = start_ms();
    let node = with_counters(1, start);
    let time = (start + 10_000) as f64 / 1000.0;
    let query = encoded("count_over_time(requests_total{host=\"a\",job=\"web\"}[5s])");
    let (_, answer) = ask(&node, "query", &format!("query={query}&time={time}"));
    assert_eq!(answer["data"]["result"][0]["value"][1], "5");
    let late = (start + 120_000 + 300_000) as f64 / 1000.0;
    let (_, answer) = ask(&node, "query", &format!("query=requests_total&time={late}"));
    assert_eq!(answer["data"]["result"], json!([]));
    let (_, answer) = ask(&node, "query", &format!("query=requests_total&time={}", late - 0.001));
    assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(6));
}

#[test]
fn limits_warnings_and_infos_are_told() {
    let start = start_ms();
    let node = with_counters(2, start);
    write(&node, &[series(&[("__name__", "gauge")], start, [1.0, 2.0])]);
    let time = (start + 2_000) as f64 / 1000.0;
    let (_, answer) = ask(&node, "query", &format!("query=requests_total&time={time}&limit=2"));
    assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["warnings"], json!(["results truncated due to limit"]));
    let (_, answer) = ask(&node, "query", &format!("query={}&time={time}", encoded("rate(gauge[1m])")));
    let info = "PromQL info: metric might not be a counter, name does not end in \
                _total/_sum/_count/_bucket: \"gauge\" (1:6)";
    assert_eq!(answer["infos"], json!([info]));
}

#[test]
fn what_can_t_be_answered_is_refused_in_prometheus_words() {
    let start = start_ms();
    let node = with_counters(2, start);
    let time = (start + 10_000) as f64 / 1000.0;
    let check = |path: &str, form: String, status: u16, kind: &str, words: &str| {
        assert_eq!(ask(&node, path, &form), (status, refused(kind, words)), "{form}");
    };
    let bad = |path, form: &str, words| check(path, form.to_owned(), 400, "bad_data", words);
    bad("query", "query=1%2B", "invalid parameter \"query\": 1:3: parse error: unexpected end of input");
    bad(
        "query",
        "",
        "invalid parameter \"query\": unknown position: parse error: no expression found in input",
    );
    bad("query", "query=1&time=x", "invalid parameter \"time\": cannot parse \"x\" to a valid timestamp");
    let zero = "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a \
                positive integer";
    bad("query_range", "query=1&start=0&end=1&step=0", zero);
    let order = "invalid parameter \"end\": end timestamp must not be before start time";
    bad("query_range", "query=1&start=2&end=1&step=1", order);
    let steps = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution \
                 (?step=XX)";
    bad("query_range", "query=1&start=0&end=11001&step=1", steps);
    let kind = "invalid expression type \"range vector\" for range query, must be Scalar or instant Vector";
    bad("query_range", "query=a%5B1m%5D&start=0&end=1&step=1", kind);
    let names = encoded("rate({__name__=~\"requests_total|requests_total2\"}[1m]) + on (job) requests_total");
    let (status, answer) = ask(&node, "query", &format!("query={names}&time={time}"));
    assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{answer}");
    assert!(answer["error"].as_str().is_some_and(|words| words.starts_with("found duplicate series")));
}

/// Writes so many series of one sample each, with labels as an exporter has them.
fn write_many(node: &Node, count: usize, start_ms: i64) {
    for from in (0..count).step_by(1000) {
        let one = |i: usize| {
            let instance = format!("host-{i:06}.example.org:9100");
            let labels = [
                ("__name__", "node_up"),
                ("instance", &instance),
                ("job", "node"),
                ("zone", "europe-west1-b"),
            ];
            series(&labels, start_ms, [1.0])
        };
        write(node, &(from..count.min(from + 1000)).map(one).collect::<Vec<_>>());
    }
}

#[test]
fn a_sum_over_more_series_than_a_query_could_hold_is_answered_and_what_never_fits_is_the_asker_s_fault() {
    let node = Node::start_with(2, |config| {
        config.memory_limit = OUT_OF_REACH;
        config.query_memory = Some(16 << 20);
    });
    let start = start_ms();
    write_many(&node, 30_000, start);
    let time = start as f64 / 1000.0;
    for text in [
        "sum({__name__=~\".+\"})",
        "sum(rate({__name__=~\".+\"}[5m]) or vector(30000))",
        "sum({__name__=~\".+\"}) * count({__name__=~\".+\"}) / 30000",
    ] {
        for asked in ["query", "query_range"] {
            let form = format!("query={}&time={time}&start={time}&end={time}&step=1", encoded(text));
            let (status, answer) = ask(&node, asked, &form);
            assert_eq!(status, 200, "{text}: {answer}");
            assert!(answer["data"]["result"][0].to_string().contains("\"30000\""), "{text}: {answer}");
        }
    }
    // All of these at once are more than a query has: also on a node that has nothing else to do.
    let (status, answer) =
        ask(&node, "query", &format!("query={}&time={time}", encoded("{__name__=~\".+\"}")));
    assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{answer}");
    let words = answer["error"].as_str().unwrap_or_default();
    assert!(
        ["bytes of memory", "narrower selector", "--memory-limit"].iter().all(|part| words.contains(part)),
        "{words}"
    );
    // Nothing of it stays taken.
    let few = encoded("count({instance=~\"host-0000.+\"})");
    let (status, answer) = ask(&node, "query", &format!("query={few}&time={time}"));
    assert_eq!((status, &answer["data"]["result"][0]["value"][1]), (200, &json!("100")), "{answer}");
}

#[test]
fn expressions_are_laid_out_and_taken_apart() {
    let node = Node::start(1);
    let (status, answer) = ask(&node, "format_query", "query=sum+by(a)(+rate(b%5B5m%5D))");
    assert_eq!((status, answer), (200, json!({"status": "success", "data": "sum by (a) (rate(b[5m]))"})));
    let (status, answer) = ask(&node, "parse_query", "query=-a");
    assert_eq!((status, &answer["data"]["type"]), (200, &json!("unaryExpr")), "{answer}");
    assert_eq!(answer["data"]["expr"]["matchers"][0]["value"], "a");
}

#[test]
fn a_long_chain_of_operators_is_evaluated_as_a_short_one_is() {
    let start = start_ms();
    let node = with_counters(2, start);
    let time = (start + 120_000) as f64 / 1000.0;
    let value = |text: &str| {
        let (status, answer) = ask(&node, "query", &format!("query={}&time={time}", encoded(text)));
        assert_eq!(status, 200, "{answer}");
        answer["data"]["result"][0]["value"][1].clone()
    };
    // Each is 120.
    let one = "requests_total{host=\"a\",job=\"api\"}";
    assert_eq!(value(&vec![one; 250].join(" + ")), json!((120 * 250).to_string()));
    assert_eq!(value(&format!("{one}{}", " + 1".repeat(5_000))), json!("5120"));
    let (status, answer) = ask(&node, "format_query", &format!("query={}", vec!["a"; 4_000].join("%2B")));
    assert_eq!((status, &answer["errorType"]), (400, &json!("bad_data")), "{answer}");
}
