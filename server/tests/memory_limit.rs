//! A node with little memory, flooded: it refuses new series first and then writes, says so, and
//! stays below its limit all along; reads go on. Reads of everything are refused, and writes go on.
#[path = "harness/mod.rs"]
mod harness;
#[path = "bad_input/request.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of it")]
mod request;
#[path = "decode/wire.rs"]
#[allow(dead_code, reason = "the decoder's own tests use all of it")]
mod wire;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use silverback::api::remote_write::Version;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::prometheus::{LabelMatcher, Query, ReadRequest};

use harness::{Answer, read_answer};
use request::{PATH, Series, body, headers};

const LIMIT_MIB: usize = 128;
/// How long the flood may take until the node refuses it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Series of one request.
const LOT: usize = 5000;

/// The command in a process of its own, so that its memory is its own.
struct Node {
    child: Child,
    connection: BufReader<TcpStream>,
    data_dir: PathBuf,
}

impl Node {
    fn start() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let data_dir =
            std::env::temp_dir().join(format!("silverback-memory-{}-{number}", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_silverback"))
            .args(["--listen", "127.0.0.1:0", "--shards", "1", "--no-self-scrape"])
            .args(["--memory-limit", &format!("{LIMIT_MIB}MiB"), "--data-dir"])
            .arg(&data_dir)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the log tells where the node listens");
            if let Some((_, rest)) = line.split_once("listen=[") {
                assert!(line.contains(&format!("limit {LIMIT_MIB} MiB")), "{line}");
                break rest.split(']').next().unwrap().to_owned();
            }
        };
        // The rest of the log is read so that the node never waits for room in the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let connection = BufReader::new(connect(&address));
        let mut node = Self { child, connection, data_dir };
        node.wait_until_ready();
        node
    }

    /// It answers before its log is open, and takes writes afterwards.
    fn wait_until_ready(&mut self) {
        let began = Instant::now();
        while self.ask("GET", "/-/ready", &[], b"").status != 200 {
            assert!(began.elapsed() < PATIENCE, "the node is not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        std::io::Write::write_all(self.connection.get_mut(), &harness::request(method, path, headers, body))
            .unwrap();
        read_answer(&mut self.connection)
    }

    fn get(&mut self, path: &str) -> String {
        let answer = self.ask("GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    fn write(&mut self, series: &[Series]) -> Answer {
        self.ask("POST", PATH, &headers(Version::V1), &body(Version::V1, series))
    }

    /// The most resident memory that it ever had.
    fn peak_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nothing that a failed test leaves behind is in anybody's way.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.data_dir));
    }
}

fn connect(address: &str) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as i64
}

/// Series of a lot, each with samples that hardly compress.
fn lot(number: usize, from_ms: i64, samples: i64) -> Vec<Series> {
    let value = |i: usize, t: i64| {
        f64::from_bits(
            0x3ff0_0000_0000_0000 | (i as u64 + t as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12,
        )
    };
    let series = |i: usize| {
        let pod = format!("pod-{i:09}");
        let series = Series::new([("__name__", "flood_total"), ("job", "flood"), ("pod", &*pod)]);
        (0..samples).fold(series, |series, t| series.sample(from_ms + t, value(i, t)))
    };
    (number * LOT..(number + 1) * LOT).map(series).collect()
}

/// A remote read of all samples as one message.
fn read_all() -> Vec<u8> {
    let matchers =
        vec![LabelMatcher { r#type: Type::Re as i32, name: "__name__".into(), value: ".+".into() }];
    let query = Query { matchers, start_timestamp_ms: 0, end_timestamp_ms: i64::MAX, ..Query::default() };
    let request = ReadRequest { queries: vec![query], accepted_response_types: Vec::new() };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

#[test]
fn reads_of_everything_are_refused_with_words_and_leave_memory_to_writes() {
    let mut node = Node::start();
    let start_ms = now_ms() - 3_600_000;
    for round in 0..25 {
        let answer = node.write(&lot(0, start_ms + 20 * round, 20));
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    for _ in 0..10 {
        let refused = node.ask("POST", "/api/v1/read", &[], &read_all());
        assert_eq!(refused.status, 400, "{} bytes were answered", refused.body.len());
        assert!(refused.text().contains("4194304 bytes: ask for less"), "{}", refused.text());
    }
    let metrics = node.get("/metrics");
    for part in ["reads", "selects"] {
        let line = format!("silverback_memory_accounted_bytes{{part=\"{part}\",shard=\"0\"}} 0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert_eq!(node.write(&lot(0, start_ms + 1000, 1)).status, 204);
    let peak_mib = node.peak_bytes() >> 20;
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at the most");
}

#[test]
fn a_flooded_node_refuses_in_order_says_so_and_stays_below_its_limit() {
    let began = Instant::now();
    let mut node = Node::start();
    let start_ms = now_ms() - 3_600_000;
    let mut lots = 0;
    let short = loop {
        let answer = node.write(&lot(lots, start_ms, 1));
        if answer.status != 204 {
            break answer;
        }
        lots += 1;
        assert!(began.elapsed() < PATIENCE, "{lots} lots of new series were taken in");
    };
    assert_eq!((short.status, short.header("retry-after")), (400, "30"), "{}", short.text());
    assert!(short.text().contains("memory_limit"), "{}", short.text());
    assert!(lots * LOT > 50_000, "{lots} lots fit");
    assert!(node.get("/api/v1/status/node").contains(r#""refuses":"new_series""#));

    let mut round = 0;
    let full = loop {
        let answer = node.write(&lot(round as usize % lots, start_ms + 1 + round / lots as i64 * 20, 20));
        if answer.status != 204 {
            break answer;
        }
        round += 1;
        assert!(began.elapsed() < PATIENCE, "{round} lots of samples were taken in");
    };
    assert!(round > 0, "known series go on");
    assert_eq!((full.status, full.header("retry-after")), (429, "30"), "{}", full.text());
    for words in ["memory is full", "128 MiB", "--memory-limit"] {
        assert!(full.text().contains(words), "{}", full.text());
    }

    let metrics = node.get("/metrics");
    assert!(metrics.contains("silverback_memory_pressure{shard=\"0\"} 2"), "{metrics}");
    assert!(metrics.contains("silverback_write_requests_memory_full_total{shard=\"0\"} 1"), "{metrics}");
    let read = node.get("/api/v1/export?match[]=flood_total%7Bpod=%22pod-000000007%22%7D");
    assert!(read.contains("pod-000000007"), "{read}");
    let peak_mib = node.peak_bytes() >> 20;
    println!("{} series, {peak_mib} MiB at the most, {:?}", lots * LOT, began.elapsed());
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at the most");
}
