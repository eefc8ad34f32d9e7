//! What is beside `thanos.Store`: `Info`, exemplars, native histograms, and clients that don't wait or don't read.

use std::time::Duration;

use silverback::api::ingest::remote_write::Version;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, HistogramIter, HistogramKind, Span};
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{self, PATH, body, headers};
use silverback_node_test_support::written::start_ms;
use silverback_proto::prometheus;
use silverback_proto::thanos::chunk::Encoding;
use silverback_proto::thanos::exemplars_client::ExemplarsClient;
use silverback_proto::thanos::exemplars_response::Result as Exemplars;
use silverback_proto::thanos::info::InfoRequest;
use silverback_proto::thanos::info::info_client::InfoClient;
use silverback_proto::thanos::series_response::Result as Answer;
use silverback_proto::thanos::{ExemplarData, ExemplarsRequest, LabelNamesRequest};
use silverback_test_support::Waiting;
use tonic::{Code, Request};

use crate::grpc::channel::{Channel, origin};
use crate::grpc::query::write_wide;
use crate::grpc::store::{client, named, pairs};

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_node_tells_its_external_labels_and_the_range_that_it_keeps() {
    const GRID_MS: i64 = 7_200_000;
    let node = Node::start_with(1, |config| {
        config.replica_label = Some("replica".to_owned());
        config.tenant_label_name = "owner".to_owned();
        // No multiple of the grid.
        config.retention = Duration::from_secs(5000);
    });
    let mut client = InfoClient::with_origin(Channel::open(node.address).await, origin(node.address));
    let now_ms = || start_ms() + 3_600_000;
    let before = now_ms();
    let info = client.info(InfoRequest {}).await.unwrap().into_inner();
    let expect = [("owner", "default-tenant".to_owned()), ("replica", host())];
    let expect = expect.map(|(name, value)| (name.to_owned(), value));
    let [labels] = &info.label_sets[..] else { panic!("{info:?}") };
    assert_eq!((pairs(&labels.labels), &*info.component_type), (expect.to_vec(), "receive"));
    let store = info.store.unwrap();
    // Nodes with the same retention tell the same.
    let oldest = [before, now_ms()].map(|at| (at - 5_000_000).div_euclid(GRID_MS) * GRID_MS);
    assert!(oldest.contains(&store.min_time) && store.max_time == i64::MAX, "{store:?}");
    assert!(store.supports_sharding && store.supports_without_replica_labels);
    let [tsdb] = &store.tsdb_infos[..] else { panic!("{store:?}") };
    assert_eq!(
        (tsdb.labels.as_ref(), tsdb.min_time, tsdb.max_time),
        (Some(labels), store.min_time, i64::MAX)
    );
    let exemplars = info.exemplars.unwrap();
    assert_eq!((exemplars.min_time, exemplars.max_time), (store.min_time, i64::MAX));
}

