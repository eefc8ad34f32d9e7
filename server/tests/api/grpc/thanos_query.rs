//! `thanos.Query`: expressions that a Thanos Query in distributed mode has evaluated here, over series as it sees them.

use std::time::{Duration, Instant};

use serde_json::Value;
use silverback::api::ingest::remote_write::Version;
use silverback::config::ThanosQueryApi;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_node_test_support::request::{self, PATH, body, headers};
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_node_test_support::{Node, OUT_OF_REACH};
use silverback_proto::prometheus::histogram::{Count, ZeroCount};
use silverback_proto::prometheus::{Label, TimeSeries};
use silverback_proto::thanos::info::InfoRequest;
use silverback_proto::thanos::info::info_client::InfoClient;
use silverback_proto::thanos::query_client::QueryClient;
use silverback_proto::thanos::query_plan::Encoding;
use silverback_proto::thanos::query_range_response::Result as RangeTold;
use silverback_proto::thanos::query_response::Result as Told;
use silverback_proto::thanos::{
    QueryPlan, QueryRangeRequest, QueryRequest, QueryStats, ShardInfo, StoreMatchers,
};
use silverback_test_support::Waiting;
use tonic::{Code, Request, Status};

use crate::grpc::channel::{Channel, origin};
use crate::grpc::store::{EXTERNAL, external};

async fn client(node: &Node) -> QueryClient<Channel> {
    QueryClient::with_origin(Channel::open(node.address).await, origin(node.address))
}

/// What a stream gave.
#[derive(Debug, Default)]
struct Given {
    series: Vec<TimeSeries>,
    /// How many series each message had.
    counts: Vec<usize>,
    warnings: Vec<String>,
    stats: Option<QueryStats>,
}

impl Given {
    fn add(&mut self, told: Told) {
        assert!(self.stats.is_none(), "statistics are the last of all");
        match told {
            Told::Warnings(words) => self.warnings.push(words),
            Told::Timeseries(one) => {
                self.counts.push(1);
                self.series.push(one);
            }
            Told::TimeseriesBatch(batch) => {
                self.counts.push(batch.series.len());
                self.series.extend(batch.series);
            }
            Told::Stats(stats) => self.stats = Some(stats),
        }
    }
}

async fn instant(node: &Node, request: impl tonic::IntoRequest<QueryRequest>) -> Result<Given, Status> {
    let mut stream = client(node).await.query(request).await?.into_inner();
    let mut given = Given::default();
    while let Some(response) = stream.message().await? {
        given.add(response.result.expect("a response has a result"));
    }
    Ok(given)
}

async fn range(node: &Node, request: QueryRangeRequest) -> Result<Given, Status> {
    let mut stream = client(node).await.query_range(request).await?.into_inner();
    let mut given = Given::default();
    while let Some(response) = stream.message().await? {
        assert!(prost::Message::encoded_len(&response) < 300 << 10);
        given.add(match response.result.expect("a response has a result") {
            RangeTold::Warnings(words) => Told::Warnings(words),
            RangeTold::Timeseries(one) => Told::Timeseries(one),
            RangeTold::Stats(stats) => Told::Stats(stats),
            RangeTold::TimeseriesBatch(batch) => Told::TimeseriesBatch(batch),
        });
    }
    Ok(given)
}

fn at(time_seconds: i64, query: &str) -> QueryRequest {
    let plan = QueryPlan { encoding: Some(Encoding::Json(bytes::Bytes::from_static(b"{}"))) };
    QueryRequest {
        query: query.to_owned(),
        time_seconds,
        enable_dedup: true,
        query_plan: Some(plan),
        ..QueryRequest::default()
    }
}

fn between(start: i64, end: i64, query: &str) -> QueryRangeRequest {
    QueryRangeRequest {
        query: query.to_owned(),
        start_time_seconds: start,
        end_time_seconds: end,
        interval_seconds: 15,
        enable_dedup: true,
        ..QueryRangeRequest::default()
    }
}

