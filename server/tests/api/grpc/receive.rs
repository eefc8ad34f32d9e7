//! `thanos.WriteableStore/RemoteWrite`, as Thanos Receive's routers call it.

use std::convert::Infallible;
use std::io::Write;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::{self, StreamExt};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::start_ms;
use silverback_proto::prometheus::{Exemplar, Label, Sample, TimeSeries};
use silverback_proto::thanos::writeable_store_client::WriteableStoreClient;
use silverback_proto::thanos::{TimeSeriesTenantTuple, WriteRequest};
use silverback_test_support::wire::{field, number};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service;

use crate::grpc::channel::{Channel, origin};

const PATH: &str = "thanos.WriteableStore/RemoteWrite";
const OWN: &str = "default-tenant";

fn series(name: &str, samples: &[(i64, f64)]) -> TimeSeries {
    let label = |(name, value): (&str, &str)| Label { name: name.into(), value: value.into() };
    TimeSeries {
        labels: [("__name__", name), ("job", "node")].map(label).to_vec(),
        samples: samples
            .iter()
            .map(|(timestamp, value)| Sample { timestamp: *timestamp, value: *value })
            .collect(),
        ..TimeSeries::default()
    }
}

/// As routers of today send it.
fn of_tenant(tenant: &str, timeseries: Vec<TimeSeries>) -> Vec<u8> {
    let request = WriteRequest { timeseries, tenant: tenant.into(), replica: 1, ..WriteRequest::default() };
    request.encode_to_vec()
}

/// As routers of tomorrow do.
fn by_tenant(parts: Vec<(&str, Vec<TimeSeries>)>) -> Vec<u8> {
    let part = |(tenant, timeseries): (&str, _)| TimeSeriesTenantTuple { timeseries, tenant: tenant.into() };
    let timeseries_tenant_data = parts.into_iter().map(part).collect();
    WriteRequest { timeseries_tenant_data, ..WriteRequest::default() }.encode_to_vec()
}

fn snappy(message: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(message).unwrap();
    encoder.into_inner().unwrap()
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat().into()
}

struct Told {
    code: Code,
    words: String,
    accepts: String,
}

