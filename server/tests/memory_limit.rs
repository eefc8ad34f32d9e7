//! A node with little memory, flooded: it refuses new series first and then writes, says so, and
//! stays below its limit all along; reads go on.
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
use std::time::{Duration, Instant};

use silverback::api::remote_write::Version;

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
        let data_dir = std::env::temp_dir().join(format!("silverback-memory-{}", std::process::id()));
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
