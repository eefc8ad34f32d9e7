//! Connections: what isn't HTTP, heads too large, requests one after the other, too many of them.

use std::io::{Read, Write};

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, body, headers};
use silverback_test_support::http::{Kept, read_answer, request};

use crate::bad_input::bystander::Scene;
use crate::bad_input::metrics::{Reading, wait_for, wait_with};

const ERRORS: &str = "silverback_connection_errors_total";
const OPEN: &str = "silverback_connections";
const REFUSED: &str = "silverback_connections_refused_total";

/// Bytes that no HTTP client sends.
pub(super) const GARBAGE: [&[u8]; 5] = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client's hello\r\n\r\n",
    b"\0\0\0\0\0\0\0\0\r\n\r\n",
    b"POST /api/v1/write\r\n\r\n",
    b"POST /api/v1/write HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    b"POST /api/v1/write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
];

/// The connection is answered with one of these, closed, and counted.
fn check_refused(scene: &Scene, bytes: &[u8], statuses: &[u16], errors: u64) {
    let mut connection = scene.node.keep();
    // All of it may not find its way before the answer.
    drop(connection.0.get_mut().write_all(bytes));
    let answer = read_answer(&mut connection.0);
    assert!(statuses.contains(&answer.status), "{} to {:?}", answer.status, String::from_utf8_lossy(bytes));
    assert!(matches!(connection.0.read(&mut [0]), Ok(0) | Err(_)), "the connection is closed");
    wait_for(&scene.node, ERRORS, errors);
    scene.check_goes_on();
}

#[test]
fn what_is_no_http_is_refused_and_its_connection_closed() {
    let scene = Scene::start(1);
    for (garbage, errors) in GARBAGE.into_iter().zip(1..) {
        check_refused(&scene, garbage, &[400], errors);
    }
}

#[test]
fn a_head_too_large_is_refused() {
    let scene = Scene::start(1);
    let huge = "x".repeat(40 << 10);
    let names: Vec<String> = (0..200).map(|i| format!("x-{i}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    check_refused(&scene, &request("POST", PATH, &[("x-huge", &huge)], b""), &[431], 1);
    check_refused(&scene, &request("POST", PATH, &many, b""), &[431], 2);
    check_refused(&scene, &request("POST", &format!("/{huge}"), &[], b""), &[414, 431], 3);
}

#[test]
fn requests_sent_one_behind_the_other_are_answered_in_their_order() {
    let scene = Scene::start(3);
    let mut connection = scene.node.keep();
    let post = |body: &[u8]| request("POST", PATH, &headers(Version::V2), body);
    let good = || post(&body(Version::V2, &[scene.beside()]));
    let pipeline = [good(), post(b"bad"), request("GET", PATH, &[], b""), good(), post(b"bad"), good()];
    connection.0.get_mut().write_all(&pipeline.concat()).unwrap();
    let statuses = pipeline.map(|_| read_answer(&mut connection.0).status);
    assert_eq!(statuses, [204, 400, 405, 204, 400, 204]);
    scene.write_on(&mut connection, Version::V1);
    scene.check_goes_on();
}

#[test]
fn a_chunk_that_claims_more_than_a_body_may_have_is_refused_at_once() {
    let scene = Scene::start(1);
    let head = "POST /write HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    for chunks in ["ffffffffffffffff\r\nup v=1", "4\r\nup v\r\n7fffffff\r\n"] {
        let mut connection = scene.node.keep();
        let began = std::time::Instant::now();
        connection.0.get_mut().write_all([head, chunks].concat().as_bytes()).unwrap();
        assert_eq!(read_answer(&mut connection.0).status, 400);
        assert!(matches!(connection.0.read(&mut [0]), Ok(0) | Err(_)), "the connection is closed");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
    scene.check_goes_on();
}

/// What one proxy takes for a body's end another may take for its middle, and what follows for a request.
#[test]
fn after_a_request_with_two_lengths_nothing_on_its_connection_is_a_request() {
    let scene = Scene::start(1);
    let (length, chunked) = ("content-length: 3\r\n", "transfer-encoding: chunked\r\n");
    for lengths in [[length, chunked].concat(), [chunked, length].concat()] {
        let head = format!("POST /write HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n");
        let smuggled = request("GET", "/-/healthy", &[], b"");
        let mut connection = scene.node.keep();
        let bytes = [head.as_bytes(), b"6\r\nup v=1\r\n0\r\n\r\n", &smuggled].concat();
        connection.0.get_mut().write_all(&bytes).unwrap();
        let answer = read_answer(&mut connection.0);
        assert_eq!((answer.status, answer.header("connection")), (204, "close"));
        assert!(matches!(connection.0.read(&mut [0]), Ok(0) | Err(_)), "the connection is closed");
    }
    scene.check_goes_on();
}

#[test]
fn connections_over_the_limit_are_closed_and_a_freed_place_is_usable() {
    const MAX: usize = 8;
    let scene = Scene::start_with(1, |config| config.max_connections = MAX);
    let mut watching = scene.node.keep();
    // The connections of the start may still have their places.
    wait_with(|| Reading::on(&mut watching), OPEN, 1);
    let mut kept: Vec<Kept> = (1..MAX).map(|_| scene.node.keep()).collect();
    assert!(kept.iter_mut().all(is_served));
    for _ in 0..5 {
        assert!(!is_served(&mut scene.node.keep()));
    }
    wait_with(|| Reading::on(&mut watching), REFUSED, 5);
    for connection in &mut kept {
        scene.write_on(connection, Version::V2);
    }
    drop(kept);
    wait_with(|| Reading::on(&mut watching), OPEN, 1);
    scene.check_goes_on();
}

fn is_served(connection: &mut Kept) -> bool {
    let request = request("GET", "/-/healthy", &[], b"");
    if connection.0.get_mut().write_all(&request).is_err() {
        return false;
    }
    // One byte ahead: a closed connection has none.
    let is_open = matches!(connection.0.get_mut().peek(&mut [0]), Ok(1));
    is_open && read_answer(&mut connection.0).status == 200
}
