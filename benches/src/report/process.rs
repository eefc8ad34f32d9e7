//! Child processes on CPUs of their own, for a limited time. It knows no program.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};
use silverback_load::replay::pin::pin_to_any;
use silverback_runtime::cpus::affinity_mask;

use super::failure::RunError;

/// How often a child is looked after.
const PERIOD: Duration = Duration::from_millis(5);
/// What is shown of a program's last words.
const LOG_BYTES_SHOWN: usize = 800;

/// Starts a process that keeps to these CPUs, as this thread does no longer than it takes.
pub fn spawn_on(cpus: &[usize], command: &mut Command) -> io::Result<Child> {
    let own: Vec<usize> = affinity_mask()?.into_iter().collect();
    pin_to_any(cpus)?;
    let child = command.spawn();
    pin_to_any(&own)?;
    child
}

/// A command that runs ahead of the machine's own daemons, where `first` says how.
pub fn command_after(first: &[String], program: &Path) -> Command {
    match first.split_first() {
        None => Command::new(program),
        Some((ahead, words)) => {
            let mut command = Command::new(ahead);
            command.args(words).arg(program);
            command
        }
    }
}

/// What runs a command ahead of daemons; nothing where that isn't allowed or isn't there.
pub fn ahead_of_daemons() -> Vec<String> {
    let words = ["chrt", "--rr", "1"].map(str::to_owned);
    let tried = Command::new(&words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) { words.to_vec() } else { Vec::new() }
}

/// Runs with this thread, and with those that it starts meanwhile, ahead of daemons, where that is allowed.
pub fn run_ahead_of_daemons<T>(run: impl FnOnce() -> T) -> T {
    let thread = gettid().to_string();
    let move_to = |class: &str, priority: &str| {
        let words = [class, "--pid", priority, &thread];
        Command::new("chrt").args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let is_ahead = move_to("--rr", "1");
    if !is_ahead {
        eprintln!("not ahead of the machine's daemons, because that isn't allowed or `chrt` isn't there");
    }
    let done = run();
    if is_ahead && !move_to("--other", "0") {
        eprintln!("a thread stays ahead of the machine's daemons");
    }
    done
}

/// Runs a command to its end and gives what it printed; its files lie in `scratch`. What lasts longer than
/// `limit` is killed.
pub fn run_to_end(
    what: &str,
    command: &mut Command,
    cpus: &[usize],
    scratch: &Path,
    limit: Duration,
) -> Result<Vec<u8>, RunError> {
    Running::start(what, command, cpus, scratch)?.end(limit)
}

/// A command that runs, and where what it prints is. It ends with this.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Running {
    /// Starts one; its files in `scratch` are named after what it is.
    pub fn start(what: &str, command: &mut Command, cpus: &[usize], scratch: &Path) -> io::Result<Self> {
        let [output, log] = ["output", "log"].map(|kind| scratch.join(format!("{what}.{kind}")));
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&log)?);
        let child = spawn_on(cpus, command)?;
        Ok(Self { what: what.to_owned(), child, output, log })
    }

    /// Whether it has ended already.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end, so long at most, and gives what it printed.
    pub fn end(self, limit: Duration) -> Result<Vec<u8>, RunError> {
        self.end_well(limit, |status| status.success())
    }

    /// Asks it to end (`SIGTERM`: whoever was begun in a shell's background may ignore `SIGINT`) and does the same: it may die
    /// of that.
    pub fn terminate(self, limit: Duration) -> Result<Vec<u8>, RunError> {
        match kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        let is_well =
            |status: ExitStatus| status.success() || status.signal() == Some(Signal::SIGTERM as i32);
        self.end_well(limit, is_well)
    }

    fn end_well(
        mut self,
        limit: Duration,
        is_well: impl FnOnce(ExitStatus) -> bool,
    ) -> Result<Vec<u8>, RunError> {
        let how = match wait(&mut self.child, limit)? {
            Some(status) if is_well(status) => return Ok(fs::read(&self.output)?),
            Some(status) => format!("ended with {status}"),
            None => format!("took longer than {} s", limit.as_secs()),
        };
        Err(RunError::Program { what: self.what.clone(), how, log: tail(&self.log) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child's end, so long at most.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let give_up = Instant::now() + limit;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() > give_up {
            return Ok(status);
        }
        thread::sleep(PERIOD);
    }
}

/// The end of a file of words; nothing of what can't be read.
pub fn tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_BYTES_SHOWN)..]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use silverback_test_support::{Scratch, eventually};

    use super::*;

    fn run(line: &str, limit: Duration) -> Result<Vec<u8>, RunError> {
        let scratch = Scratch::new();
        let cpus: Vec<usize> = affinity_mask().expect("own CPUs").into_iter().collect();
        run_to_end("a shell", Command::new("sh").args(["-c", line]), &cpus[..1], scratch.path(), limit)
    }

    #[test]
    fn what_a_program_prints_is_read() {
        let printed = run("echo 7; echo 8 >&2", Duration::from_secs(10)).expect("a shell");
        assert_eq!(printed, b"7\n");
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_last_words() {
        let error = run("echo alas >&2; exit 3", Duration::from_secs(10)).expect_err("an exit code");
        let words = error.to_string();
        assert!(words.contains("ended with exit status: 3") && words.ends_with("alas"), "{words}");
    }

    #[test]
    fn a_program_that_is_asked_to_end_may_die_of_it_and_nothing_else() {
        let asked = |line: &str| {
            let scratch = Scratch::new();
            let cpus: Vec<usize> = affinity_mask().expect("own CPUs").into_iter().collect();
            let mut command = Command::new("sh");
            let running = Running::start("a shell", command.args(["-c", line]), &cpus[..1], scratch.path());
            let running = running.expect("a shell");
            // By then it is told what it does with the signal.
            eventually("it prints nothing", || !fs::read(&running.output).expect("its output").is_empty());
            running.terminate(Duration::from_secs(20))
        };
        let printed = asked("echo 7; exec sleep 30").expect("it dies of the signal");
        assert_eq!(printed, b"7\n");
        let error = asked("trap 'exit 3' TERM; echo 7; while :; do sleep 0.01; done");
        assert!(error.expect_err("an exit code").to_string().contains("ended with exit status: 3"));
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let began = Instant::now();
        let error = run("exec sleep 30", Duration::from_millis(100)).expect_err("it hangs");
        assert!(error.to_string().contains("took longer than"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
