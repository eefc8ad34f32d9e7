//! The command in a process of its own, so that its memory is its own.
//!
//! Knows how to start it and to look at it from outside, not what it is asked.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};

use silverback_test_support::{PATIENCE, Process, Scratch, eventually, eventually_found};

use crate::harness::{Answer, Kept};

/// A running command; dropping it kills it.
pub struct Binary {
    /// Where it listens.
    pub address: SocketAddr,
    process: Process,
    /// Goes last: the node is in it.
    _home: Scratch,
}

impl Binary {
    /// A node that stores nothing of itself, with these options more.
    pub fn start(options: &[&str]) -> Self {
        let home = Scratch::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_silverback"));
        command.args(["--listen", "127.0.0.1:0", "--no-self-scrape", "--data-dir"]);
        command.arg(home.join("data")).args(options);
        let mut process = Process::start(command, home.join("log"));
        let node = Self { address: process.address(), process, _home: home };
        // It answers before its log is open, and takes writes afterwards.
        eventually("the node is not ready", || node.get("/-/ready").status == 200);
        node
    }

    /// A connection to it for request after request.
    pub fn keep(&self) -> Kept {
        Kept(BufReader::new(self.connect()))
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let stream = eventually_found(|| TcpStream::connect(self.address));
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
        self.process.signal(signal);
    }

    /// How it has ended; `None`: it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Waits until it has ended, and tells how.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    fn status_bytes(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).expect("the process runs");
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }
}
