//! How the command ends when it is told to: in order at the first signal, at once at the second.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use silverback_test_support::Binary;

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