/// The answer to a body that comes in these pieces.
async fn call(
    node: &Node,
    encoding: &str,
    pieces: impl futures::Stream<Item = Bytes> + Send + 'static,
) -> Told {
    let body = StreamBody::new(pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
    let mut request =
        Request::post(format!("{}{PATH}", origin(node.address))).header("content-type", "application/grpc");
    if !encoding.is_empty() {
        request = request.header("grpc-encoding", encoding);
    }
    let request = request.header("te", "trailers").body(Body::new(body)).unwrap();
    let (head, body) = Channel::open(node.address).await.call(request).await.unwrap().into_parts();
    let read = body.collect().await.unwrap();
    let trailers = read.trailers().cloned().unwrap_or_default();
    let of = |name: &str| {
        trailers.get(name).or(head.headers.get(name)).map(|value| value.to_str().unwrap().to_owned())
    };
    let code = Code::from_bytes(of("grpc-status").expect("a status").as_bytes());
    let words = of("grpc-message").unwrap_or_default();
    let words = percent_encoding::percent_decode_str(&words).decode_utf8().unwrap().into_owned();
    Told { code, words, accepts: of("grpc-accept-encoding").unwrap_or_default() }
}

async fn send(node: &Node, encoding: &str, sent: &[u8]) -> Told {
    let flag = u8::from(!encoding.is_empty());
    call(node, encoding, stream::iter([framed(flag, sent)])).await
}

/// A message as routers send it by default.
async fn write(node: &Node, message: &[u8]) -> Told {
    send(node, "snappy", &snappy(message)).await
}

fn check(told: &Told, code: Code, words: &[&str]) {
    assert_eq!(told.code, code, "{}", told.words);
    assert!(words.iter().all(|part| told.words.contains(part)), "{}", told.words);
}

/// What is stored under a name.
fn stored(node: &Node, name: &str) -> Vec<(i64, f64)> {
    let text = node.get(&format!("/api/v1/export?match[]={name}")).text();
    let Some(line) = text.lines().next() else { return Vec::new() };
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let column = |key: &str| line[key].as_array().unwrap().clone();
    let pairs = column("timestamps").into_iter().zip(column("values"));
    pairs.map(|(ms, value)| (ms.as_i64().unwrap(), value.as_f64().unwrap())).collect()
}

fn has_metric(node: &Node, line: &str) {
    let metrics = node.get("/metrics").text();
    assert!(metrics.lines().any(|found| found == line), "{line} isn't in {metrics}");
}

#[tokio::test]
async fn both_forms_are_stored_in_every_encoding_and_a_retry_is_too() {
    let (node, ms) = (Node::start(2), start_ms());
    let forms = |name: &str| {
        let good = vec![series(name, &[(ms, 1.5), (ms + 1, 2.5)])];
        [
            of_tenant(OWN, good.clone()),
            by_tenant(vec![(OWN, good), ("", vec![series("beside", &[(ms, 1.0)])])]),
        ]
    };
    type Compress = fn(&[u8]) -> Vec<u8>;
    let encodings: [(&str, &str, Compress); 3] =
        [("plain", "", |message| message.to_vec()), ("snappy", "snappy", snappy), ("gzip", "gzip", gzip)];
    for (name, encoding, compress) in encodings {
        for message in forms(name) {
            for _again in 0..2 {
                let told = send(&node, encoding, &compress(&message)).await;
                check(&told, Code::Ok, &[]);
                assert_eq!(told.accepts, "snappy,gzip,zstd,identity");
                assert_eq!(stored(&node, name), [(ms, 1.5), (ms + 1, 2.5)]);
            }
        }
    }
    assert_eq!(stored(&node, "beside"), [(ms, 1.0)]);
    has_metric(&node, "silverback_write_requests_total{protocol=\"thanos\"} 12");
    has_metric(&node, "silverback_write_requests_total{protocol=\"remote_write_1\"} 0");
}

#[tokio::test]
async fn a_stock_client_writes_with_exemplars() {
    let (node, ms) = (Node::start(1), start_ms());
    let mut one = series("up", &[(ms, 1.0)]);
    let trace = Label { name: "trace_id".into(), value: "abc".into() };
    one.exemplars = vec![Exemplar { labels: vec![trace], value: 0.5, timestamp: ms }];
    let mut client =
        WriteableStoreClient::with_origin(Channel::open(node.address).await, origin(node.address));
    client.remote_write(WriteRequest { timeseries: vec![one], ..WriteRequest::default() }).await.unwrap();
    assert_eq!(stored(&node, "up"), [(ms, 1.0)]);
    let exemplars = node.get("/api/v1/query_exemplars?query=up").text();
    assert!(exemplars.contains("trace_id"), "{exemplars}");
}

#[tokio::test]
async fn field_4_goes_over_the_others() {
    let (node, ms) = (Node::start(1), start_ms());
    let older = of_tenant("somebody", vec![series("older", &[(ms, 1.0)])]);
    let newer = by_tenant(vec![(OWN, vec![series("newer", &[(ms, 1.0)])])]);
    check(&write(&node, &[older, newer].concat()).await, Code::Ok, &[]);
    assert_eq!((stored(&node, "older").len(), stored(&node, "newer").len()), (0, 1));
}

#[tokio::test]
async fn a_message_of_megabytes_is_stored_whole() {
    let (node, ms) = (Node::start(2), start_ms());
    let long = "x".repeat(500);
    let many: Vec<_> = (0..12_000).map(|i| series(&format!("m{i}_{long}"), &[(ms, f64::from(i))])).collect();
    for message in [of_tenant(OWN, many.clone()), by_tenant(vec![(OWN, many)])] {
        assert!(message.len() > 6 << 20);
        check(&write(&node, &message).await, Code::Ok, &[]);
        check(&send(&node, "", &message).await, Code::Ok, &[]);
    }
    assert_eq!(stored(&node, &format!("m11999_{long}")), [(ms, 11_999.0)]);
}

#[tokio::test]
async fn conflicts_are_told_after_all_that_is_good_is_stored() {
    let (node, ms) = (Node::start(2), start_ms());
    let message = |series: Vec<TimeSeries>| of_tenant(OWN, series);
    check(&write(&node, &message(vec![series("a", &[(ms, 1.0)])])).await, Code::Ok, &[]);
    let nameless = TimeSeries { labels: Vec::new(), ..series("x", &[(ms, 1.0)]) };
    let cases = [
        ("duplicate", series("a", &[(ms, 2.0)])),
        ("out_of_order", series("a", &[(ms - 3_600_001, 1.0)])),
        ("too_far_in_future", series("a", &[(ms + 3_600_000_000, 1.0)])),
        ("missing_name", nameless),
    ];
    for (at, (reason, bad)) in (1..).zip(cases) {
        let good = series("good", &[(ms + at, 1.0)]);
        let told = write(&node, &message(vec![bad, good])).await;
        check(&told, Code::AlreadyExists, &["1 of 2 samples refused: ", &format!("{reason} 1"), "; first: "]);
        assert_eq!(stored(&node, "good").len(), at as usize, "{reason}");
    }
    assert_eq!(stored(&node, "a"), [(ms, 1.0)]);
    let refusals = node.get("/api/v1/status/refusals").text();
    assert!(refusals.contains("missing_name"), "{refusals}");
}

#[tokio::test]
async fn no_room_for_new_series_is_told_as_what_passes_and_known_ones_go_on() {
    let node = Node::start_with(1, |config| config.max_series = Some(1.try_into().unwrap()));
    let ms = start_ms();
    check(&write(&node, &of_tenant(OWN, vec![series("known", &[(ms, 1.0)])])).await, Code::Ok, &[]);
    let both = of_tenant(OWN, vec![series("new", &[(ms, 1.0)]), series("known", &[(ms + 1, 2.0)])]);
    check(&write(&node, &both).await, Code::ResourceExhausted, &["series_limit 1"]);
    assert_eq!(stored(&node, "known"), [(ms, 1.0), (ms + 1, 2.0)]);
}

#[tokio::test]
async fn another_tenant_is_refused_by_name_and_nothing_of_it_stored() {
    let node = Node::start_with(1, |config| config.tenant = "team-a".to_owned());
    let one = || vec![series("up", &[(start_ms(), 1.0)])];
    let words = ["tenant \"team-b\"", "\"team-a\"", "--tenant"];
    check(&write(&node, &of_tenant("team-b", one())).await, Code::InvalidArgument, &words);
    let parts = by_tenant(vec![("team-a", one()), ("team-b", one())]);
    check(&write(&node, &parts).await, Code::InvalidArgument, &words);
    assert!(stored(&node, "up").is_empty());
    check(&write(&node, &of_tenant("", one())).await, Code::Ok, &[]);
    check(&write(&node, &of_tenant("team-a", one())).await, Code::Ok, &[]);
    let refusals = node.get("/api/v1/status/refusals").text();
    assert!(refusals.contains("other_tenant"), "{refusals}");
}

#[tokio::test]
async fn what_is_not_understood_is_never_acknowledged() {
    let node = Node::start(1);
    check(&write(&node, b"").await, Code::Ok, &[]);
    check(&write(&node, &field(5, b"series")).await, Code::InvalidArgument, &["nothing of it is known here"]);
    check(&write(&node, &number(3, 1)).await, Code::InvalidArgument, &["nothing of it is known here"]);
    let cut = of_tenant(OWN, vec![series("up", &[(1, 1.0)])]);
    check(&write(&node, &cut[..30]).await, Code::InvalidArgument, &["malformed request at byte"]);
    check(&send(&node, "snappy", b"no snappy").await, Code::InvalidArgument, &["not compressed"]);
    let block = snap::raw::Encoder::new().compress_vec(&cut).unwrap();
    check(&send(&node, "snappy", &block).await, Code::InvalidArgument, &["not compressed"]);
    let told = send(&node, "br", b"x").await;
    check(&told, Code::Unimplemented, &[]);
    assert_eq!(told.accepts, "snappy,gzip,zstd,identity");
    assert_eq!(
        call(&node, "", stream::iter([framed(0, b"cut").slice(..6)])).await.code,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn what_is_larger_than_it_may_be_is_a_conflict_that_no_router_sends_again() {
    let node = Node::start_with(1, |config| {
        config.max_body_bytes = 100_000;
        config.max_decoded_bytes = 1_000_000;
    });
    let bomb = snappy(&vec![0; 1_000_001]);
    assert!(bomb.len() < 100_000);
    check(&send(&node, "snappy", &bomb).await, Code::AlreadyExists, &["larger than 1000000 bytes"]);
    check(&send(&node, "", &[0; 100_001]).await, Code::AlreadyExists, &["larger than 100000 bytes"]);
    // A length alone is enough.
    let claim = Bytes::from_static(&[1, 0xff, 0xff, 0xff, 0xff]);
    check(&call(&node, "snappy", stream::iter([claim])).await, Code::AlreadyExists, &["larger than"]);
    has_metric(&node, "silverback_grpc_requests_unread_total{shard=\"0\"} 3");
}

#[tokio::test]
async fn a_node_that_stops_says_that_it_is_away() {
    let node = Node::start(1);
    let message = framed(0, &of_tenant(OWN, vec![series("up", &[(start_ms(), 1.0)])]));
    let (pieces, sent) = mpsc::unbounded();
    pieces.unbounded_send(message.slice(..20)).unwrap();
    let told = call(&node, "", sent);
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        node.request_shutdown();
        pieces.unbounded_send(message.slice(20..)).unwrap();
        drop(pieces);
    };
    let (told, ()) = tokio::join!(told, stop);
    check(&told, Code::Unavailable, &["stopping"]);
}

#[tokio::test]
async fn a_message_that_does_not_come_whole_ends_with_its_time() {
    let node = Node::start_with(1, |config| config.request_timeout = std::time::Duration::from_secs(1));
    let (pieces, sent) = mpsc::unbounded();
    pieces.unbounded_send(framed(0, &[0; 100]).slice(..50)).unwrap();
    check(&call(&node, "", sent).await, Code::DeadlineExceeded, &["1s"]);
    has_metric(&node, "silverback_grpc_requests_unread_total{shard=\"0\"} 1");
}

#[tokio::test]
async fn a_second_message_is_not_acknowledged_as_if_it_were_stored() {
    let node = Node::start(1);
    let one = |name| framed(0, &of_tenant(OWN, vec![series(name, &[(start_ms(), 1.0)])]));
    let told = call(&node, "", stream::iter([one("first"), one("second")])).await;
    check(&told, Code::InvalidArgument, &["a call takes one message"]);
    assert!(stored(&node, "first").is_empty() && stored(&node, "second").is_empty());
}
