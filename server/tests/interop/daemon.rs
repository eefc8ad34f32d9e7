//! A server process of the test: started with its own log, ended by its id, whatever happens.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::http;

const READY_WITHIN: Duration = Duration::from_secs(20);
const LOG_LINES_SHOWN: usize = 30;

/// A directory that goes when the test does.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty one.
    pub fn create() -> Self {
        let path = std::env::temp_dir().join(format!("silverback-interop-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for temporary files");
        Self(path)
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// A running server.
pub struct Daemon {
    name: String,
    process: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts a program; what it prints goes to its log.
    pub fn start(name: &str, program: impl AsRef<Path>, arguments: &[String], scratch: &Scratch) -> Self {
        let log = scratch.join(&format!("{name}.log"));
        let file = File::create(&log).expect("a log in the scratch directory");
        let process = Command::new(program.as_ref())
            .args(arguments)
            .current_dir(&scratch.0)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle of the log"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {} can't be run: {error}", program.as_ref().display()));
        Self { name: name.to_owned(), process, log }
    }

    /// Waits until it says so.
    pub fn wait_until_ready(&self, port: u16) {
        let start = Instant::now();
        while !http::get(port, "/-/ready").is_ok_and(|answer| answer.status == 200) {
            assert!(
                start.elapsed() < READY_WITHIN,
                "{} isn't ready on port {port}:\n{}",
                self.name,
                self.log()
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("{} can't be ended: {error}", self.name);
        }
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket").port()
}
