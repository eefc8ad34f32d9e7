//! How the command ends when it is told to: in order at the first signal, at once at the second.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    child: Child,
    address: String,
    data_dir: std::path::PathBuf,
}

impl Node {
    /// Starts the command on a free port, and reads from its log where it listens.
    fn start(name: &str) -> Self {
        let data_dir = std::env::temp_dir().join(format!("silverback-signals-{}-{name}", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_silverback"))
            .args(["--listen", "127.0.0.1:0", "--shards", "1", "--no-self-scrape"])
            .arg("--data-dir")
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
                break rest.split(']').next().unwrap().to_owned();
            }
        };
        // The rest of the log is read so that the node never waits for room in the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address, data_dir }
    }

    fn signal(&self, signal: i32) {
        let kill = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    /// A connection with half a request on it, which the node waits for.
    fn half_a_request(&self) -> TcpStream {
        wait_until_ready(&self.address);
        let mut stream = connect(&self.address);
        stream.write_all(b"POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").unwrap();
        // Long enough that the request is under way before a signal comes.
        std::thread::sleep(Duration::from_millis(300));
        stream
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the node does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It has ended by itself, unless the test failed.
        let _ = self.child.kill();
        let _ = std::fs::remove_dir_all(&self.data_dir);
    }
}

/// Until its log is open the node refuses writes at once.
fn wait_until_ready(address: &str) {
    let began = Instant::now();
    loop {
        let mut stream = connect(address);
        stream.write_all(b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status).unwrap();
        if status.starts_with("HTTP/1.1 200") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The log tells the address a moment before the cores accept.
fn connect(address: &str) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_signal_and_its_echo_end_the_node_in_order() {
    let mut node = Node::start("once");
    drop(connect(&node.address));
    node.signal(15);
    node.signal(15);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn a_request_under_way_is_finished_first() {
    let mut node = Node::start("under-way");
    let mut stream = node.half_a_request();
    node.signal(15);
    std::thread::sleep(Duration::from_millis(200));
    stream.write_all(b"defghij").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_node_at_once() {
    let mut node = Node::start("twice");
    let _stream = node.half_a_request();
    node.signal(15);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(node.child.try_wait().unwrap(), None, "it waits for the request");
    node.signal(15);
    let status = node.wait();
    assert_eq!((status.code(), status.signal()), (Some(128 + 15), None));
}