/// As an expression shows it: `{a="b"} 1.5`.
fn shown(one: &TimeSeries) -> String {
    let labels: Vec<_> = one.labels.iter().map(|Label { name, value }| format!("{name}={value}")).collect();
    let values: Vec<_> = one.samples.iter().map(|sample| sample.value.to_string()).collect();
    format!("{{{}}} {}", labels.join(","), values.join(" "))
}

fn all_shown(given: &Given) -> Vec<String> {
    given.series.iter().map(shown).collect()
}

/// On a second.
fn start_s() -> i64 {
    start_ms() / 1000
}

/// 40 series on all shards, of 60 samples each, the last of them `i`.
fn write_loads(node: &Node, start: i64) {
    let loads = (0..40).map(|i| {
        let labels = [("__name__", "load"), ("i", &*format!("{i:02}")), ("odd", ["no", "yes"][i % 2])];
        series(&labels, start * 1000, (0..60).map(|at| i as f64 - 59.0 + f64::from(at)))
    });
    write(node, &loads.collect::<Vec<_>>());
}

#[tokio::test]
async fn an_expression_sees_external_labels_in_selectors_groups_and_answers() {
    let start = start_s();
    for shards in [1, 3] {
        let node = Node::start_with(shards, external(&EXTERNAL[..2]));
        write_loads(&node, start);
        for (query, expect) in [
            (
                "load{i='07'}",
                vec!["{__name__=load,cluster=eu-1,i=07,odd=yes,p=external,tenant_id=default-tenant} 7"],
            ),
            ("sum(load)", vec!["{} 780"]),
            ("sum by (cluster) (load)", vec!["{cluster=eu-1} 780"]),
            ("sum by (cluster, odd) (load)", vec!["{cluster=eu-1,odd=no} 380", "{cluster=eu-1,odd=yes} 400"]),
            ("max without (i, odd, p) (load)", vec!["{cluster=eu-1,tenant_id=default-tenant} 39"]),
            ("count by (cluster) (load{cluster='eu-1',odd='no'})", vec!["{cluster=eu-1} 20"]),
            ("count(load{cluster=~'eu-[1-3]'})", vec!["{} 40"]),
            ("count(load{cluster!='eu-1'})", vec![]),
            ("count(load{cluster='eu-2'}) or count(load)", vec!["{} 40"]),
            // The external labels alone select all that there is.
            ("count by (tenant_id) ({cluster='eu-1'})", vec!["{tenant_id=default-tenant} 40"]),
            (
                "topk by (p) (1, load)",
                vec!["{__name__=load,cluster=eu-1,i=39,odd=yes,p=external,tenant_id=default-tenant} 39"],
            ),
            (
                "load{i='01'} * on (cluster) group_left () sum by (cluster) (load{i='02'})",
                vec!["{cluster=eu-1,i=01,odd=yes,p=external,tenant_id=default-tenant} 2"],
            ),
            ("1 + 1", vec!["{} 2"]),
            ("-0.0", vec!["{} -0"]),
            ("absent(load{cluster='eu-2'})", vec!["{cluster=eu-2} 1"]),
        ] {
            let given = instant(&node, at(start + 59, query)).await.unwrap();
            assert_eq!(all_shown(&given), expect, "{query} on {shards}");
            assert!(given.series.iter().all(|one| one.samples[0].timestamp == (start + 59) * 1000));
        }
        let metrics = node.get("/metrics").text();
        let asked: f64 = metrics
            .lines()
            .filter(|line| line.starts_with("silverback_thanos_queries_total{"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum();
        assert_eq!(asked, 15.0, "{metrics}");
    }
}

#[tokio::test]
async fn replica_labels_are_left_out_where_copies_are_to_be_one() {
    let start = start_s();
    let node = Node::start_with(3, external(&[("cluster", "eu-1"), ("replica", "a")]));
    write_loads(&node, start);
    let asked = |query: &str, names: &[&str], enable_dedup| QueryRequest {
        replica_labels: names.iter().map(|name| name.to_string()).collect(),
        enable_dedup,
        ..at(start + 59, query)
    };
    for (query, names, enable_dedup, expect) in [
        ("count by (cluster, replica) (load)", &["replica"][..], true, "{cluster=eu-1} 40"),
        ("count by (cluster, replica) (load)", &["replica"], false, "{cluster=eu-1,replica=a} 40"),
        ("count by (cluster, replica) (load)", &["cluster", "replica"], true, "{} 40"),
        ("load{i='03'}", &["replica", "tenant_id", "odd"], true, "{__name__=load,cluster=eu-1,i=03} 3"),
        // As at a store: selectors see it.
        ("count(load{replica='a'})", &["replica"], true, "{} 40"),
    ] {
        let given = instant(&node, asked(query, names, enable_dedup)).await.unwrap();
        assert_eq!(all_shown(&given), [expect], "{query} without {names:?}");
    }
    assert!(instant(&node, asked("load{replica='b'}", &["replica"], true)).await.unwrap().series.is_empty());
}

#[tokio::test]
async fn series_that_are_copies_of_each_other_on_one_node_are_refused_and_never_counted_twice() {
    let start = start_s();
    for shards in [1, 3] {
        let node = Node::start(shards);
        let copies = (0..60).map(|at| {
            let copy = ["a", "b"][at % 2];
            let i = (at / 2).to_string();
            series(&[("__name__", "copied"), ("i", &*i), ("replica", copy)], start * 1000, [1.0])
        });
        write(&node, &copies.collect::<Vec<_>>());
        let asked = |query: &str, name: &str| QueryRequest {
            replica_labels: vec![name.to_owned()],
            ..at(start, query)
        };
        for query in ["copied", "sum(copied)", "count by (i) (copied)", "topk(2, copied)", "rate(copied[1m])"]
        {
            let status = instant(&node, asked(query, "replica")).await.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition, "{query}: {status}");
            assert!(status.message().contains("replica labels"), "{query}: {status}");
        }
        for (query, name, expect) in [
            ("sum(copied)", "other", "{} 60"),
            ("sum(copied{replica=\"a\"})", "replica", "{} 30"),
            ("count(copied{replica='b',i='7'})", "replica", "{} 1"),
        ] {
            let given = instant(&node, asked(query, name)).await.unwrap();
            assert_eq!(all_shown(&given), [expect], "{query} without {name}");
        }
    }
}

/// The answer of `query_range` over HTTP, as this API has it: times and values of each series.
fn over_http(node: &Node, query: &str, start: i64, end: i64) -> Vec<Vec<(i64, f64)>> {
    let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=15");
    let answer = node.get(&path).json();
    let values = |one: &Value| {
        let pairs = one["values"].as_array().unwrap().iter();
        pairs
            .map(|pair| {
                ((pair[0].as_f64().unwrap() * 1000.0) as i64, pair[1].as_str().unwrap().parse().unwrap())
            })
            .collect()
    };
    answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{answer}")).iter().map(values).collect()
}

#[tokio::test]
async fn a_range_has_the_values_that_it_has_over_http_in_messages_of_as_many_series_as_are_asked_for() {
    let (node, start) = (Node::start(3), start_s());
    write_loads(&node, start);
    for query in ["load", "rate(load[30s])", "sum(load)", "sum_over_time(load[1m:7s])", "vector(time())", "3"]
    {
        let expect = over_http(&node, query, start, start + 90);
        for (batch, most) in [(0, 1), (1, 1), (7, 7), (64, 64)] {
            let asked = QueryRangeRequest { response_batch_size: batch, ..between(start, start + 90, query) };
            let given = range(&node, asked).await.unwrap();
            let values = |one: &TimeSeries| {
                one.samples.iter().map(|sample| (sample.timestamp, sample.value)).collect::<Vec<_>>()
            };
            assert_eq!(given.series.iter().map(values).collect::<Vec<_>>(), expect, "{query}");
            let (whole, rest) = (expect.len() / most, expect.len() % most);
            let mut counts = vec![most; whole];
            counts.extend((rest > 0).then_some(rest));
            assert_eq!(given.counts, counts, "{query} by {batch}");
            let stats = given.stats.expect("statistics end it");
            assert_eq!(stats.samples_total > 0, query.contains("load"), "{query}: {stats:?}");
        }
    }
}

#[tokio::test]
async fn many_series_of_many_steps_come_in_messages_of_bounded_size() {
    let (node, start) = (Node::start(2), start_s());
    write_loads(&node, start);
    let asked = QueryRangeRequest {
        interval_seconds: 1,
        response_batch_size: 64,
        lookback_delta_seconds: 20_000,
        ..between(start, start + 11_000, "load")
    };
    let given = range(&node, asked).await.unwrap();
    assert_eq!(given.series.len(), 40);
    assert!(given.counts.len() >= 20, "{:?}", given.counts);
    assert!(given.series.iter().all(|one| one.samples.len() > 10_000));
}

#[tokio::test]
async fn native_histograms_come_as_floats_with_their_buckets() {
    let (node, start) = (Node::start(2), start_s());
    let histogram = |n: u64| Histogram {
        schema: 1,
        zero_threshold: 0.001,
        zero_count: 2,
        count: 2 + n + (n + 1) + n,
        sum_bits: 2.5_f64.to_bits(),
        positive: Buckets {
            spans: vec![Span { offset: -3, length: 2 }, Span { offset: 4, length: 1 }],
            words: vec![n, 1, (-1_i64) as u64],
        },
        ..Histogram::default()
    };
    let message = |at: i64| {
        let (timestamp_ms, mut message) = ((start + at) * 1000, Vec::new());
        let times = HistogramTimes { timestamp_ms, ..HistogramTimes::default() };
        histogram(at as u64).put_message(times, &mut message);
        message
    };
    let written =
        (1..=30).fold(request::Series::new([("__name__", "took")]), |all, at| all.histogram(message(at)));
    let answer = node.post(PATH, &headers(Version::V1), &body(Version::V1, &[written]));
    assert_eq!(answer.status, 204, "{}", answer.text());
    let check = |one: &TimeSeries, at: usize, n: i64| {
        let read = &one.histograms[at];
        let float = |n: i64| n as f64;
        assert_eq!((read.schema, read.zero_threshold, read.sum), (1, 0.001, 2.5));
        assert_eq!(read.count, Some(Count::CountFloat(float(3 * n + 3))));
        assert_eq!(read.zero_count, Some(ZeroCount::ZeroCountFloat(2.0)));
        let spans: Vec<_> = read.positive_spans.iter().map(|span| (span.offset, span.length)).collect();
        assert_eq!(
            (spans, &read.positive_counts),
            (vec![(-3, 2), (4, 1)], &vec![float(n), float(n + 1), float(n)])
        );
        assert_eq!(read.timestamp, (start + n) * 1000);
    };
    let given = instant(&node, at(start + 30, "took")).await.unwrap();
    check(&given.series[0], 0, 30);
    let asked = QueryRangeRequest {
        interval_seconds: 1,
        ..between(start + 1, start + 30, "sum by (tenant_id) (took)")
    };
    let given = range(&node, asked).await.unwrap();
    let [one] = &given.series[..] else { panic!("{given:?}") };
    assert_eq!((one.histograms.len(), one.samples.len()), (30, 0));
    assert_eq!(one.labels[0].value, "default-tenant");
    (0..30).for_each(|at| check(one, at, at as i64 + 1));
    let given = instant(&node, at(start + 30, "histogram_count(took)")).await.unwrap();
    assert_eq!(all_shown(&given), ["{tenant_id=default-tenant} 93"]);
}

#[tokio::test]
async fn what_prometheus_warns_of_stands_before_the_series() {
    let (node, start) = (Node::start(2), start_s());
    write_loads(&node, start);
    let given = instant(&node, at(start + 59, "quantile(7, load)")).await.unwrap();
    assert!(
        given.warnings[0].contains("PromQL warning: quantile value should be between 0 and 1"),
        "{given:?}"
    );
    let given = instant(&node, at(start + 59, "rate(load[1m])")).await.unwrap();
    assert!(given.warnings[0].contains("PromQL info: metric might not be a counter"), "{given:?}");
    assert_eq!(given.series.len(), 40);
}

#[tokio::test]
async fn parts_of_vertical_sharding_have_every_series_once() {
    let (node, start) = (Node::start(3), start_s());
    write_loads(&node, start);
    let mut all = 0.0;
    for shard_index in 0..3 {
        let shard = ShardInfo { shard_index, total_shards: 3, by: true, labels: vec!["i".to_owned()] };
        let asked = QueryRequest { shard_info: Some(shard), ..at(start + 59, "count(load)") };
        let given = instant(&node, asked).await.unwrap();
        let count = given.series[0].samples[0].value;
        assert!(count < 40.0);
        all += count;
    }
    assert_eq!(all, 40.0);
}

async fn check_refused(node: &Node, request: QueryRequest, code: Code, words: &str) {
    let status = instant(node, request).await.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(words), "{status}");
}

