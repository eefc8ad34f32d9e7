//! gRPC on the port that speaks HTTP: the health service as a stock client asks it, byte by byte.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use silverback_node_test_support::Node;
use silverback_test_support::TEST_TIMEOUT;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A message of no fields: not compressed, no bytes.
const EMPTY_MESSAGE: &[u8] = &[0, 0, 0, 0, 0];
/// `status = SERVING`
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 0x08, 1];
/// `service = "x"`
const UNKNOWN: &[u8] = &[0, 0, 0, 0, 3, 0x0a, 1, b'x'];
/// `status = SERVICE_UNKNOWN`
const SERVICE_UNKNOWN: &[u8] = &[0, 0, 0, 0, 2, 0x08, 3];
/// `status = NOT_SERVING`
const NOT_SERVING: &[u8] = &[0, 0, 0, 0, 2, 0x08, 2];

/// Calls a method over HTTP/2.
async fn begin(node: &Node, path: &str, message: &'static [u8]) -> Response<Incoming> {
    let stream = TcpStream::connect(node.address).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{}{path}", node.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(message)));
    let response = client.send_request(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 200, "gRPC tells its status in its own headers");
    response
}

/// The same; gives its messages, headers and trailers.
async fn call(node: &Node, path: &str, message: &'static [u8]) -> (Bytes, HeaderMap, HeaderMap) {
    let response = begin(node, path, message).await;
    let headers = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    (body.to_bytes(), headers, trailers)
}

#[tokio::test]
async fn a_running_node_says_that_it_serves() {
    let node = Node::start(1);
    let (messages, _, trailers) = call(&node, "/grpc.health.v1.Health/Check", EMPTY_MESSAGE).await;
    assert_eq!(&messages[..], SERVING);
    assert_eq!(trailers["grpc-status"], "0");
}

#[tokio::test]
async fn an_unknown_service_or_method_is_told_so() {
    let node = Node::start(1);
    let (_, headers, trailers) = call(&node, "/grpc.health.v1.Health/Check", UNKNOWN).await;
    let status = trailers.get("grpc-status").or(headers.get("grpc-status"));
    assert_eq!(status.unwrap(), "5");
    let (_, headers, _) = call(&node, "/no.such.Service/Method", EMPTY_MESSAGE).await;
    assert_eq!(headers["grpc-status"], "12");
    assert!(headers["grpc-message"].to_str().unwrap().contains("no.such.Service"));
}

#[tokio::test]
async fn a_watched_health_tells_of_the_end_and_ends() {
    let node = Node::start(1);
    let watching = call(&node, "/grpc.health.v1.Health/Watch", EMPTY_MESSAGE);
    let ending = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        node.request_shutdown();
    };
    let ((messages, _, trailers), ()) = tokio::join!(watching, ending);
    assert_eq!(&messages[..], [SERVING, NOT_SERVING].concat());
    assert_eq!(trailers["grpc-status"], "0");
}

#[tokio::test]
async fn a_watch_of_a_service_that_is_not_known_stays_open_until_the_node_ends() {
    let node = Node::start(1);
    let mut messages = begin(&node, "/grpc.health.v1.Health/Watch", UNKNOWN).await.into_body();
    let first = messages.frame().await.expect("a message").unwrap();
    assert_eq!(first.into_data().expect("a message"), SERVICE_UNKNOWN);
    // It would come with the message, or right after it.
    let further = timeout(Duration::from_millis(500), messages.frame()).await;
    assert!(further.is_err(), "{further:?}");
    node.request_shutdown();
    let end = timeout(TEST_TIMEOUT, messages.frame()).await.expect("an end in time");
    let trailers = end.expect("trailers").unwrap().into_trailers().expect("no message");
    assert_eq!(trailers["grpc-status"], "0");
}

#[tokio::test]
async fn a_watched_health_reports_a_log_that_accepts_nothing() {
    let mut data_dir = PathBuf::new();
    let node = Node::start_with(1, |config| data_dir.clone_from(&config.data_dir));
    let mut messages = begin(&node, "/grpc.health.v1.Health/Watch", EMPTY_MESSAGE).await.into_body();
    let mut next = async || {
        let frame = timeout(TEST_TIMEOUT, messages.frame()).await.expect("a message in time");
        frame.expect("the stream goes on").unwrap().into_data().expect("a message")
    };
    assert_eq!(next().await, SERVING);
    std::fs::rename(data_dir.join("wal"), data_dir.join("moved")).unwrap();
    assert_eq!(next().await, NOT_SERVING);
}
