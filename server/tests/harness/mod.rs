//! A whole node in this process, and a client that knows just enough HTTP to ask it.
//!
//! Knows nothing of what is asked: bodies are bytes.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use silverback::config::{Config, ShardCount};
use silverback::node::{self, NodeError};
use silverback_runtime::Shutdown;
use silverback_test_support::{PATIENCE, Scratch, eventually, eventually_found};

/// A running node; dropping it ends it.
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
    data_dir: Scratch,
}

impl Node {
    /// A node of so many shards, that stores nothing of itself.
    pub fn start(shards: usize) -> Self {
        Self::start_with(shards, |_| {})
    }

    /// Like [`Self::start`], its configuration changed.
    pub fn start_with(shards: usize, change: impl FnOnce(&mut Config)) -> Self {
        let data_dir = Scratch::new();
        let mut config = Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            data_dir: data_dir.path().to_owned(),
            shards: ShardCount::Fixed(NonZeroUsize::new(shards).unwrap()),
            self_scrape_interval: None,
            wal_segment_bytes: 1 << 20,
            shutdown_timeout: Duration::from_secs(2),
            ..Config::default()
        };
        change(&mut config);
        let (bound, is_bound) = mpsc::channel();
        let shutdown = Shutdown::new();
        let thread = std::thread::spawn({
            let shutdown = shutdown.clone();
            move || node::run_until(config, &shutdown, |addresses| bound.send(addresses[0]).unwrap())
        });
        let address = match is_bound.recv_timeout(PATIENCE) {
            Ok(address) => address,
            Err(_) => panic!("the node did not start: {:?}", thread.join()),
        };
        let node = Self { address, shutdown, thread: Some(thread), data_dir };
        node.wait_until_ready();
        node
    }

    fn wait_until_ready(&self) {
        eventually(format_args!("nobody listens on {}", self.address), || {
            let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!has_ended, "the node ended at once: its log tells why");
            TcpStream::connect(self.address).is_ok()
        });
        eventually_found(|| {
            let answer = self.get("/-/ready");
            if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
        });
    }

    /// Gives it the notice to end, as a signal does.
    pub fn request_shutdown(&self) {
        self.shutdown.request();
    }

    /// A connection to it for request after request.
    pub fn keep(&self) -> Kept {
        Kept(BufReader::new(self.connect()))
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a GET.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// The answer to a POST.
    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.ask("POST", path, headers, body)
    }

    /// The answer to a request on a connection of its own.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        send(&mut stream, method, path, headers, body);
        read_answer(&mut BufReader::new(stream))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown.request();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().expect("the node panicked").expect("the node failed");
        }
    }
}

/// An answer, read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
    /// Whether the connection broke before the body's end.
    pub is_cut: bool,
}

impl Answer {
    /// A header's value; empty where it isn't there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is text")
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A connection that stays open from one request to the next.
pub struct Kept(pub BufReader<TcpStream>);

impl Kept {
    /// The answer to a request on it.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.0.get_mut().write_all(&request(method, path, headers, body)).unwrap();
        read_answer(&mut self.0)
    }
}

/// A request's bytes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    [head(method, path, headers, body.len()).as_bytes(), body].concat()
}

/// The head of a request whose body has `length` bytes.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    head + "\r\n"
}

/// Sends a request that asks for the connection to be closed afterwards.
pub fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
    let headers = [headers, &[("connection", "close")]].concat();
    // A node that ends meanwhile, or refuses a request before it has its body, closes the connection; the answer
    // tells.
    drop(stream.write_all(head(method, path, &headers, body.len()).as_bytes()));
    drop(stream.write_all(body));
}

/// Reads an answer to its end.
pub fn read_answer(stream: &mut impl BufRead) -> Answer {
    try_read_answer(stream).expect("an answer has a head")
}

/// Reads an answer of a node that may end before it has told its head.
pub fn try_read_answer(stream: &mut impl BufRead) -> io::Result<Answer> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).map(|_| line.trim_end().to_owned())
    };
    let status_line = line()?;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {status_line:?}")))?;
    let headers = std::iter::from_fn(|| line().map(|line| Some(line).filter(|l| !l.is_empty())).transpose());
    let headers: Vec<String> = headers.collect::<io::Result<_>>()?;
    let headers = headers.iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut answer = Answer { status, headers, body: Vec::new(), is_cut: false };
    let length = answer.header("content-length").parse().ok().or((status == 204).then_some(0));
    answer.is_cut = match (answer.header("transfer-encoding"), length) {
        ("chunked", _) => read_chunks(stream, &mut answer.body).is_none(),
        (_, Some(length)) => {
            answer.body.resize(length, 0);
            stream.read_exact(&mut answer.body).is_err()
        }
        (_, None) => stream.read_to_end(&mut answer.body).is_err(),
    };
    Ok(answer)
}

/// `None`: the stream ended before its last chunk.
fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
        let begins = body.len();
        body.resize(begins + size, 0);
        stream.read_exact(&mut body[begins..]).ok()?;
        stream.read_exact(&mut [0; 2]).ok()?;
        if size == 0 {
            return Some(());
        }
    }
}
