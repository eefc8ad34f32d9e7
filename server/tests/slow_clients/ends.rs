//! Clients that end their sending side right after their request: each gets its answer, and one that has gone holds
//! nothing for long.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use silverback_node_test_support::Node;
use silverback_node_test_support::written::{Series, series, start_ms, write, write_body};
use silverback_test_support::eventually;
use silverback_test_support::http::{Answer, request, try_read_answer};

const TRIES: usize = 40;

/// The answer to a request that its client's end follows at once.
fn ask_and_end(node: &Node, request: &[u8]) -> io::Result<Answer> {
    let mut stream = node.connect();
    stream.write_all(request)?;
    stream.shutdown(Shutdown::Write)?;
    try_read_answer(&mut BufReader::new(stream))
}

/// A request to each endpoint.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let one = [series(&[("__name__", "one")], start_ms(), [1.0])];
    let get = |path| (path, request("GET", path, &[], b""));
    let post = |path, body: &[u8]| (path, request("POST", path, &[], body));
    let protobuf = [("content-type", "application/x-protobuf")];
    [
        "/",
        "/metrics",
        "/ping",
        "/-/healthy",
        "/-/ready",
        "/-/replayed",
        "/api/v1/status/node",
        "/api/v1/status/cells",
        "/api/v1/status/refusals",
        "/api/v1/status/active_queries",
        "/api/v1/status/tsdb",
        "/api/v1/status/buildinfo",
        "/api/v1/status/runtimeinfo",
        "/api/v1/status/flags",
        "/api/v1/status/config",
        "/api/v1/series?match[]=wide",
        "/api/v1/labels",
        "/api/v1/label/i/values",
        "/api/v1/export?match[]=wide",
        "/query?q=CREATE+DATABASE+a",
        "/nothing",
    ]
    .map(get)
    .into_iter()
    .chain([
        post("/api/v1/write", &write_body(&one)),
        post("/write", b"up v=1 1"),
        post("/api/v2/write", b"up v=1 1"),
        post("/api/v1/import/prometheus", b"up 1\n"),
        post("/api/v1/series", b"match[]=wide"),
        post("/api/v1/admin/tsdb/delete_series", b"match[]=wide"),
        // An empty message, without its compression's head.
        ("/v1/metrics", request("POST", "/v1/metrics", &protobuf, b"")),
        ("/api/v1/read", request("POST", "/api/v1/read", &protobuf, &[0])),
    ])
    .collect()
}

fn write_wide(node: &Node, count: u32) {
    let one = |i: u32| -> Series {
        let values = (0..1000).map(|s| f64::from(s * 7919 % 1013).sin());
        series(&[("__name__", "wide"), ("i", &i.to_string())], start_ms(), values)
    };
    for lot in 0..count.div_ceil(80) {
        write(node, &(lot * 80..count.min((lot + 1) * 80)).map(one).collect::<Vec<_>>());
    }
}

#[test]
fn every_endpoint_answers_a_client_that_has_ended_its_sending_side() {
    let node = Node::start(2);
    write_wide(&node, 20);
    for (path, bytes) in requests() {
        let expect = {
            let mut kept = node.keep();
            kept.0.get_mut().write_all(&bytes).unwrap();
            try_read_answer(&mut kept.0).unwrap().status
        };
        let told = |_| ask_and_end(&node, &bytes).map(|answer| (answer.status, answer.is_cut));
        let told: Vec<_> = (0..TRIES).map(told).collect();
        let answered = told.iter().filter(|told| matches!(told, Ok((status, false)) if *status == expect));
        assert_eq!(answered.count(), TRIES, "{path}: {told:?}");
    }
}

#[test]
fn a_client_that_has_ended_its_sending_side_may_take_a_long_answer_slowly() {
    let node = Node::start(1);
    write_wide(&node, 400);
    let mut stream = node.connect();
    stream.write_all(&request("GET", "/api/v1/export?match[]=wide", &[], b"")).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    // Longer than one has that was sent nothing.
    std::thread::sleep(Duration::from_secs(4));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n") && rest.len() > 5 << 20, "{} bytes", rest.len());
}

