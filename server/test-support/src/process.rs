//! A program that runs beside a test: its log in a file, its end whatever happens.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::waiting::Waiting;

/// A running program; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it, what it prints going to a file.
    ///
    /// # Panics
    ///
    /// Where it can't be run.
    #[track_caller]
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let printed = file.try_clone().expect("a second handle of the log");
        command.stdin(Stdio::null()).stdout(printed).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        Self { child, log }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until a look at it finds something.
    ///
    /// # Panics
    ///
    /// Where it ends before, or takes too long: with `what` is missing and all that it has printed.
    #[track_caller]
    pub fn wait_until<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let waiting = Waiting::begin();
        loop {
            // Looked for first: its last words may be what is waited for.
            let ended = self.ended();
            if let Some(found) = look(self) {
                return found;
            }
            assert!(ended.is_none(), "{ended:?} before {what}:\n{}", self.told());
            waiting.again(|| format!("no {what}:\n{}", self.told()));
        }
    }

    /// Where a node listens, once its log says so.
    ///
    /// # Panics
    ///
    /// As [`Self::wait_until`] does.
    #[track_caller]
    pub fn address(&mut self) -> SocketAddr {
        self.wait_until("address", |process| {
            let told = process.told();
            let (_, rest) = told.split_once("listen=[")?;
            rest.split_once(']')?.0.split(',').next()?.parse().ok()
        })
    }

    /// A number of bytes that the kernel reports of it: `VmRSS:`, `VmHWM:`.
    ///
    /// # Panics
    ///
    /// Where it has ended.
    #[track_caller]
    pub fn status_bytes(&self, field: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("the process runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("the process runs");
        let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
        kib.expect("a number of KiB") << 10
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// Where there is no such process.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        let kill = Command::new("kill").arg(format!("-{signal}")).arg(self.id().to_string()).status();
        assert!(kill.expect("kill runs").success(), "{} can't be signalled", self.id());
    }

    /// How it has ended; `None`: it runs.
    ///
    /// # Panics
    ///
    /// Where the system doesn't say.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    ///
    /// Where that takes too long, with all that it has printed.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let waiting = Waiting::begin();
        loop {
            match self.ended() {
                Some(status) => return status,
                None => waiting.again(|| format!("it doesn't end:\n{}", self.told())),
            }
        }
    }

    /// Ends it as a power cut would, as far as a process can tell.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // One that has ended already is as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    fn shell(scratch: &Scratch, script: &str) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Process::start(command, scratch.join("log"))
    }

    #[test]
    fn a_process_is_heard_signalled_and_waited_for() {
        let scratch = Scratch::new();
        let mut process = shell(&scratch, "echo 'listen=[127.0.0.1:7,[::1]:7]' >&2; exec sleep 600");
        assert_eq!(process.address(), "127.0.0.1:7".parse().unwrap());
        assert_eq!(process.ended(), None);
        process.signal(15);
        assert_eq!(process.wait().code(), None);
    }

    #[test]
    #[should_panic(expected = "before word:\nsorry")]
    fn one_that_ends_early_is_told_with_its_last_words() {
        let scratch = Scratch::new();
        shell(&scratch, "echo sorry; exit 3")
            .wait_until("word", |process| process.told().contains("hello").then_some(()));
    }
}
