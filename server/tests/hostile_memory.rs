//! Bad requests as the kernel sees them: a node takes no memory for what is only claimed, gives back
//! what a large refused request took, and bounds what those take that never end.
//!
//! One test, in a process of its own: it measures the process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use silverback::api::ingest::remote_write::Version;
use silverback_model::limits::IN_FLIGHT_BYTES_MAX;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, compress, headers};
use silverback_test_support::http::head;
use silverback_test_support::now_ms;
use silverback_test_support::wire::varint;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A few requests' worth: each of them claims or carries tens of megabytes.
const MARGIN_BYTES: usize = 64 << 20;
const CONNECTIONS: usize = 200;

/// A few bytes that claim to be as many as allowed.
fn claim() -> Vec<u8> {
    [varint(32 << 20), b"\x08few".to_vec()].concat()
}

/// Thirty megabytes of one byte, in the place of a label's value.
fn long_label(version: Version) -> Vec<u8> {
    let long = "x".repeat(30_000_000);
    body(version, &[Series::new([("__name__", "up"), ("job", &*long)]).sample(0, 1.0)])
}

/// Connections that announce a large body each and send a bit of it.
fn announce(node: &Node) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = node.connect();
        stream.write_all(head("POST", PATH, &[], 32 << 20).as_bytes()).unwrap();
        stream.write_all(&[0; 1000]).unwrap();
        stream
    };
    (0..CONNECTIONS).map(begin).collect()
}

fn claim_much(node: &Node) {
    let announced = announce(node);
    for version in VERSIONS {
        for (claim, status) in [(claim(), 400), (varint(u64::from(u32::MAX)), 413)] {
            (0..100).for_each(|_| check_refused(node, version, &claim, status));
        }
    }
    drop(announced);
}

fn send_much(node: &Node) {
    for version in VERSIONS {
        for much in [long_label(version), compress(&vec![0x63; 30 << 20])] {
            (0..5).for_each(|_| check_refused(node, version, &much, 400));
        }
    }
}

fn check_refused(node: &Node, version: Version, bad: &[u8], status: u16) {
    assert_eq!(node.post(PATH, &headers(version), bad).status, status);
}

/// Bodies that arrive and don't end, more of them than one core has room for: how many are refused.
fn hold_back(node: &Node) -> usize {
    const BODY_BYTES: usize = 31 << 20;
    let begun = IN_FLIGHT_BYTES_MAX / BODY_BYTES + 5;
    let part = vec![0; BODY_BYTES];
    let mut streams: Vec<TcpStream> = (0..begun)
        .map(|_| {
            let mut stream = node.connect();
            stream.write_all(head("POST", PATH, &[], 32 << 20).as_bytes()).unwrap();
            // A refused one is closed before its end.
            drop(stream.write_all(&part));
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stream
        })
        .collect();
    let is_refused = |stream: &mut TcpStream| {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).is_ok_and(|()| &answer == b"HTTP/1.1 429")
    };
    streams.iter_mut().filter_map(|stream| is_refused(stream).then_some(())).count()
}

/// The process's resident memory, `VmRSS`, or its highest so far, `VmHWM`.
fn resident_bytes(which: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells a process its memory");
    let line = status.lines().find(|line| line.starts_with(which)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// What was taken is given back within seconds, by an allocator that looks at its time when it is asked for memory.
fn check_comes_back(node: &Node, round: usize, level: usize) {
    let begun = Instant::now();
    while resident_bytes("VmRSS") >= level + MARGIN_BYTES {
        let now = resident_bytes("VmRSS");
        let is_late = begun.elapsed() > Duration::from_secs(20);
        assert!(!is_late, "round {round}: {now} bytes resident, the level was {level}");
        assert_eq!(node.get("/-/healthy").status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn claims_take_no_memory_large_requests_give_theirs_back_and_endless_ones_are_bounded() {
    let node = Node::start(1);
    let before = resident_bytes("VmHWM");
    claim_much(&node);
    let peak = resident_bytes("VmHWM");
    assert!(peak < before + MARGIN_BYTES, "{before} bytes resident before claims, {peak} with them");
    let resident_after_much = || {
        send_much(&node);
        resident_bytes("VmRSS")
    };
    // The allocator gives back what is freed after a while: how much of it is still there differs.
    let level = (0..3).map(|_| resident_after_much()).max().unwrap_or_default();
    for round in 0..3 {
        send_much(&node);
        check_comes_back(&node, round, level);
    }
    let refused = hold_back(&node);
    let peak = resident_bytes("VmHWM");
    assert!((4..9).contains(&refused), "{refused} bodies were refused");
    assert!(peak < level + IN_FLIGHT_BYTES_MAX + MARGIN_BYTES, "{peak} bytes resident at most");
    let good = Series::new([("__name__", "up")]).sample(now_ms(), 1.0);
    assert_eq!(node.post(PATH, &headers(Version::V2), &body(Version::V2, &[good])).status, 204);
}