#[tokio::test]
async fn what_cannot_be_evaluated_is_refused_with_what_tells_why() {
    let (node, start) = (Node::start(1), start_s());
    write_loads(&node, start);
    let plan_alone = QueryRequest { query: String::new(), ..at(start, "") };
    check_refused(&node, plan_alone, Code::InvalidArgument, "queryPlan isn't read").await;
    check_refused(&node, at(start, "sum(load"), Code::InvalidArgument, "unclosed").await;
    check_refused(&node, at(start, "'a'"), Code::InvalidArgument, "a text has no form").await;
    check_refused(&node, at(i64::MAX, "load"), Code::InvalidArgument, "time_seconds").await;
    let stores = QueryRequest { store_matchers: vec![StoreMatchers::default()], ..at(start, "load") };
    check_refused(&node, stores, Code::InvalidArgument, "storeMatchers").await;
    let shard = ShardInfo { shard_index: 3, total_shards: 3, ..ShardInfo::default() };
    let no_shard = QueryRequest { shard_info: Some(shard), ..at(start, "load") };
    check_refused(&node, no_shard, Code::InvalidArgument, "no shard 3 of 3").await;
    let many_to_many = "load * on (odd) load";
    check_refused(&node, at(start, many_to_many), Code::FailedPrecondition, "duplicate series").await;
    for (end, interval, words) in
        [(12_000, 1, "11,000 points"), (10, 0, "zero or negative"), (-1, 1, "before start")]
    {
        let asked = QueryRangeRequest { interval_seconds: interval, ..between(start, start + end, "load") };
        let status = range(&node, asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(words), "{status}");
    }
    let given = instant(&node, QueryRequest { enable_dedup: false, ..at(0, "time()") }).await.unwrap();
    let now_s = start_s() as f64 + 3600.0;
    assert!((given.series[0].samples[0].value - now_s).abs() < 60.0, "a time of 0 is now: {given:?}");
}

