//! Good writers on connections of their own, beside every hostile client at once.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};
use silverback_test_support::http::head;

use crate::bad_input::bystander::{now_ms, samples};
use crate::bad_input::clients::leave_after;
use crate::bad_input::connections::GARBAGE;
use crate::bad_input::malformed::{bad_protobuf, bad_snappy, too_large_decoded};

const ROUNDS: usize = 4;

/// Tells the writers to end, also when what went on beside them panicked.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_sample_of_a_steady_writer_is_stored_once_whatever_others_send() {
    let node = Node::start_with(3, |config| config.header_timeout = Duration::from_millis(300));
    let start_ms = now_ms() - 3_600_000;
    let has_ended = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let ended = Ended(&has_ended);
        let (node, has_ended) = (&node, &has_ended);
        let writers =
            VERSIONS.map(|version| scope.spawn(move || write_steadily(node, version, start_ms, has_ended)));
        (0..ROUNDS).for_each(|_| be_hostile(node));
        drop(ended);
        writers.map(|writer| writer.join().unwrap())
    });
    for (version, count) in VERSIONS.into_iter().zip(written) {
        // More of them where the machine is quick.
        assert!(count > 2 * ROUNDS as i64, "the writer had its turns: {count}");
        let expect: Vec<_> = (0..count).map(|i| (start_ms + i, i as f64)).collect();
        for series in 0..SERIES_EACH {
            let stored = samples(&node, &format!("steady{{version=\"{version:?}\",series=\"{series}\"}}"));
            assert!(stored == [&expect[..]], "{version:?}, series {series} of {count} samples");
        }
    }
}

const SERIES_EACH: usize = 12;

/// One sample of each series in each request, each acknowledged before the next; how many.
fn write_steadily(node: &Node, version: Version, start_ms: i64, has_ended: &AtomicBool) -> i64 {
    let mut connection = node.keep();
    let mut written = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let series = (0..SERIES_EACH).map(|series| {
            let (version, series) = (format!("{version:?}"), series.to_string());
            let labels = [("__name__", "steady"), ("series", &*series), ("version", &*version)];
            Series::new(labels).sample(start_ms + written, written as f64)
        });
        let body = body(version, &series.collect::<Vec<_>>());
        let answer = connection.ask("POST", PATH, &headers(version), &body);
        assert_eq!(answer.status, 204, "{}", answer.text());
        written += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    written
}

fn be_hostile(node: &Node) {
    let slow: Vec<_> = (0..20).map(|_| half_a_request(node)).collect();
    for version in VERSIONS {
        for (bad, _words) in bad_snappy(version).into_iter().chain(bad_protobuf(version)) {
            assert_eq!(node.post(PATH, &headers(version), &bad).status, 400);
        }
        for (bad, _words) in too_large_decoded() {
            assert_eq!(node.post(PATH, &headers(version), &bad).status, 413);
        }
        let refused = [
            Series::new([("job", "no name")]).sample(now_ms(), 1.0),
            Series::new([("__name__", "steady"), ("series", "0")]).sample(i64::MAX, 1.0),
            Series::new([("__name__", "steady"), ("series", "\u{7f}")]).histogram(b"?".to_vec()),
            Series::new([("__name__", &*"x".repeat(1 << 20))]).sample(0, 1.0),
        ];
        let refused = body(version, &refused);
        assert_eq!(node.post(PATH, &headers(version), &refused).status, 400);
        leave_after(node, &refused);
    }
    for garbage in GARBAGE {
        // It may be refused before all of it is sent.
        drop(node.connect().write_all(garbage));
    }
    drop(slow);
}

fn half_a_request(node: &Node) -> std::net::TcpStream {
    let mut stream = node.connect();
    stream.write_all(head("POST", PATH, &[], 1 << 20).as_bytes()).unwrap();
    stream.write_all(&[0; 4096]).unwrap();
    stream
}