#[test]
fn requests_in_one_piece_are_all_answered_before_the_end() {
    let node = Node::start(1);
    let mut stream = node.connect();
    stream.write_all(&request("GET", "/api/v1/labels", &[], b"").repeat(5)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut stream = BufReader::new(stream);
    for _ in 0..5 {
        assert_eq!(try_read_answer(&mut stream).unwrap().status, 200);
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
}

#[test]
fn half_a_request_is_none() {
    let node = Node::start(1);
    for cut in [1, 10, 60] {
        let whole = request("POST", "/write", &[], b"up v=1 1");
        let answer = ask_and_end(&node, &whole[..whole.len() - cut]);
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 400), "without {cut} bytes");
    }
    assert_eq!(node.get("/api/v1/series?match[]=up_v").json()["data"], serde_json::json!([]));
}

/// A node on which this path's question takes many seconds.
fn with_long_reads() -> (Node, String) {
    let node = Node::start_with(1, |config| config.max_reads = 4);
    let long = "x".repeat(8000);
    let one = |i: i32| series(&[("__name__", "many"), ("i", &format!("{long}{i}"))], start_ms(), [1.0]);
    for lot in 0..20 {
        write(&node, &(lot * 250..(lot + 1) * 250).map(one).collect::<Vec<_>>());
    }
    let selectors = (0..12).map(|i| format!("match[]=%7Bi=~%22(.*x.%7B20%7Dx)%2B.*y{i}%22%7D"));
    (node, format!("/api/v1/series?{}", selectors.collect::<Vec<_>>().join("&")))
}

fn reads_in_flight(node: &Node) -> u32 {
    let metrics = node.get("/metrics").text();
    let in_flight =
        metrics.lines().find_map(|line| line.strip_prefix("silverback_reads_in_flight{shard=\"0\"} "));
    in_flight.expect("it is there").parse().unwrap()
}

fn begin(node: &Node, path: &str) -> TcpStream {
    let mut stream = node.connect();
    stream.write_all(&request("GET", path, &[], b"")).unwrap();
    stream
}

#[test]
fn a_long_read_whose_client_has_gone_stops_within_about_a_second() {
    let (node, path) = with_long_reads();
    let stays = begin(&node, &path);
    let leaves = begin(&node, &path);
    eventually("they begin", || reads_in_flight(&node) == 2);
    drop(leaves);
    let left = Instant::now();
    eventually("the read whose client has gone goes on", || reads_in_flight(&node) < 2);
    let took = left.elapsed();
    assert_eq!(reads_in_flight(&node), 1, "the other one would have ended as well");
    assert!(took < Duration::from_secs(4), "{took:?}");
    drop(stays);
}

#[test]
fn a_long_read_stops_as_soon_where_more_came_before_its_client_went() {
    let node = Node::start(1);
    // At 10,000 steps 360,000 values each are looked at.
    let path = "/api/v1/query_range?query=stddev_over_time(vector(time()*7919%251013)%5B100h:1s%5D)&start=9\
                &end=9999&step=1";
    let next = request("GET", "/api/v1/labels", &[], b"");
    let part = request("POST", "/write", &[], b"up v=1 1");
    let part = &part[..part.len() - 4];
    for rest in [&b"\r\n"[..], b"G", &next, part] {
        for is_reset in [false, true] {
            let mut leaves = node.connect();
            leaves.write_all(&[request("GET", path, &[], b"").as_slice(), rest].concat()).unwrap();
            eventually("it begins", || reads_in_flight(&node) == 1);
            if is_reset {
                socket2::SockRef::from(&leaves).set_linger(Some(Duration::ZERO)).unwrap();
            }
            drop(leaves);
            let left = Instant::now();
            eventually("the read whose client has gone goes on", || reads_in_flight(&node) == 0);
            let took = left.elapsed();
            assert!(
                took < Duration::from_secs(4),
                "{:?}, reset: {is_reset}: {took:?}",
                String::from_utf8_lossy(rest)
            );
        }
    }
}

#[test]
fn a_long_read_whose_client_ends_and_is_reset_stops_too() {
    let (node, path) = with_long_reads();
    let stays = begin(&node, &path);
    let leaves = begin(&node, &path);
    eventually("they begin", || reads_in_flight(&node) == 2);
    leaves.shutdown(Shutdown::Write).unwrap();
    socket2::SockRef::from(&leaves).set_linger(Some(Duration::ZERO)).unwrap();
    drop(leaves);
    let left = Instant::now();
    eventually("the read whose client has gone goes on", || reads_in_flight(&node) < 2);
    assert_eq!(reads_in_flight(&node), 1, "the other one would have ended as well");
    println!("stopped after {:?}", left.elapsed());
    drop(stays);
}
