//! Streams of large batches that together take more than all the memory for requests. The node is
//! a process of its own: what else is resident counts against the limit.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::future::join_all;
use futures::{Stream, StreamExt, stream};
use http::{HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_node_test_support::written::start_ms;
use silverback_proto::v1;
use silverback_test_support::home::Home;
use silverback_test_support::wire::varint;
use tokio::net::TcpStream;

/// Twice what fits 28 MiB, which all that are large have.
const STREAMS: usize = 16;
const HISTOGRAMS: i64 = 900;
const PADDING_BYTES: usize = 4096;

/// A field of a later version, which costs little but its room.
fn unknown_field() -> Vec<u8> {
    const TAG: u64 = 100 << 3 | 2;

    [varint(TAG), varint(PADDING_BYTES as u64), vec![0; PADDING_BYTES]].concat()
}

/// A message of 3.7 MB: a series and its histograms.
fn message(name: &str, begin_ms: i64) -> v1::StreamRequest {
    let histograms = (begin_ms..begin_ms + HISTOGRAMS).map(|timestamp_ms| {
        let mut message = unknown_field();
        Histogram::default()
            .put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
        message.into()
    });
    let histogram_ref_deltas = vec![0; HISTOGRAMS as usize];
    let batch =
        v1::Batch { number: 1, histogram_ref_deltas, histograms: histograms.collect(), ..Default::default() };
    let label = v1::Label { name: "__name__".to_owned(), value: name.to_owned() };
    v1::StreamRequest {
        series: vec![v1::SeriesDefinition { labels: vec![label], r#ref: 0 }],
        batch: Some(batch),
    }
}

/// A message as gRPC frames it.
fn framed(message: &v1::StreamRequest) -> Bytes {
    let message = message.encode_to_vec();
    [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat().into()
}

/// Its first half, and the other one a while after the connection has taken that.
fn in_halves(message: Bytes) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let second = message.slice(message.len() / 2..);
    let later = async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        second
    };
    let halves = stream::iter([message.slice(..message.len() / 2)]).chain(stream::once(later));
    halves.map(|half| Ok(Frame::data(half)))
}

type Sender =
    http2::SendRequest<StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>>>;

async fn connect(address: SocketAddr) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// What the node answers on a stream: how many samples are written, once it ended well; the status, where it did not.
async fn written(
    mut sender: Sender,
    address: SocketAddr,
    message: v1::StreamRequest,
) -> Result<u64, (HeaderValue, Option<HeaderValue>)> {
    let request = Request::post(format!("http://{address}/silverback.v1.Ingest/Stream"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(StreamBody::new(Box::pin(in_halves(framed(&message))) as _))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    let status = answer
        .trailers()
        .map(|trailers| (trailers["grpc-status"].clone(), trailers.get("grpc-message").cloned()));
    let status = status.expect("a stream ends with its status");
    if status.0 != "0" {
        return Err(status);
    }
    let (mut rest, mut written) = (answer.to_bytes(), 0);
    while !rest.is_empty() {
        rest.advance(1);
        let len = rest.get_u32() as usize;
        let told = v1::StreamResponse::decode(rest.split_to(len)).unwrap();
        assert_eq!(told.refusals, []);
        written += told.samples_written;
    }
    Ok(written)
}

/// None waits for room for a copy of its message, or for the rest of it, while the others do the same.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_come_together_are_taken_in_one_after_the_other() {
    let home = Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), "large-batches");
    let mut node = home.start_ready(&["--shards=1", "--memory-limit=256MiB"]);
    let address = node.address();
    let begin_ms = start_ms();
    let sent = (0..STREAMS).map(|number| {
        let message = message(&format!("large_{number}"), begin_ms);
        tokio::spawn(async move { written(connect(address).await, address, message).await })
    });
    for written in join_all(sent.collect::<Vec<_>>()).await {
        assert_eq!(written.unwrap(), Ok(HISTOGRAMS as u64));
    }
}

/// What of one that waits for memory has come already keeps the others' from coming: it is refused in time.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_share_a_connection_end_all_of_them() {
    let home =
        Home::new(env!("CARGO_BIN_EXE_silverback"), env!("CARGO_TARGET_TMPDIR"), "large-batches-shared");
    let mut node = home.start_ready(&["--shards=2", "--memory-limit=256MiB"]);
    let address = node.address();
    let (sender, begin_ms) = (connect(address).await, start_ms());
    let sent = (0..STREAMS).map(|number| {
        tokio::spawn(written(sender.clone(), address, message(&format!("shared_{number}"), begin_ms)))
    });
    let all = tokio::time::timeout(Duration::from_secs(60), join_all(sent.collect::<Vec<_>>())).await;
    let all = all.expect("each stream ends, with its samples stored or refused for memory");
    let stored = all.into_iter().filter(|written| match written.as_ref().unwrap() {
        Ok(samples) => *samples == HISTOGRAMS as u64,
        Err((status, why)) => {
            assert_eq!(status, "8", "{why:?}");
            false
        }
    });
    assert!(stored.count() > 0);
}