#[tokio::test]
async fn native_histograms_come_in_their_own_chunks() {
    let (node, start) = (Node::start(2), start_ms());
    let of = |kind: HistogramKind, n: u64| Histogram {
        kind,
        schema: 3,
        count: if kind == HistogramKind::Float { (n as f64).to_bits() } else { n },
        positive: Buckets {
            spans: vec![Span { offset: 0, length: 1 }],
            words: vec![if kind == HistogramKind::Float { (n as f64).to_bits() } else { n }],
        },
        ..Histogram::default()
    };
    let kinds = [("a", HistogramKind::Integer), ("b", HistogramKind::Float)];
    let message = |at_ms: i64, histogram: &Histogram| {
        let mut message = Vec::new();
        histogram
            .put_message(HistogramTimes { timestamp_ms: at_ms, ..HistogramTimes::default() }, &mut message);
        message
    };
    let written = kinds.map(|(name, kind)| {
        let series = request::Series::new([("__name__", name)]);
        (1..50).fold(series, |series, n| series.histogram(message(start + n * 1000, &of(kind, n as u64))))
    });
    let answer = node.post(PATH, &headers(Version::V1), &body(Version::V1, &written));
    assert_eq!(answer.status, 204, "{}", answer.text());
    let mut stream = client(&node).await.series(named("a|b")).await.unwrap().into_inner();
    for (name, kind) in kinds {
        let Some(Answer::Series(series)) = stream.message().await.unwrap().unwrap().result else { panic!() };
        assert_eq!(series.labels[0].value, name);
        let expect = if name == "a" { Encoding::Histogram } else { Encoding::FloatHistogram };
        let mut n = 0;
        for chunk in &series.chunks {
            let raw = chunk.raw.as_ref().unwrap();
            assert_eq!(raw.r#type(), expect);
            let mut iter = HistogramIter::new(kind, &raw.data);
            while iter.samples_left() > 0 {
                let mut histogram = Histogram::default();
                n += 1;
                assert_eq!(iter.next_into(&mut histogram).unwrap(), start + n * 1000);
                assert!(histogram.is_same(&of(kind, n as u64)), "{histogram:?}");
            }
        }
        assert_eq!(n, 49);
    }
    assert!(stream.message().await.unwrap().is_none());
}

/// Series with exemplars.
fn write_exemplars(node: &Node, start: i64) {
    let label = |name: &str, value: &str| prometheus::Label { name: name.into(), value: value.into() };
    let exemplar = |at: i64| prometheus::Exemplar {
        labels: vec![label("trace_id", &at.to_string())],
        value: at as f64,
        timestamp: start + at,
    };
    let timeseries = (0..30).map(|i| prometheus::TimeSeries {
        labels: vec![label("__name__", "load"), label("i", &format!("{i:02}"))],
        samples: vec![prometheus::Sample { value: 1.0, timestamp: start }],
        exemplars: (0..i % 3 * 100).map(exemplar).collect(),
        ..prometheus::TimeSeries::default()
    });
    let write = prometheus::WriteRequest { timeseries: timeseries.collect(), metadata: Vec::new() };
    let answer = node.post(PATH, &[], &request::compress(&prost::Message::encode_to_vec(&write)));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

async fn exemplars(
    node: &Node,
    query: &str,
    range_ms: (i64, i64),
) -> Result<Vec<ExemplarData>, tonic::Status> {
    let mut client = ExemplarsClient::with_origin(Channel::open(node.address).await, origin(node.address));
    let request = ExemplarsRequest { query: query.into(), start: range_ms.0, end: range_ms.1 };
    let mut stream = client.exemplars(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(response) = stream.message().await? {
        let Some(Exemplars::Data(data)) = response.result else { panic!("{response:?}") };
        all.push(data);
    }
    Ok(all)
}

#[tokio::test]
async fn exemplars_of_what_selectors_match_have_external_labels() {
    let (node, start) = (Node::start(3), start_ms());
    write_exemplars(&node, start);
    let always = (i64::MIN, i64::MAX);
    let all = exemplars(&node, "rate(load{tenant_id=\"default-tenant\"}[5m]) + load{i=\"01\"}", always)
        .await
        .unwrap();
    assert_eq!(all.len(), 20);
    for (data, i) in all.iter().zip((0..30).filter(|i| i % 3 > 0)) {
        let labels = pairs(&data.series_labels.as_ref().unwrap().labels);
        let expect = [("__name__", "load"), ("i", &format!("{i:02}")), ("tenant_id", "default-tenant")];
        assert_eq!(labels, expect.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(data.exemplars.len(), i % 3 * 100);
        for (at, exemplar) in (0..).zip(&data.exemplars) {
            assert_eq!((exemplar.ts, exemplar.value), (start + at, at as f64));
            let traces = pairs(&exemplar.labels.as_ref().unwrap().labels);
            assert_eq!(traces, [("trace_id".to_owned(), at.to_string())]);
        }
    }
    let some = exemplars(&node, "load{i=\"02\"}", (start + 5, start + 7)).await.unwrap();
    assert_eq!(some[0].exemplars.iter().map(|one| one.ts - start).collect::<Vec<_>>(), [5, 6, 7]);
    assert!(exemplars(&node, "load{tenant_id=\"other\"}", always).await.unwrap().is_empty());
    for (query, words) in [("{tenant_id=~\".+\"}", "no matchers specified"), ("sum(", "query")] {
        let status = exemplars(&node, query, always).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(words), "{status}");
    }
}

#[tokio::test]
async fn a_call_ends_when_its_deadline_is_over_and_gives_its_turn_back() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    write_wide(&node);
    let mut stopped = client(&node).await.series(named("wide")).await.unwrap().into_inner();
    stopped.message().await.unwrap();
    let mut waits = Request::new(named("wide"));
    waits.set_timeout(Duration::from_millis(200));
    let status = client(&node).await.series(waits).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "no turn came: {status}");
    drop(stopped);
    let mut begun = Request::new(named("wide"));
    begun.set_timeout(Duration::from_secs(1));
    let mut begun = client(&node).await.series(begun).await.unwrap().into_inner();
    begun.message().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let status = loop {
        match begun.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was sent whole"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let waiting = Waiting::begin();
    while !node.get("/metrics").text().contains("silverback_shard_open_selects{shard=\"0\"} 0\n") {
        waiting.check(|| "the read of a call that is over goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_loses_its_turn_to_one_that_waits() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    write_wide(&node);
    let mut stopped = client(&node).await.series(named("wide")).await.unwrap().into_inner();
    stopped.message().await.unwrap();
    let names = LabelNamesRequest { start: i64::MIN, end: i64::MAX, ..LabelNamesRequest::default() };
    let names = client(&node).await.label_names(names).await.unwrap().into_inner().names;
    assert_eq!(names, ["__name__", "i", "tenant_id"]);
    let status = loop {
        match stopped.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was sent whole"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Aborted, "{status}");
    assert!(node.get("/metrics").text().contains("silverback_reads_slow_total{shard=\"0\"} 1\n"));
}
