//! `Query`: what was written comes back bit for bit, in columns and in chunks, in bounded pieces.

use std::time::Duration;

use silverback_model::STALE_NAN_BITS;
use silverback_model::gorilla::XorIter;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{Series, series, start_ms, write};
use silverback_proto::v1::query_client::QueryClient;
use silverback_proto::v1::{
    Label, LabelNamesRequest, LabelValuesRequest, Matcher, MatcherKind, SampleEncoding, SelectRequest,
    SelectResponse, SeriesRequest, TimeRange,
};
use silverback_test_support::Waiting;
use tonic::Code;

use crate::grpc::channel::{Channel, origin};

const ALWAYS: TimeRange = TimeRange { min_ms: i64::MIN, max_ms: i64::MAX };

/// A response may be this large: about 1 MiB.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

async fn client(node: &Node) -> QueryClient<Channel> {
    QueryClient::with_origin(Channel::open(node.address).await, origin(node.address))
}

fn matcher(name: &str, kind: MatcherKind, value: &str) -> Matcher {
    Matcher { kind: kind.into(), name: name.into(), value: value.into() }
}

fn named(pattern: &str) -> Vec<Matcher> {
    vec![matcher("__name__", MatcherKind::Regex, pattern)]
}

fn select(matchers: Vec<Matcher>, range: TimeRange, encoding: SampleEncoding) -> SelectRequest {
    SelectRequest { matchers, range: Some(range), encoding: encoding.into() }
}

/// All responses of a select.
async fn responses(node: &Node, request: SelectRequest) -> Vec<SelectResponse> {
    let mut stream = client(node).await.select(request).await.unwrap().into_inner();
    let mut responses = Vec::new();
    while let Some(response) = stream.message().await.unwrap() {
        let bytes = prost::Message::encoded_len(&response);
        assert!(bytes <= RESPONSE_BYTES_MAX, "{bytes} bytes in one response");
        responses.push(response);
    }
    responses
}

/// All series that a node has.
pub(super) async fn select_all(node: &Node, encoding: SampleEncoding) -> Vec<Series> {
    put_together(&responses(node, select(named(".+"), ALWAYS, encoding)).await)
}

fn pairs(labels: &[Label]) -> Vec<(String, String)> {
    labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect()
}

/// The series of all responses, those that go on in the next one put together.
fn put_together(responses: &[SelectResponse]) -> Vec<Series> {
    let mut found: Vec<Series> = Vec::new();
    for one in responses.iter().flat_map(|response| &response.series) {
        let labels = pairs(&one.labels);
        if found.last().is_none_or(|(last, _)| *last != labels) {
            found.push((labels, Vec::new()));
        }
        let samples = &mut found.last_mut().unwrap().1;
        if let Some(columns) = &one.columns {
            assert_eq!(columns.timestamp_deltas_ms.len(), columns.values.len());
            let times = columns.timestamp_deltas_ms.iter().scan(0, |time, delta| {
                *time += delta;
                Some(*time)
            });
            samples.extend(times.zip(columns.values.iter().map(|value| value.to_bits())));
        }
        for chunk in &one.chunks {
            let read = XorIter::new(&chunk.bytes).map(|sample| sample.unwrap());
            let before = samples.len();
            samples.extend(read.map(|sample| (sample.timestamp_ms, sample.value.to_bits())));
            assert_eq!((samples[before].0, samples[samples.len() - 1].0), (chunk.min_ms, chunk.max_ms));
        }
    }
    found
}

/// Series over all shards, some of several chunks, one that ends in a staleness marker.
fn fleet(start_ms: i64) -> Vec<Series> {
    let mut fleet: Vec<Series> = (0..30)
        .map(|i| {
            let values = (0..50 + i * 11).map(|s| f64::from(s) * 0.5 + f64::from(i));
            series(&[("__name__", "load"), ("host", &format!("h{i:02}"))], start_ms, values)
        })
        .collect();
    let odd = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, f64::from_bits(STALE_NAN_BITS)];
    fleet.push(series(&[("__name__", "odd"), ("höhe", "\"ü\"")], start_ms, odd));
    fleet.sort();
    fleet
}