#[tokio::test]
async fn more_than_a_query_may_hold_is_refused() {
    let start = start_s();
    let node = Node::start_with(1, |config| {
        config.memory_limit = OUT_OF_REACH;
        config.query_max_samples = 1000;
    });
    write_loads(&node, start);
    check_refused(&node, at(start + 59, "load[1m]"), Code::FailedPrecondition, "too many samples").await;
    let metrics = node.get("/metrics").text();
    assert!(
        metrics.contains("silverback_queries_refused_total{reason=\"too_many_samples\"} 1\n"),
        "{metrics}"
    );
}

/// Looks at 360,000 values at each of 10,000 steps: for longer than any test waits, in little memory.
const SLOW: &str = "stddev_over_time(vector(time() * 7919 % 251013)[100h:1s])";

fn slow() -> QueryRangeRequest {
    QueryRangeRequest { interval_seconds: 1, ..between(9, 9999, SLOW) }
}

async fn wait_for_metric(node: &Node, line: &str) {
    let waiting = Waiting::begin();
    while !node.get("/metrics").text().contains(line) {
        waiting.check(|| line);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_query_has_its_time_and_one_that_nobody_waits_for_ends() {
    // A read's shorter time is not a query's.
    let node = Node::start_with(1, |config| {
        config.header_timeout = Duration::from_millis(200);
        config.request_timeout = Duration::from_millis(500);
    });
    let began = Instant::now();
    let status = range(&node, QueryRangeRequest { timeout_seconds: 1, ..slow() }).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("timed out in expression evaluation"), "{status}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    let mut waits = Request::new(slow());
    waits.set_timeout(Duration::from_millis(300));
    let status = client(&node).await.query_range(waits).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    wait_for_metric(&node, "silverback_queries_active{shard=\"0\"} 0\n").await;
    let mut gone = client(&node).await;
    let gone = tokio::spawn(async move { gone.query_range(slow()).await.map(drop) });
    wait_for_metric(&node, "silverback_queries_active{shard=\"0\"} 1\n").await;
    gone.abort();
    wait_for_metric(&node, "silverback_queries_active{shard=\"0\"} 0\n").await;
    wait_for_metric(&node, "silverback_reads_in_flight{shard=\"0\"} 0\n").await;
    wait_for_metric(&node, "silverback_memory_accounted_bytes{part=\"reads\",shard=\"0\"} 0\n").await;
}

#[tokio::test]
async fn a_query_is_listed_and_cancelled_as_any_other() {
    let node = Node::start(2);
    let mut client = client(&node).await;
    let asked = tokio::spawn(async move { client.query_range(slow()).await.map(drop) });
    let waiting = Waiting::begin();
    let query = loop {
        let listed = node.get("/api/v1/status/active_queries").json();
        match listed["data"]["queries"].as_array().unwrap().first() {
            Some(query) if query["state"] == "running" => break query.clone(),
            _ => waiting.check(|| "it doesn't run"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(
        (&query["query"], &query["kind"], &query["peer"]),
        (&SLOW.into(), &"query_range".into(), &"127.0.0.1".into())
    );
    let path = format!("/api/v1/status/active_queries/{}", query["id"].as_str().unwrap());
    assert_eq!(node.ask("DELETE", &path, &[], b"").status, 200);
    let status = asked.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Cancelled, "{status}");
    assert!(status.message().contains("canceled in expression evaluation"), "{status}");
}

#[tokio::test]
async fn queries_that_find_no_turn_are_told_to_come_again() {
    let node = Node::start_with(1, |config| config.max_queries = 1);
    let channel = client(&node).await;
    let ask = || {
        let mut client = channel.clone();
        tokio::spawn(async move { client.query_range(slow()).await.map(drop) })
    };
    // One is evaluated, and 64 wait.
    let many: Vec<_> = (0..65).map(|_| ask()).collect();
    wait_for_metric(&node, "silverback_queries_waiting{shard=\"0\"} 64\n").await;
    let status = ask().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.metadata().get("retry-after-ms").is_some(), "{status:?}");
    many.iter().for_each(|one| one.abort());
}

#[tokio::test]
async fn thanos_query_is_told_of_it_where_the_node_is_told_to() {
    for (api, is_told) in [(ThanosQueryApi::Hidden, false), (ThanosQueryApi::Announced, true)] {
        let node = Node::start_with(1, |config| config.thanos_query_api = api);
        let mut client = InfoClient::with_origin(Channel::open(node.address).await, origin(node.address));
        let info = client.info(InfoRequest {}).await.unwrap().into_inner();
        assert_eq!(info.query.is_some(), is_told);
        // Whoever asks is answered.
        assert_eq!(all_shown(&instant(&node, at(1, "1")).await.unwrap()), ["{} 1"]);
    }
}
