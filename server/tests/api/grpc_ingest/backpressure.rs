//! A client that never reads, and more streams than the shards can serve: the node's memory stays
//! flat, and its senders are held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use silverback_node_test_support::Node;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_test_support::http::Answer;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::grpc_ingest::client::{batch, connect, message, now_ms, series};

/// How long the node is under load; `BACKPRESSURE_SECONDS` sets another.
fn duration() -> Duration {
    let seconds = std::env::var("BACKPRESSURE_SECONDS").map(|text| text.parse().expect("seconds"));
    Duration::from_secs(seconds.unwrap_or(6))
}

/// Sends batches as fast as they are taken, until the end; counts them. Responses are read or not.
async fn flood(channel: Channel, prefix: String, reads: Reads, until: Instant, sent: Arc<AtomicU64>) {
    const SERIES: u32 = 200;
    let (requests, receiver) = tokio::sync::mpsc::channel::<v1::StreamRequest>(1);
    let mut responses =
        IngestClient::new(channel).stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let reading = async {
        match reads {
            Reads::All => while responses.message().await.unwrap_or_default().is_some() {},
            Reads::Nothing => tokio::time::sleep_until(until.into()).await,
        }
    };
    let sending = async {
        let mut defined = (0..SERIES).map(|s| series(s, &format!("{prefix}_{s}"))).collect();
        let begin = now_ms() - 500_000;
        for number in 1.. {
            let samples: Vec<_> = (0..SERIES * 10)
                .map(|i| (i / 10, begin + 10 * number as i64 + i64::from(i % 10), 1.0))
                .collect();
            let next = message(std::mem::take(&mut defined), Some(batch(number, &samples)));
            // The node ends a stream on which nothing moves for long: then no more can be sent.
            let Ok(Ok(())) = tokio::time::timeout_at(until.into(), requests.send(next)).await else { break };
            sent.fetch_add(1, Ordering::Relaxed);
        }
        drop(requests);
    };
    tokio::join!(reading, sending);
}

#[derive(Clone, Copy)]
enum Reads {
    All,
    Nothing,
}

/// A metric's sum over the shards.
pub(super) fn told(metrics: &Answer, name: &str) -> f64 {
    let metrics = metrics.text();
    let of = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with('{');
    metrics.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Floods a node from so many streams and gives the batches sent, and the most that was in flight.
async fn check(streams: usize, reads: Reads) -> (u64, f64) {
    let node = Node::start(2);
    let (until, sent) = (Instant::now() + duration(), Arc::new(AtomicU64::new(0)));
    let mut floods = tokio::task::JoinSet::new();
    for number in 0..streams {
        let channel = connect(node.address).await;
        floods.spawn(flood(channel, format!("s{number}"), reads, until, Arc::clone(&sent)));
    }
    let mut in_flight_max = 0f64;
    while Instant::now() < until {
        in_flight_max = in_flight_max.max(told(&node.get("/metrics"), "silverback_write_in_flight_bytes"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    floods.join_all().await;
    assert_eq!(node.get("/-/ready").status, 200);
    (sent.load(Ordering::Relaxed), in_flight_max)
}

/// Parts of the batches that a stream may have in flight, in bytes.
const STREAM_BYTES_MAX: f64 = 64.0 * 2000.0 * 48.0;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_held_up_and_holds_little() {
    let (sent, in_flight_max) = check(1, Reads::Nothing).await;
    assert!(sent > 100, "{sent} batches");
    assert!(in_flight_max <= STREAM_BYTES_MAX, "{in_flight_max} bytes in flight");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_the_shards_can_serve_share_what_there_is() {
    let (sent, in_flight_max) = check(40, Reads::All).await;
    assert!(sent > 400, "{sent} batches");
    assert!(in_flight_max <= 40.0 * STREAM_BYTES_MAX, "{in_flight_max} bytes in flight");
}