async fn check_reads_back(shards: usize) {
    let (node, fleet) = (Node::start(shards), fleet(start_ms()));
    write(&node, &fleet);
    for encoding in [SampleEncoding::Unspecified, SampleEncoding::Columns, SampleEncoding::XorChunks] {
        let responses = responses(&node, select(named(".+"), ALWAYS, encoding)).await;
        assert!(put_together(&responses) == fleet, "{encoding:?}");
        let chunks = responses.iter().flat_map(|r| &r.series).filter(|s| !s.chunks.is_empty()).count();
        assert_eq!(chunks > 0, encoding == SampleEncoding::XorChunks);
    }
}

#[tokio::test]
async fn one_shard_gives_back_what_was_written_bit_for_bit() {
    check_reads_back(1).await;
}

#[tokio::test]
async fn three_shards_give_back_what_was_written_in_one_order() {
    check_reads_back(3).await;
}

#[tokio::test]
async fn columns_hold_exactly_the_range_and_chunks_what_touches_it() {
    let (node, start) = (Node::start(2), start_ms());
    let written = series(&[("__name__", "up")], start, (0..300).map(f64::from));
    write(&node, std::slice::from_ref(&written));
    let range = |from, to| TimeRange { min_ms: start + from, max_ms: start + to };
    let columns = async |range| {
        put_together(&responses(&node, select(named("up"), range, SampleEncoding::Columns)).await)
    };
    assert_eq!(columns(range(5000, 7000)).await[0].1, written.1[5..=7]);
    assert_eq!(columns(range(119_000, 121_000)).await[0].1, written.1[119..=121]);
    assert_eq!(columns(range(5001, 5999)).await, []);
    assert_eq!(columns(range(7000, 5000)).await, []);
    let chunks = responses(&node, select(named("up"), range(5000, 7000), SampleEncoding::XorChunks)).await;
    let chunk = &chunks[0].series[0].chunks[0];
    assert!(chunks[0].series[0].chunks.len() == 1 && chunk.min_ms == start && chunk.max_ms > start + 7000);
}

#[tokio::test]
async fn a_long_series_goes_on_in_the_next_response_under_its_labels() {
    let (node, start) = (Node::start(1), start_ms());
    // Values that don't compress: more than a response may hold.
    let noise = (0..3500).map(|s| f64::from(s * 7919 % 1013).sin());
    let written: Vec<_> = (0..40)
        .map(|i| series(&[("__name__", "noise"), ("i", &format!("{i:02}"))], start, noise.clone()))
        .collect();
    write(&node, &written);
    for encoding in [SampleEncoding::Columns, SampleEncoding::XorChunks] {
        let responses = responses(&node, select(named("noise"), ALWAYS, encoding)).await;
        assert!(responses.len() > 10, "{} responses", responses.len());
        let first = responses[0].series.last().unwrap().labels.clone();
        assert_eq!(responses[1].series[0].labels, first, "a series that is split keeps its labels");
        assert!(put_together(&responses) == written, "{encoding:?}");
    }
}

#[tokio::test]
async fn matchers_of_all_four_kinds_narrow_the_answer() {
    use MatcherKind::{Equal, NotEqual, NotRegex, Regex, Unspecified};
    let node = Node::start(2);
    write(&node, &fleet(start_ms()));
    let check = async |matchers: &[(&str, MatcherKind, &str)], expect: &[&str]| {
        let matchers: Vec<_> =
            matchers.iter().map(|(name, kind, value)| matcher(name, *kind, value)).collect();
        let found = responses(&node, select(matchers.clone(), ALWAYS, SampleEncoding::Columns)).await;
        let hosts: Vec<_> = put_together(&found).into_iter().map(|(labels, _)| labels[1].1.clone()).collect();
        assert_eq!(hosts, expect, "{matchers:?}");
    };
    check(&[("host", Equal, "h07")], &["h07"]).await;
    check(&[("host", Unspecified, "h07")], &["h07"]).await;
    check(&[("host", Regex, "h0[1-3]"), ("host", NotEqual, "h02")], &["h01", "h03"]).await;
    check(&[("host", NotRegex, "h[01].|h2[0-8]"), ("__name__", Equal, "load")], &["h29"]).await;
    check(&[("host", Regex, "h0")], &[]).await;
}

