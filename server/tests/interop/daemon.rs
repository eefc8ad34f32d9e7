//! A server process of the test: started with its own log, ended by its id, whatever happens.

use std::path::Path;
use std::process::Command;

use silverback_test_support::{Process, Scratch};

use crate::http;

const LOG_LINES_SHOWN: usize = 30;

/// A running server.
pub(crate) struct Daemon(Process);

impl Daemon {
    /// Starts a program; what it prints goes to its log.
    pub(crate) fn start(
        name: &str,
        program: impl AsRef<Path>,
        arguments: &[String],
        scratch: &Scratch,
    ) -> Self {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).current_dir(scratch.path());
        Self(Process::start(command, scratch.join(&format!("{name}.log"))))
    }

    /// Waits until it says so.
    pub(crate) fn wait_until_ready(&mut self, port: u16) {
        let is_ready = || http::get(port, "/-/ready").is_ok_and(|answer| answer.status == 200);
        self.0.wait_until("readiness", |_| is_ready().then_some(()));
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        let log = self.0.told();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}
