//! Requests whose one message never comes whole: they end with their time, and count while they last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use silverback_model::limits::memory::SMALL_REQUESTS_SHARE;
use silverback_node_test_support::Node;
use silverback_test_support::{Binary, Waiting};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service;

use crate::grpc::channel::{Channel, origin};

const MESSAGE_BYTES: usize = (4 << 20) - 1000;

const OTLP: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Begins a call: all of its message comes but the last byte, and then nothing more.
async fn begin(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> JoinHandle<Response<Incoming>> {
    let prefix = [&[0][..], &(MESSAGE_BYTES as u32).to_be_bytes()].concat();
    let pieces = [prefix, vec![0; MESSAGE_BYTES - 1]]
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
    let body = StreamBody::new(stream::iter(pieces).chain(stream::pending()));
    let mut request = Request::post(format!("{}{path}", origin(address).to_string().trim_end_matches('/')))
        .header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let call = Channel::open(address).await.call(request.body(Body::new(body)).unwrap());
    tokio::spawn(async move { call.await.unwrap() })
}

async fn answer(call: JoinHandle<Response<Incoming>>) -> Response<Incoming> {
    tokio::time::timeout(Duration::from_secs(20), call).await.expect("it is answered").unwrap()
}

fn header<'a>(response: &'a Response<Incoming>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

fn in_flight_bytes(node: &Binary) -> f64 {
    let metrics = node.get("/metrics").text();
    let line = metrics.lines().find(|line| line.starts_with("silverback_write_in_flight_bytes{")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_message_that_does_not_come_whole_ends_with_the_request_timeout() {
    let node = Node::start_with(1, |config| config.request_timeout = Duration::from_secs(1));
    let paths = ["/silverback.v1.Ingest/Write", OTLP, "/silverback.v1.Admin/Cells"];
    for path in paths {
        for headers in [&[][..], &[("grpc-encoding", "snappy")]] {
            let began = Instant::now();
            let response = answer(begin(node.address, path, headers).await).await;
            assert_eq!(header(&response, "grpc-status"), "4", "{path} {headers:?}: {response:?}");
            assert!(began.elapsed() < Duration::from_secs(20), "{path} {headers:?}: {:?}", began.elapsed());
        }
    }
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_grpc_requests_unread_total{shard=\"0\"} 6\n"), "{metrics}");
}

#[tokio::test]
async fn messages_that_do_not_come_whole_have_bounded_room() {
    // Of which an eighth is for requests in flight, but for what small ones have to themselves. The node has a process
    // of its own, for all of its process' memory counts.
    const LIMIT_BYTES: usize = 256 << 20;
    const OF_LARGE_BYTES: usize = LIMIT_BYTES / 8 / SMALL_REQUESTS_SHARE * (SMALL_REQUESTS_SHARE - 1);
    const ROOM: usize = OF_LARGE_BYTES / MESSAGE_BYTES;
    let options = ["--shards", "1", "--memory-limit", &LIMIT_BYTES.to_string()];
    let node = Binary::start(env!("CARGO_BIN_EXE_silverback"), &options);
    let mut waiting = Vec::new();
    for _ in 0..ROOM {
        waiting.push(begin(node.address, "/silverback.v1.Ingest/Write", &[]).await);
    }
    let begun = Waiting::begin();
    while in_flight_bytes(&node) < (ROOM * MESSAGE_BYTES) as f64 {
        begun.check(|| format!("{} bytes count", in_flight_bytes(&node)));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = answer(begin(node.address, "/silverback.v1.Ingest/Write", &[]).await).await;
    assert_eq!(header(&refused, "grpc-status"), "8", "{refused:?}");
    assert_eq!(header(&refused, "retry-after-ms"), "1000", "{refused:?}");
    // To OTLP's senders that would be for good.
    let refused = answer(begin(node.address, OTLP, &[]).await).await;
    assert_eq!(header(&refused, "grpc-status"), "14", "{refused:?}");
    assert_eq!(header(&refused, "retry-after-ms"), "1000", "{refused:?}");
    assert!(waiting.iter().all(|call| !call.is_finished()));
    waiting.iter().for_each(JoinHandle::abort);
    while in_flight_bytes(&node) > 0.0 {
        begun.check(|| "the room of clients that left stays taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
