//! What bounds a query: its time, its turn, what it holds. And what is left of it afterwards: nothing.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use silverback_node_test_support::written::{series, start_ms, write};
use silverback_node_test_support::{Node, OUT_OF_REACH};
use silverback_test_support::eventually;
use silverback_test_support::http::request;
use silverback_test_support::http2::{self, END_HEADERS, END_STREAM, HEADERS, Http2, frame};
use socket2::{Domain, SockAddr, Socket, Type};

/// At 10,000 steps it looks at 360,000 values each: far longer than any test waits, in little memory.
const SLOW: &str = "/api/v1/query_range?query=stddev_over_time(vector(time()*7919%251013)%5B100h:1s%5D)&\
                    start=9&end=9999&step=1";

pub(crate) fn slow_for(timeout: &str) -> String {
    format!("{SLOW}&timeout={timeout}")
}

pub(crate) fn ask(node: &Node, path: &str) -> (u16, Value) {
    let answer = node.get(path);
    (answer.status, answer.json())
}

pub(crate) fn refused(kind: &str, words: &str) -> Value {
    json!({"status": "error", "errorType": kind, "error": words})
}

pub(crate) fn wait_for_metric(node: &Node, line: &str) {
    eventually(line, || node.get("/metrics").text().contains(line));
}

/// No query has a turn or memory on any core.
pub(crate) fn check_nothing_is_left(node: &Node, shards: usize) {
    for shard in 0..shards {
        for name in ["silverback_queries_active", "silverback_queries_waiting", "silverback_reads_in_flight"]
        {
            wait_for_metric(node, &format!("{name}{{shard=\"{shard}\"}} 0\n"));
        }
        for part in ["reads", "selects"] {
            let name = "silverback_memory_accounted_bytes";
            wait_for_metric(node, &format!("{name}{{part=\"{part}\",shard=\"{shard}\"}} 0\n"));
        }
    }
}

fn timed_out() -> Value {
    refused("timeout", "query timed out in expression evaluation")
}

#[test]
fn a_query_has_its_time_which_its_parameter_lowers_and_never_raises() {
    let node = Node::start_with(2, |config| config.query_timeout = Duration::from_secs(2));
    for (asked, least_ms, most_s) in [("300ms", 300, 2), ("0.3", 300, 2), ("1h", 2000, 20), ("0", 0, 2)] {
        let began = Instant::now();
        let answer = node.get(&slow_for(asked));
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{asked}");
        let answer = answer.json();
        match asked {
            "0" => assert_eq!(answer["errorType"], "timeout"),
            _ => assert_eq!(answer, timed_out(), "{asked}"),
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(least_ms), "{asked}: {took:?}");
        assert!(took < Duration::from_secs(most_s), "{asked}: {took:?}");
    }
    assert_eq!(ask(&node, &slow_for("x")).1["errorType"], "bad_data");
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_queries_refused_total{reason=\"timeout\"} 4\n"), "{metrics}");
    check_nothing_is_left(&node, 2);
}

#[test]
fn a_read_s_shorter_time_is_not_a_query_s() {
    let node = Node::start_with(1, |config| {
        config.header_timeout = Duration::from_millis(200);
        config.request_timeout = Duration::from_millis(500);
    });
    let began = Instant::now();
    assert_eq!(ask(&node, &slow_for("1500ms")), (503, timed_out()));
    assert!(began.elapsed() >= Duration::from_millis(1500));
}

#[test]
fn a_query_waits_for_its_turn_within_its_time_and_other_reads_have_turns_beside_it() {
    let node = Node::start_with(1, |config| (config.max_queries, config.max_reads) = (1, 2));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&node, &slow_for("4s")));
        wait_for_metric(&node, "silverback_queries_active{shard=\"0\"} 1\n");
        let waiting = scope.spawn(|| ask(&node, "/api/v1/query?query=1&timeout=1s&time=1"));
        wait_for_metric(&node, "silverback_queries_waiting{shard=\"0\"} 1\n");
        assert_eq!(node.get("/api/v1/labels").status, 200, "a look-up has a turn");
        assert_eq!(waiting.join().unwrap(), (503, refused("timeout", "query timed out in query queue")));
        let patient = scope.spawn(|| node.get("/api/v1/query?query=1&time=1").status);
        assert_eq!(slow.join().unwrap(), (503, timed_out()));
        assert_eq!(patient.join().unwrap(), 200);
    });
    check_nothing_is_left(&node, 1);
}

