//! The command in a process of its own, so that its memory is its own.
//!
//! Knows how to start it and to look at it from outside, not what it is asked.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};

use crate::http::{Answer, Kept};
use crate::{Process, Scratch, TEST_TIMEOUT, eventually, eventually_found};

/// A running command; dropping it kills it.
#[derive(Debug)]
pub struct Binary {
    /// Where it listens.
    pub address: SocketAddr,
    process: Process,
    /// Goes last: the node is in it.
    _home: Scratch,
}

impl Binary {
    /// A node that stores nothing of itself, with these options more; `program` is the command's path.
    ///
    /// # Panics
    ///
    /// Where it can't be run, or isn't ready in time.
    pub fn start(program: &str, options: &[&str]) -> Self {
        let home = Scratch::new();
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--no-self-scrape", "--data-dir"]);
        command.arg(home.join("data")).args(options);
        let mut process = Process::start(command, home.join("log"));
        let node = Self { address: process.address(), process, _home: home };
        // It answers before its log is open, and takes writes afterwards.
        eventually("the node is not ready", || node.get("/-/ready").status == 200);
        node
    }

    /// Its process' number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A connection to it for request after request.
    pub fn keep(&self) -> Kept {
        Kept(BufReader::new(self.connect()))
    }

    /// A connection to it.
    ///
    /// # Panics
    ///
    /// Where it accepts none in time.
    pub fn connect(&self) -> TcpStream {
        let stream = eventually_found(|| TcpStream::connect(self.address));
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout that isn't zero");
        stream
    }

    /// The answer to a GET.
    pub fn get(&self, path: &str) -> Answer {
        self.keep().ask("GET", path, &[], b"")
    }

    /// Its resident memory now, in bytes.
    ///
    /// # Panics
    ///
    /// Where it has ended.
    pub fn resident_bytes(&self) -> usize {
        self.process.status_bytes("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    ///
    /// # Panics
    ///
    /// Where it has ended.
    pub fn peak_bytes(&self) -> usize {
        self.process.status_bytes("VmHWM:")
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// Where there is no such process.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// How it has ended; `None`: it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Waits until it has ended, and returns how.
    ///
    /// # Panics
    ///
    /// Where that takes too long.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }
}
