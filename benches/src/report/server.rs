//! A server under test: a child process with a directory of its own on loopback, ended by its id. It knows how
//! each is started and how it says what it stored, no loads.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use silverback_load::usage::Process;

use super::ask;
use super::certificate::{self, ca_file};
use super::failure::RunError;
use super::process::{command_after, spawn_on, tail, wait};
use super::side::{Program, Side};
use crate::durability::restart::{RestartOptions, RestartReport, wait_until_ready};

/// The node's family that counts them.
const CELLS_MOVED: &str = "silverback_rebalance_moves_done_total";
/// How long one may take until it takes writes, its log read back.
const READY_S_MAX: f64 = 120.0;
/// How long one may take to end in peace.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How one is started.
#[derive(Debug)]
pub struct Start<'a> {
    /// Who.
    pub side: Side,
    /// Its program.
    pub program: &'a Program,
    /// Where its data and its log are.
    pub directory: &'a Path,
    /// Where it runs.
    pub cpus: &'a [usize],
    /// Besides what each of its kind is started with.
    pub arguments: &'a [String],
    /// What is before its command.
    pub first: &'a [String],
}

/// One that runs. It ends with this.
#[derive(Debug)]
pub struct Server {
    side: Side,
    child: Child,
    address: SocketAddr,
    /// Whom its clients believe, where it speaks TLS.
    ca_file: Option<PathBuf>,
}

impl Server {
    /// Starts one, waits until it takes writes, and returns what that took.
    pub fn start(start: &Start<'_>) -> Result<(Self, RestartReport), RunError> {
        let (data, log, empty) = paths(start.directory);
        fs::create_dir_all(&data)?;
        fs::write(&empty, "")?;
        let ca_file = start.side.is_encrypted().then(|| ca_file(start.directory));
        if ca_file.is_some() {
            certificate::write(start.directory)?;
        }
        let address = free_address()?;
        let said = File::create(&log)?;
        let mut command = command_after(start.first, &start.program.path);
        command.args(start.side.arguments(address, &data, &empty)).args(start.arguments);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = spawn_on(start.cpus, &mut command)?;
        let server = Self { side: start.side, child, address, ca_file };
        let options = RestartOptions {
            pid: server.pid(),
            url: server.url(start.side.ready_path()),
            ca_file: server.ca_file.clone(),
            timeout: READY_S_MAX,
            settle: 0.0,
            contestant: start.side.name().to_owned(),
        };
        let started = wait_until_ready(&options).map_err(|error| RunError::NotReady {
            side: start.side,
            error,
            log: tail(&log),
        })?;
        Ok((server, started))
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where one of its paths is.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.ca_file.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// What tells a loader whom to believe.
    pub fn ca_argument(&self) -> Option<String> {
        self.ca_file.as_ref().map(|file| format!("--ca-file={}", file.display()))
    }

    /// Its process, to be measured.
    pub fn process(&self) -> io::Result<Process> {
        Process::open(self.pid())
    }

    /// Samples that it stored since its start, by its own metrics.
    pub fn stored(&self) -> Result<u64, RunError> {
        self.counted(self.side.stored_family())
    }

    /// Cells that it moved by load since its start; nothing where it has none.
    pub fn cells_moved(&self) -> Result<Option<u64>, RunError> {
        self.side.is_own().then(|| self.counted(CELLS_MOVED)).transpose()
    }

    fn counted(&self, family: &str) -> Result<u64, RunError> {
        let answer = ask::get(self.address, self.ca_file.as_deref(), "/metrics")?;
        let text = String::from_utf8_lossy(&answer.body);
        match ask::sum_of(&text, family) {
            Some(counted) if answer.status == 200 => Ok(counted as u64),
            _nothing_or_a_refusal => Err(RunError::Answer {
                question: "/metrics".to_owned(),
                answer: format!("{}, without {family}", answer.status),
            }),
        }
    }

    /// Ends it as one does in peace, and by force where it doesn't.
    pub fn stop(mut self) -> io::Result<()> {
        // One that has ended meanwhile has none to tell.
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        wait(&mut self.child, STOP_MAX).map(drop)
    }

    /// Ends it without a chance to do anything more.
    pub fn kill(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn paths(directory: &Path) -> (PathBuf, PathBuf, PathBuf) {
    (directory.join("data"), directory.join("server.log"), directory.join("empty.yml"))
}

/// A port that nobody listens on now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
