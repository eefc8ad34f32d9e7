//! `perf` over a process, for as long as something is asked of it. Without call graphs, so that it takes little of the
//! time that it measures. It knows no groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use silverback_runtime::cpus::affinity_mask;

use super::symbols::{FIELDS, Profile, SEPARATOR, event, is_user_only, parse};
use crate::report::failure::RunError;
use crate::report::process::{Running, run_to_end};

/// Samples a second of CPU time: a prime, so that they don't keep step with timers.
pub const FREQUENCY: &str = "997";

/// Until it samples: it opens a counter for each thread and CPU first.
const BEGIN: Duration = Duration::from_millis(300);
/// No run of perf takes longer to write what it has, or to read it again.
const END_MAX: Duration = Duration::from_secs(60);
const WHAT: &str = "perf record";

/// That there is nothing to measure with, in words that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum NoPerf {
    /// It isn't installed.
    #[error("perf isn't installed: {0} (Debian: apt install linux-perf)")]
    Missing(std::io::Error),
    /// It may not be used, or not for the kernel's code.
    #[error(
        "perf may not sample: {0}\nrun as root, or allow it: sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0"
    )]
    Refused(String),
    /// Something else went wrong.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Fails where perf can't sample a process of ours with the kernel's code: tried on a program that does nothing.
pub fn check(scratch: &Path) -> Result<(), NoPerf> {
    Command::new("perf").arg("--version").output().map_err(NoPerf::Missing)?;
    let file = scratch.join("perf.tried");
    let tried = record(&file).args(["--", "true"]).stdin(Stdio::null()).output().map_err(NoPerf::Missing)?;
    if !tried.status.success() {
        return Err(NoPerf::Refused(String::from_utf8_lossy(&tried.stderr).trim().to_owned()));
    }
    let evlist = read(scratch, "perf evlist", &file, &["evlist"])?;
    match is_user_only(&evlist) {
        true => Err(NoPerf::Refused("the kernel's code is left out".to_owned())),
        false => Ok(()),
    }
}

/// perf over a process. It ends with this.
#[derive(Debug)]
pub struct Recording {
    perf: Running,
    scratch: PathBuf,
    file: PathBuf,
}

impl Recording {
    /// Begins to sample all threads of a process; perf itself runs on `cpus`.
    pub fn start(pid: i32, cpus: &[usize], scratch: &Path) -> Result<Self, RunError> {
        let file = scratch.join("perf.samples");
        let mut perf = Running::start(WHAT, record(&file).args(["-p", &pid.to_string()]), cpus, scratch)?;
        thread::sleep(BEGIN);
        if perf.has_ended()? {
            // It failed; or else there are no samples to be read at the end.
            perf.end(END_MAX)?;
            return Err(RunError::Answer {
                question: WHAT.to_owned(),
                answer: "it ended at once".to_owned(),
            });
        }
        Ok(Self { perf, scratch: scratch.to_owned(), file })
    }

    /// Ends it, and gives what it saw.
    pub fn end(self) -> Result<Profile, RunError> {
        // It dies of the signal once it has written all.
        self.perf.terminate(END_MAX)?;
        read_profile(&self.scratch, &self.file)
    }
}

/// Runs a program to its end under perf, and gives what it printed and what it was seen doing.
pub fn record_program(
    program: &Path,
    words: &[&str],
    scratch: &Path,
    limit: Duration,
) -> Result<(Vec<u8>, Profile), RunError> {
    let file = scratch.join("perf.samples");
    let mut command = record(&file);
    command.arg("--").arg(program).args(words);
    let printed = run_to_end(WHAT, &mut command, &own_cpus()?, scratch, limit)?;
    Ok((printed, read_profile(scratch, &file)?))
}

/// perf takes cycles where the processor counts them, and the CPU clock where it doesn't, as on many virtual machines.
fn record(file: &Path) -> Command {
    let mut command = Command::new("perf");
    // Neither copies of programs nor lists of them: both would stay in the home directory.
    command
        .args(["record", "--quiet", "--no-buildid", "--no-buildid-cache", "-F", FREQUENCY, "-o"])
        .arg(file);
    command
}

fn read_profile(scratch: &Path, file: &Path) -> Result<Profile, RunError> {
    let evlist = read(scratch, "perf evlist", file, &["evlist"])?;
    let separator = SEPARATOR.to_string();
    let words = ["report", "--stdio", "--quiet", "-F", FIELDS, "-t", &separator];
    let report = read(scratch, "perf report", file, &words)?;
    let profile = Profile { event: event(&evlist).to_owned(), symbols: parse(&report) };
    fs::remove_file(file)?;
    match profile.symbols.is_empty() {
        false => Ok(profile),
        true => Err(RunError::Program {
            what: WHAT.to_owned(),
            how: "saw nothing".to_owned(),
            log: report.lines().take(5).collect(),
        }),
    }
}

fn read(scratch: &Path, what: &str, file: &Path, words: &[&str]) -> Result<String, RunError> {
    let mut command = Command::new("perf");
    // It would ask servers for debug information.
    command.args(words).arg("-i").arg(file).env("DEBUGINFOD_URLS", "");
    let printed = run_to_end(what, &mut command, &own_cpus()?, scratch, END_MAX)?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

fn own_cpus() -> std::io::Result<Vec<usize>> {
    Ok(affinity_mask()?.into_iter().collect())
}
