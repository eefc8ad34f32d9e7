//! A whole node in this process, and the client that asks it.
//!
//! Knows nothing of what is asked: bodies are bytes.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use silverback::config::{Config, MemoryLimit, ShardCount};
use silverback::node::{self, NodeError};
use silverback_runtime::Shutdown;
use silverback_test_support::http::{Answer, Kept, read_answer, send};
use silverback_test_support::{Scratch, TEST_TIMEOUT, eventually, eventually_found};

/// A limit that a node alone doesn't reach, nor with all that is beside it in its process: what the process takes
/// counts for each node in it. For tests whose bounds are others.
pub const OUT_OF_REACH: MemoryLimit = MemoryLimit::Fixed(16 << 30);

/// A running node; dropping it ends it.
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    /// The same, and where it listens for the admin service and for probes.
    pub addresses: Vec<SocketAddr>,
    probed: SocketAddr,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
    /// Goes last: the node is in it.
    _data_dir: Scratch,
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
        let has_probes = !config.probe_listen.is_empty();
        let (bound, is_bound) = mpsc::channel();
        let shutdown = Shutdown::new();
        let thread = std::thread::spawn({
            let shutdown = shutdown.clone();
            move || node::run_until(config, &shutdown, |addresses| bound.send(addresses.to_vec()).unwrap())
        });
        let addresses = match is_bound.recv_timeout(TEST_TIMEOUT) {
            Ok(addresses) => addresses,
            Err(_) => panic!("the node did not start: {:?}", thread.join()),
        };
        let address = addresses[0];
        let probed = if has_probes { addresses[addresses.len() - 1] } else { address };
        let node = Self { address, addresses, probed, shutdown, thread: Some(thread), _data_dir: data_dir };
        node.wait_until_ready();
        node
    }

    fn wait_until_ready(&self) {
        eventually(format_args!("nobody listens on {}", self.address), || {
            let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!has_ended, "the node ended at once: its log tells why");
            TcpStream::connect(self.address).is_ok() && TcpStream::connect(self.probed).is_ok()
        });
        eventually_found(|| {
            let answer = self.probe("/-/ready");
            if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
        });
    }

    /// The answer to a GET at its address for probes, or at its only one.
    pub fn probe(&self, path: &str) -> Answer {
        let mut stream = TcpStream::connect(self.probed).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        send(&mut stream, "GET", path, &[], b"");
        read_answer(&mut BufReader::new(stream))
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
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
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
