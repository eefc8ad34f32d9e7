//! Reads that are large or slow delay nobody else and hold bounded memory.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use silverback_host::metrics;
use silverback_model::limits::{READER_BYTES_PER_S_MIN, READER_GRACE, READS_WAITING_MAX};
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{Series, series, start_ms, write};
use silverback_test_support::eventually;
use silverback_test_support::http::{head, read_answer, send};
use silverback_test_support::http2::{self, END_HEADERS, END_STREAM, HEADERS, Http2, frame};

const EXPORT: &str = "/api/v1/export?match[]=wide";

/// Some 3 MB a part as JSON: twenty are more than any socket's buffers take.
fn write_wide(node: &Node, parts: usize) -> usize {
    let start = start_ms();
    for part in 0..parts {
        let one = |i: i32| -> Series {
            let values = (0..1000).map(|s| f64::from(s * 7919 % 1013).sin());
            series(&[("__name__", "wide"), ("i", &format!("{part}-{i}"))], start, values)
        };
        write(node, &(0..80).map(one).collect::<Vec<_>>());
    }
    parts * 80
}

fn resident_bytes() -> usize {
    metrics::resident_bytes(Path::new(metrics::PROC)).expect("Linux tells a process its memory") as usize
}

#[test]
fn a_reader_that_stops_holds_a_bounded_buffer_and_nobody_else_up() {
    let node = Node::start_with(2, |config| config.max_reads = 4);
    let written = write_wide(&node, 40);
    let before = resident_bytes();
    let mut stopped = node.connect();
    send(&mut stopped, "GET", EXPORT, &[], b"");
    stopped.read_exact(&mut [0; 1000]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let grown = resident_bytes().saturating_sub(before);
    // Half of it, for other tests' nodes are in this process too.
    assert!(grown < 60 << 20, "{grown} bytes wait for a client that doesn't read");
    // Where one of these waited for the reader, its answer would never come.
    assert_eq!(node.get("/-/healthy").status, 200);
    assert_eq!(node.get("/api/v1/labels").status, 200);
    let mut rest = Vec::new();
    stopped.read_to_end(&mut rest).unwrap();
    let lines = rest.windows(2).filter(|bytes| *bytes == b"}\n").count();
    assert_eq!(lines, written, "the export goes on where it stopped");
}

/// A read that is in flight until its connection is dropped.
fn stop_reading(node: &Node) -> TcpStream {
    write_wide(node, 20);
    let mut stopped = node.connect();
    send(&mut stopped, "GET", EXPORT, &[], b"");
    stopped.read_exact(&mut [0; 1000]).unwrap();
    stopped
}

fn wait_for_metric(node: &Node, line: &str) {
    eventually(line, || node.get("/metrics").text().contains(line));
}

#[test]
fn reads_that_one_connection_does_not_take_have_no_other_connection_s_refused() {
    const STREAMS: u32 = READS_WAITING_MAX as u32 + 10;
    let node = Node::start_with(1, |config| config.max_reads = 1);
    write_wide(&node, 20);
    let mut stopped = Http2::begin(node.connect()).unwrap();
    let head = http2::head("GET", EXPORT, &[]);
    for at in 0..STREAMS {
        stopped.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * at + 1, &head)).unwrap();
    }
    wait_for_metric(&node, &format!("silverback_reads_waiting{{shard=\"0\"}} {READS_WAITING_MAX}\n"));
    for _ in 0..3 {
        let began = Instant::now();
        let answer = node.get("/api/v1/labels");
        assert_eq!(answer.status, 200, "{}", answer.text());
        // Each waits for one that is given up, and not for the line.
        assert!(began.elapsed() < 4 * READER_GRACE, "{:?}", began.elapsed());
    }
}

#[test]
fn a_read_beyond_the_limit_waits_for_its_turn() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    let stopped = stop_reading(&node);
    std::thread::scope(|scope| {
        let waiting = [0; 3].map(|_| scope.spawn(|| node.get("/api/v1/labels").status));
        wait_for_metric(&node, "silverback_reads_waiting{shard=\"0\"} 3\n");
        wait_for_metric(&node, "silverback_reads_in_flight{shard=\"0\"} 1\n");
        assert_eq!(node.get("/api/v1/status/buildinfo").status, 200, "which reads nothing");
        drop(stopped);
        assert_eq!(waiting.map(|read| read.join().unwrap()), [200; 3]);
    });
    wait_for_metric(&node, "silverback_reads_waiting{shard=\"0\"} 0\n");
}

#[test]
fn a_read_whose_turn_does_not_come_is_told_to_come_again() {
    let node = Node::start_with(1, |config| {
        config.max_reads = 1;
        config.request_timeout = Duration::from_secs(1);
    });
    let _stopped = stop_reading(&node);
    let refused = node.get("/api/v1/labels");
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(refused.json()["errorType"], "timeout");
}

