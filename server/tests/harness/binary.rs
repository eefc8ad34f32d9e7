//! The command in a process of its own, so that its memory is its own.
//!
//! Knows how to start it and to look at it from outside, not what it is asked.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{Answer, Kept};

/// How long a node may take to start, and any answer to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running command; dropping it kills it.
pub struct Binary {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
    data_dir: PathBuf,
}

impl Binary {
    /// A node that stores nothing of itself, with these options more.
    pub fn start(options: &[&str]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silverback-binary-{}-{number}", std::process::id());
        let data_dir = std::env::temp_dir().join(name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_silverback"))
            .args(["--listen", "127.0.0.1:0", "--no-self-scrape", "--data-dir"])
            .arg(&data_dir)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the log tells where the node listens");
            if let Some((_, rest)) = line.split_once("listen=[") {
                break rest.split([']', ',']).next().unwrap().parse().unwrap();
            }
        };
        // The rest of the log is read so that the node never waits for room in the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let node = Self { address, child, data_dir };
        node.wait_until_ready();
        node
    }

    /// It answers before its log is open, and takes writes afterwards.
    fn wait_until_ready(&self) {
        let began = Instant::now();
        while self.keep().ask("GET", "/-/ready", &[], b"").status != 200 {
            assert!(began.elapsed() < PATIENCE, "the node is not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A connection to it for request after request.
    pub fn keep(&self) -> Kept {
        Kept(BufReader::new(self.connect()))
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let began = Instant::now();
        let stream = loop {
            match TcpStream::connect(self.address) {
                Ok(stream) => break stream,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{}: {error}", self.address),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a GET.
    pub fn get(&self, path: &str) -> Answer {
        self.keep().ask("GET", path, &[], b"")
    }

    /// Its resident memory now.
    pub fn resident_bytes(&self) -> usize {
        self.status_bytes("VmRSS:")
    }

    /// The most resident memory that it ever had.
    pub fn peak_bytes(&self) -> usize {
        self.status_bytes("VmHWM:")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let kill = Command::new("kill").arg(format!("-{signal}")).arg(self.id().to_string()).status();
        assert!(kill.unwrap().success());
    }

    /// How it has ended; `None`: it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits so long until it has ended, and tells how.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(began.elapsed() < limit, "the node does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn status_bytes(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).expect("the process runs");
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        // Nothing that a failed test leaves behind is in anybody's way.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.data_dir));
    }
}
