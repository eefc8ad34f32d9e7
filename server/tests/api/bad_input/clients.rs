//! Clients that are slow, or leave early.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use silverback::api::ingest::remote_write::Version;
use silverback::config::AdminAccess;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_test_support::http::{Kept, head, read_answer};

use crate::bad_input::bystander::{Scene, samples};
use crate::bad_input::metrics::{MALFORMED, Reading, wait_for};

const TIMED_OUT: &str = "silverback_connections_timed_out_total";
const IN_FLIGHT: &str = "silverback_http_requests_in_flight";
const LIMIT: Duration = Duration::from_secs(1);

/// Sends byte after byte, far slower than the limit, while others are served; until it is cut off.
fn drip(scene: &Scene, connection: &mut Kept, bytes: &[u8]) {
    let (began, mut fastest) = (Instant::now(), Duration::MAX);
    for byte in bytes {
        if connection.0.get_mut().write_all(&[*byte]).is_err() || began.elapsed() > 2 * LIMIT {
            break;
        }
        let asked = Instant::now();
        scene.check_goes_on();
        fastest = fastest.min(asked.elapsed());
    }
    // Where it did, the first would wait until the client is cut off. A busy machine alone delays one or the other.
    assert!(fastest < LIMIT / 2, "a slow client delays others: {fastest:?}");
}

#[test]
fn a_client_that_is_slow_in_the_head_is_cut_off_while_others_are_served() {
    let scene = Scene::start_with(1, |config| config.header_timeout = LIMIT);
    let mut connection = scene.node.keep();
    let endless = "x".repeat(10_000);
    drip(&scene, &mut connection, head("POST", PATH, &[("x-endless", &endless)], 10).as_bytes());
    assert!(matches!(connection.0.read(&mut [0]), Ok(0) | Err(_)), "the connection is closed");
    wait_for(&scene.node, TIMED_OUT, 1);
    scene.check_goes_on();
}

#[test]
fn a_client_that_is_slow_in_the_body_is_told_and_cut_off_while_others_are_served() {
    let scene = Scene::start_with(1, |config| config.request_timeout = LIMIT);
    let mut connection = scene.node.keep();
    let head = head("POST", PATH, &headers(Version::V2), 100_000);
    connection.0.get_mut().write_all(head.as_bytes()).unwrap();
    drip(&scene, &mut connection, &[0; 1000]);
    let answer = read_answer(&mut connection.0);
    assert_eq!((answer.status, answer.header("connection")), (503, "close"));
    assert_eq!(answer.header("retry-after"), "1", "the same may arrive in time when it is sent again");
    assert!(answer.text().contains("did not arrive within 1s"), "{}", answer.text());
    wait_for(&scene.node, MALFORMED, 1);
    scene.check_goes_on();
}

#[test]
fn a_read_whose_body_comes_too_late_is_told_so_wherever_it_asks() {
    let scene = Scene::start_with(1, |config| {
        config.request_timeout = LIMIT;
        config.admin_api = AdminAccess::Full;
    });
    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    for path in [
        "/api/v1/read",
        "/api/v1/series",
        "/api/v1/labels",
        "/api/v1/export",
        "/api/v1/admin/tsdb/delete_series",
        "/query",
    ] {
        let mut connection = scene.node.keep();
        let headers: &[_] = if path == "/api/v1/read" { &[] } else { &[FORM] };
        connection.0.get_mut().write_all(head("POST", path, headers, 100).as_bytes()).unwrap();
        let answer = read_answer(&mut connection.0);
        let told = (answer.status, answer.header("connection"));
        assert_eq!(told, (408, "close"), "{path}: {}", answer.text());
        assert!(answer.text().contains("did not arrive within 1s"), "{path}: {}", answer.text());
    }
}

#[test]
fn a_client_that_sends_nothing_at_all_is_cut_off() {
    let scene = Scene::start_with(1, |config| config.header_timeout = LIMIT);
    let mut connection = scene.node.keep();
    assert_eq!(connection.0.read(&mut [0]).unwrap(), 0, "the connection is closed");
    wait_for(&scene.node, TIMED_OUT, 1);
    scene.check_goes_on();
}

#[test]
fn clients_that_hang_up_midway_leave_nothing_behind() {
    let scene = Scene::start(1);
    let lost = body(Version::V1, &[Series::new([("__name__", "lost")]).sample(scene.start_ms, 1.0)]);
    let head = head("POST", PATH, &headers(Version::V1), lost.len());
    for cut in [1, head.len() / 2, head.len(), head.len() + 1, head.len() + lost.len() - 1] {
        let mut stream = scene.node.connect();
        stream.write_all(&[head.as_bytes(), &lost].concat()[..cut]).unwrap();
        drop(stream);
        scene.check_goes_on();
    }
    // The question for the metrics itself is the one in flight.
    wait_for(&scene.node, IN_FLIGHT, 1);
    wait_for(&scene.node, "silverback_connections", 1);
    assert!(scene.samples("lost").is_empty());
}

#[test]
fn clients_that_do_not_wait_for_the_answer_leave_nothing_but_their_samples() {
    let scene = Scene::start(3);
    let series = |i: i64| Series::new([("__name__", "left")]).sample(scene.start_ms + i, i as f64);
    for i in 0..20 {
        leave_after(&scene.node, &body(Version::V2, &[series(i)]));
        scene.check_goes_on();
    }
    wait_for(&scene.node, IN_FLIGHT, 1);
    assert_eq!(Reading::of(&scene.node).sum("silverback_write_in_flight_bytes"), 0);
    let stored = samples(&scene.node, "left").concat();
    let is_sent = |sample: &(i64, f64)| (0..20).any(|i| *sample == (scene.start_ms + i, i as f64));
    assert!(stored.iter().all(is_sent), "{stored:?}");
    assert!(stored.is_sorted_by(|a, b| a.0 < b.0), "each at most once: {stored:?}");
}

/// Sends a whole request and hangs up at once.
pub(super) fn leave_after(node: &Node, body: &[u8]) {
    let mut stream = node.connect();
    let head = head("POST", PATH, &headers(Version::V2), body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
}