#[tokio::test]
async fn series_names_and_values_are_listed_in_order() {
    let (node, start) = (Node::start(3), start_ms());
    let fleet = fleet(start);
    write(&node, &fleet);
    let mut client = client(&node).await;
    let request = SeriesRequest { matchers: named(".+"), range: None };
    let mut stream = client.series(request).await.unwrap().into_inner();
    let mut found = Vec::new();
    while let Some(response) = stream.message().await.unwrap() {
        found.extend(response.series.iter().map(|set| pairs(&set.labels)));
    }
    assert_eq!(found, fleet.iter().map(|(labels, _)| labels.clone()).collect::<Vec<_>>());

    let names = client.label_names(LabelNamesRequest::default()).await.unwrap().into_inner().names;
    assert_eq!(names, ["__name__", "host", "höhe"]);
    let of_odd = LabelNamesRequest { matchers: named("odd"), range: None };
    assert_eq!(client.label_names(of_odd).await.unwrap().into_inner().names, ["__name__", "höhe"]);

    let hosts = LabelValuesRequest { name: "host".into(), matchers: vec![], range: None };
    assert_eq!(client.label_values(hosts.clone()).await.unwrap().into_inner().values.len(), 30);
    let narrowed = vec![matcher("host", MatcherKind::Regex, "h1[23]")];
    let narrowed = LabelValuesRequest { matchers: narrowed, ..hosts.clone() };
    assert_eq!(client.label_values(narrowed).await.unwrap().into_inner().values, ["h12", "h13"]);
    let before = Some(TimeRange { min_ms: 0, max_ms: start - 1 });
    let before = LabelValuesRequest { range: before, ..hosts };
    assert!(client.label_values(before).await.unwrap().into_inner().values.is_empty());
}

#[tokio::test]
async fn what_means_nothing_is_refused_with_words() {
    let node = Node::start(1);
    let check = async |request: SelectRequest, words: &str| {
        let status = client(&node).await.select(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(words), "{status}");
    };
    let columns = SampleEncoding::Columns;
    check(select(named("("), ALWAYS, columns), "\"(\"").await;
    check(select(named(".*"), ALWAYS, columns), "must not match the empty value").await;
    check(select(vec![], ALWAYS, columns), "must not match the empty value").await;
    check(SelectRequest { range: None, ..select(named("up"), ALWAYS, columns) }, "range").await;
    let unknown = Matcher { kind: 9, ..Matcher::default() };
    check(select(vec![unknown], ALWAYS, columns), "no kind 9").await;
    check(select(vec![matcher("a", MatcherKind::Equal, "b"); 300], ALWAYS, columns), "300 matchers").await;
    check(SelectRequest { encoding: 7, ..select(named("up"), ALWAYS, columns) }, "encoding 7").await;
    let nameless = client(&node).await.label_values(LabelValuesRequest::default()).await.unwrap_err();
    assert_eq!(nameless.code(), Code::InvalidArgument);
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_reads_total{shard=\"0\"} 8\n"), "{metrics}");
    assert!(metrics.contains("silverback_reads_failed_total{shard=\"0\"} 8\n"), "{metrics}");
}

/// More than any socket's buffers take.
pub(crate) fn write_wide(node: &Node) {
    let start = start_ms();
    for part in 0..20 {
        let one = |i: i32| {
            let values = (0..1000).map(|s| f64::from(s * 7919 % 1013).sin());
            series(&[("__name__", "wide"), ("i", &format!("{part}-{i}"))], start, values)
        };
        write(node, &(0..60).map(one).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_its_permit_alone_and_gives_it_back_when_it_leaves() {
    let node = Node::start_with(1, |config| {
        config.max_reads = 1;
        config.request_timeout = Duration::from_secs(1);
    });
    write_wide(&node);
    let mut stopped =
        client(&node).await.select(select(named("wide"), ALWAYS, SampleEncoding::Columns)).await;
    stopped.as_mut().unwrap().get_mut().message().await.unwrap();
    assert_eq!(node.get("/-/healthy").status, 200);
    let status = client(&node).await.label_names(LabelNamesRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "no turn came: {status}");
    drop(stopped);
    let waiting = Waiting::begin();
    while client(&node).await.label_names(LabelNamesRequest::default()).await.is_err() {
        waiting.check(|| "the read of a client that left goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_shard_open_selects{shard=\"0\"} 0\n"), "{metrics}");
}
