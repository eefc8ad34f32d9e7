//! Requests whose method, headers or size are wrong.

use std::io::Write;

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, VERSIONS, body, compress, headers};
use silverback_test_support::http::{Answer, head, read_answer, request};

use crate::bad_input::bystander::{Expect, Scene};
use crate::bad_input::metrics::{MALFORMED, Reading};

const LIMIT_BYTES: usize = 100_000;

fn small_bodies() -> Scene {
    Scene::start_with(1, |config| config.max_body_bytes = LIMIT_BYTES)
}

/// One request is refused whole and counted, and its connection serves the next.
fn check(scene: &Scene, method: &str, headers: &[(&str, &str)], status: u16, words: &str) -> Answer {
    let before = Reading::of(&scene.node).sum(MALFORMED);
    let mut connection = scene.node.keep();
    let answer = connection.ask(method, PATH, headers, b"");
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.text().contains(words), "{}", answer.text());
    scene.write_on(&mut connection, Version::V1);
    scene.check_goes_on();
    assert_eq!(Reading::of(&scene.node).sum(MALFORMED) - before, 1);
    answer
}

#[test]
fn other_types_and_encodings_are_told_what_is_taken() {
    let scene = Scene::start(1);
    let check = |headers: &[(&str, &str)], words| check(&scene, "POST", headers, 415, words);
    for other in ["text/plain", "application/json", "application/x-protobuf;proto=io.prometheus.write.v3.R"] {
        check(&[("content-type", other)], "send application/x-protobuf");
    }
    for other in ["gzip", "zstd", "snappy, gzip", "identity"] {
        check(&[("content-encoding", other)], "send snappy (block format)");
    }
    check(&[("content-type", "application/x-protobuf"), ("content-type", "text/plain")], "occurs twice");
}

#[test]
fn other_methods_are_told_to_post() {
    let scene = Scene::start(1);
    for method in ["GET", "PUT", "DELETE"] {
        let answer = check(&scene, method, &[], 405, "POST requests alone");
        assert_eq!(answer.header("allow"), "POST");
    }
}

#[test]
fn a_request_of_nothing_is_a_good_one() {
    let scene = Scene::start(1);
    for version in VERSIONS {
        let expect = Expect { status: 204, words: "", written: 0, counted: &[] };
        scene.check(version, &compress(b""), &expect);
    }
}

#[test]
fn a_body_that_is_announced_too_large_is_refused_before_it_is_sent() {
    let scene = small_bodies();
    for version in VERSIONS {
        let mut connection = scene.node.keep();
        let head = head("POST", PATH, &headers(version), LIMIT_BYTES + 1);
        connection.0.get_mut().write_all(head.as_bytes()).unwrap();
        check_too_large(&scene, &read_answer(&mut connection.0));
    }
    assert_eq!(Reading::of(&scene.node).sum(MALFORMED), 2);
}

#[test]
fn a_body_that_turns_out_too_large_is_refused_where_it_does() {
    let scene = small_bodies();
    let mut connection = scene.node.keep();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    connection.0.get_mut().write_all(head.as_bytes()).unwrap();
    let chunk = [&b"4000\r\n"[..], &[0; 0x4000], b"\r\n"].concat();
    for _ in 0..LIMIT_BYTES / 0x4000 + 1 {
        // The last of them may find the connection closed.
        if connection.0.get_mut().write_all(&chunk).is_err() {
            break;
        }
    }
    check_too_large(&scene, &read_answer(&mut connection.0));
    assert_eq!(Reading::of(&scene.node).sum(MALFORMED), 1);
}

/// The rest of such a body is not waited for, so its connection can't be used again.
fn check_too_large(scene: &Scene, answer: &Answer) {
    assert_eq!((answer.status, answer.header("connection")), (413, "close"));
    assert!(answer.text().contains("the body is larger than 100000 bytes"), "{}", answer.text());
    scene.check_goes_on();
}

#[test]
fn a_chunked_body_within_the_limit_is_taken() {
    let scene = small_bodies();
    let mut connection = scene.node.keep();
    let body = body(Version::V2, &[scene.beside()]);
    let [encoding, content_type] = headers(Version::V2);
    let headers = [encoding, content_type, ("transfer-encoding", "chunked")];
    let mut bytes = request("GET", PATH, &headers, b"");
    bytes.splice(..3, *b"POST");
    for byte in &body {
        bytes.extend([b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
    }
    bytes.extend(b"0\r\n\r\n");
    connection.0.get_mut().write_all(&bytes).unwrap();
    assert_eq!(read_answer(&mut connection.0).status, 204);
    scene.check_goes_on();
}
