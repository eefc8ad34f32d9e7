//! The notice to end, with requests in flight.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, body, headers};
use silverback_test_support::eventually;
use silverback_test_support::http::{Kept, head, read_answer};

use crate::bad_input::bystander::Scene;
use crate::bad_input::metrics::wait_for;

const IN_FLIGHT: &str = "silverback_http_requests_in_flight";

/// A request of which all but the last byte is sent, and that byte.
fn begin(scene: &Scene) -> (Kept, u8) {
    let mut connection = scene.node.keep();
    let mut body = body(Version::V2, &[scene.beside()]);
    let head = head("POST", PATH, &headers(Version::V2), body.len());
    let last = body.pop().unwrap();
    connection.0.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
    wait_for(&scene.node, IN_FLIGHT, 2);
    (connection, last)
}

fn wait_until_refused(scene: &Scene) {
    eventually("a node that ends takes connections", || TcpStream::connect(scene.node.address).is_err());
}

#[test]
fn a_request_under_way_is_finished_before_the_node_ends() {
    for shards in [1, 3] {
        let scene = Scene::start(shards);
        let (mut connection, last) = begin(&scene);
        scene.node.request_shutdown();
        wait_until_refused(&scene);
        connection.0.get_mut().write_all(&[last]).unwrap();
        let answer = read_answer(&mut connection.0);
        assert_eq!((answer.status, answer.header("connection")), (204, "close"));
    }
}

#[test]
fn a_client_that_never_finishes_keeps_no_node_from_ending() {
    let scene = Scene::start_with(3, |config| config.shutdown_timeout = Duration::from_millis(300));
    let (_connection, _last) = begin(&scene);
    let began = Instant::now();
    drop(scene);
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
}
