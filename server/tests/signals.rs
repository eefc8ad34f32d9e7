//! How the command ends on signals: in order at the first signal, at once at the second.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use silverback_test_support::http2::{END_HEADERS, END_STREAM, HEADERS, Http2, SETTINGS, frame, head};
use silverback_test_support::{Binary, TEST_TIMEOUT};

fn start() -> Binary {
    Binary::start(env!("CARGO_BIN_EXE_silverback"), &["--shards", "1"])
}

/// A connection with half a request on it, which the node waits for.
fn half_a_request(node: &Binary) -> TcpStream {
    let mut stream = node.connect();
    let half = b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc";
    stream.write_all(half).unwrap();
    // Long enough that the request is in flight before a signal comes, on a busy machine, too.
    std::thread::sleep(Duration::from_secs(1));
    stream
}

#[test]
fn one_signal_and_its_echo_end_the_node_in_order() {
    let mut node = start();
    drop(node.connect());
    node.signal(15);
    node.signal(15);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn a_request_under_way_is_finished_first() {
    let mut node = start();
    let mut stream = half_a_request(&node);
    node.signal(15);
    std::thread::sleep(Duration::from_millis(200));
    stream.write_all(b"defghij").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(node.wait().code(), Some(0));
}

/// A connection over HTTP/2 whose client says nothing more, not even in answer to pings.
fn silent_http2(node: &Binary) -> Http2 {
    let stream = node.connect();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut http2 = Http2::begin(stream).unwrap();
    http2.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("HEAD", "/-/healthy", &[]))).unwrap();
    while http2.receive().unwrap().0 != HEADERS {}
    http2.send(&frame(SETTINGS, 1, 0, &[])).unwrap();
    http2
}

#[test]
fn an_http_2_client_that_does_not_answer_goaway_holds_no_stop_up() {
    const GOAWAY: u8 = 7;

    let mut node =
        Binary::start(env!("CARGO_BIN_EXE_silverback"), &["--shards", "1", "--shutdown-timeout", "60s"]);
    let mut http2 = silent_http2(&node);
    let signalled = Instant::now();
    node.signal(15);
    while http2.receive().unwrap().0 != GOAWAY {}
    assert_eq!(node.wait().code(), Some(0));
    // Beyond two seconds only what a busy machine takes; pings that aren't answered ended it in eighty.
    assert!(signalled.elapsed() < Duration::from_secs(15), "{:?}", signalled.elapsed());
}

#[test]
fn a_second_signal_ends_the_node_at_once() {
    let mut node = start();
    let _stream = half_a_request(&node);
    node.signal(15);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(node.ended(), None, "it waits for the request");
    node.signal(15);
    let status = node.wait();
    assert_eq!((status.code(), status.signal()), (Some(128 + 15), None));
}