#[test]
fn a_bounded_number_of_queries_waits() {
    let node = Node::start_with(1, |config| config.max_queries = 1);
    let mut many = Http2::begin(node.connect()).unwrap();
    let head = http2::head("GET", &slow_for("30s"), &[]);
    // One is evaluated, and 64 wait.
    for at in 0..70 {
        many.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * at + 1, &head)).unwrap();
    }
    wait_for_metric(&node, "silverback_queries_refused_total{reason=\"too_many\"} 5\n");
    wait_for_metric(&node, "silverback_queries_waiting{shard=\"0\"} 64\n");
    drop(many);
    check_nothing_is_left(&node, 1);
}

#[test]
fn more_samples_than_a_query_may_hold_are_refused_in_prometheus_words() {
    let node = Node::start_with(2, |config| config.query_max_samples = 1000);
    let start = start_ms();
    write(&node, &[series(&[("__name__", "long")], start, (0..1200).map(f64::from))]);
    let words = "query processing would load too many samples into memory in query execution";
    let time = start / 1000 + 1300;
    for text in ["long%5B30m%5D", "sum(rate(long%5B30m%5D))"] {
        let path = format!("/api/v1/query?query={text}&time={time}");
        assert_eq!(ask(&node, &path), (422, refused("execution", words)), "{text}");
    }
    assert_eq!(ask(&node, &format!("/api/v1/query?query=rate(long%5B10m%5D)&time={time}")).0, 200);
    let metrics = node.get("/metrics").text();
    assert!(
        metrics.contains("silverback_queries_refused_total{reason=\"too_many_samples\"} 2\n"),
        "{metrics}"
    );
    check_nothing_is_left(&node, 2);
}

#[test]
fn a_query_has_its_part_of_the_query_memory_and_no_more() {
    let start = start_ms();
    let count_of = |query_memory: Option<usize>| {
        let node = Node::start_with(1, |config| {
            config.memory_limit = OUT_OF_REACH;
            config.query_memory = query_memory;
        });
        for lot in 0..5 {
            let one = |i: usize| {
                let host = format!("host-{}.example.org:9100", lot * 1000 + i);
                series(&[("__name__", "node_up"), ("instance", &host), ("job", "node")], start, [1.0])
            };
            write(&node, &(0..1000).map(one).collect::<Vec<_>>());
        }
        let answered = ask(&node, &format!("/api/v1/query?query=node_up&time={}", start as f64 / 1000.0));
        check_nothing_is_left(&node, 1);
        answered
    };
    let (status, answer) = count_of(Some(1 << 20));
    assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{answer}");
    let words = answer["error"].as_str().unwrap();
    assert!(words.contains("the 1048576 bytes of memory") && words.contains("--query-memory"), "{words}");
    let (status, answer) = count_of(Some(64 << 20));
    assert_eq!((status, answer["data"]["result"].as_array().map(Vec::len)), (200, Some(5000)));
}

#[test]
fn clients_that_take_nothing_of_their_answers_lose_their_memory_to_queries_that_are_refused_for_it() {
    let start = start_ms();
    let node = Node::start_with(1, |config| {
        config.memory_limit = OUT_OF_REACH;
        config.query_memory = Some(32 << 20);
    });
    for lot in 0..20 {
        let one = |i: usize| {
            let host = format!("host-{}.example.org:9100", lot * 1000 + i);
            series(&[("__name__", "node_up"), ("instance", &host), ("job", "node")], start, [1.0])
        };
        write(&node, &(0..1000).map(one).collect::<Vec<_>>());
    }
    let (from, to) = (start / 1000 + 1, start / 1000 + 286);
    let path = format!("/api/v1/query_range?query=node_up&start={from}&end={to}&step=15");
    let take_nothing = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&SockAddr::from(node.address)).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(&request("GET", &path, &[], b"")).unwrap();
        stream
    };
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 8, "there is always memory");
        held.push(take_nothing());
        wait_for_metric(&node, "silverback_queries_active{shard=\"0\"} 0\n");
        let answer = ask(&node, &path);
        if answer.0 != 200 {
            break answer;
        }
    };
    assert_eq!((refused.0, &refused.1["errorType"]), (429, &json!("too_many_requests")), "{}", refused.1);
    let began = Instant::now();
    eventually("it is refused for good", || ask(&node, &path).0 == 200);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(held);
    check_nothing_is_left(&node, 1);
}