#[test]
fn a_request_that_comes_slowly_holds_no_other_read_up() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    let mut slow = node.connect();
    slow.write_all(head("POST", "/api/v1/read", &[], 1000).as_bytes()).unwrap();
    slow.write_all(&[0; 500]).unwrap();
    wait_for_metric(&node, "silverback_memory_accounted_bytes{part=\"reads\",shard=\"0\"} 500\n");
    let began = Instant::now();
    assert_eq!(node.get("/api/v1/labels").status, 200);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_reader_that_takes_too_little_loses_its_turn_to_those_who_wait() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    let mut slow = stop_reading(&node);
    assert_eq!(node.get("/api/v1/labels").status, 200);
    wait_for_metric(&node, "silverback_reads_slow_total{shard=\"0\"} 1\n");
    let mut rest = Vec::new();
    let ended = slow.read_to_end(&mut rest);
    assert!(ended.is_err() || !rest.ends_with(b"0\r\n\r\n"), "a part is not to look like the whole");
}

#[test]
fn a_reader_that_takes_more_than_it_must_keeps_its_turn_beside_those_who_wait() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    let mut paced = stop_reading(&node);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| node.get("/api/v1/labels").status);
        wait_for_metric(&node, "silverback_reads_waiting{shard=\"0\"} 1\n");
        let mut of_a_quarter = vec![0; 3 * READER_BYTES_PER_S_MIN / 4];
        for _quarter_second in 0..4 * 3 * READER_GRACE.as_secs() {
            std::thread::sleep(Duration::from_millis(250));
            paced.read_exact(&mut of_a_quarter).unwrap();
        }
        wait_for_metric(&node, "silverback_reads_slow_total{shard=\"0\"} 0\n");
        drop(paced);
        assert_eq!(waiting.join().unwrap(), 200);
    });
}

#[test]
fn a_reader_that_takes_little_keeps_its_turn_while_nobody_waits() {
    let node = Node::start_with(1, |config| config.max_reads = 1);
    let mut slow = stop_reading(&node);
    std::thread::sleep(2 * READER_GRACE);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the export goes on where it stopped");
}

/// Each looks at all values, and takes far longer than its client waits.
#[test]
fn reads_whose_clients_hang_up_stop_and_leave_their_turns_and_memory_to_others() {
    let node = Node::start_with(2, |config| config.max_reads = 2);
    let long = "x".repeat(4000);
    let one = |i: i32| series(&[("__name__", "many"), ("i", &format!("{long}{i}"))], start_ms(), [1.0]);
    for lot in 0..10 {
        write(&node, &(lot * 500..(lot + 1) * 500).map(one).collect::<Vec<_>>());
    }
    let path = "/api/v1/series?match[]=%7Bi=~%22(.*x.%7B20%7Dx)%2B.*y%22%7D";
    for _ in 0..200 {
        let mut leaving = node.connect();
        send(&mut leaving, "GET", path, &[], b"");
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    assert_eq!(node.get("/api/v1/labels").status, 200);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    write(&node, &[one(-1)]);
    for shard in 0..2 {
        wait_for_metric(&node, &format!("silverback_reads_in_flight{{shard=\"{shard}\"}} 0\n"));
        let selects = format!("silverback_memory_accounted_bytes{{part=\"selects\",shard=\"{shard}\"}} 0\n");
        wait_for_metric(&node, &selects);
    }
}

#[test]
fn a_client_that_leaves_closes_its_selects() {
    let node = Node::start(2);
    write_wide(&node, 20);
    let mut leaving = node.connect();
    send(&mut leaving, "GET", EXPORT, &[], b"");
    leaving.read_exact(&mut [0; 1000]).unwrap();
    assert!(open_selects(&node) > 0);
    drop(leaving);
    eventually("selects stay open", || open_selects(&node) == 0);
}

fn open_selects(node: &Node) -> u64 {
    let metrics = node.get("/metrics").text();
    let counts = metrics.lines().filter(|line| line.starts_with("silverback_shard_open_selects{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

#[test]
fn reads_are_counted_and_so_are_their_failures() {
    let node = Node::start(1);
    assert_eq!(node.get("/api/v1/labels").status, 200);
    assert_eq!(node.get("/api/v1/series").status, 400);
    let mut stream = BufReader::new(node.connect());
    send(stream.get_mut(), "POST", "/api/v1/read", &[], b"x");
    assert_eq!(read_answer(&mut stream).status, 400);
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_reads_total{shard=\"0\"} 3\n"), "{metrics}");
    assert!(metrics.contains("silverback_reads_failed_total{shard=\"0\"} 2\n"), "{metrics}");
}
