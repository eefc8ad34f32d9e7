//! One load of the report, sent once as the report sends it, with perf over the server. It knows no groups.

use std::path::Path;

use super::perf::Recording;
use super::symbols::Profile;
use crate::report::failure::RunError;
use crate::report::loads::Replay;
use crate::report::rounds::{Ground, Subject};
use crate::report::writes::{Run, figure};

/// What one side was seen doing, and what a unit of its work took.
#[derive(Debug)]
pub struct Column {
    /// Whose, for the table's head.
    pub head: String,
    /// What it was seen doing.
    pub profile: Profile,
    /// CPU time of the process for each unit of work.
    pub cpu_ns: f64,
}

/// Sends what lies in `file` to a side. perf watches from before the warm-up until the server has settled: the CPU time
/// that the report counts, and the warm-up's.
pub fn profile(
    ground: &Ground,
    subject: &Subject<'_>,
    replay: &Replay,
    file: &Path,
    head: String,
) -> Result<Column, RunError> {
    let run = Run::start(ground, subject, replay)?;
    let recording = Recording::start(run.server.pid(), &ground.loader_cpus(), &ground.scratch)?;
    let report = run.send(file)?;
    // Before the server ends: what it writes then is no part of the load.
    let profile = recording.end()?;
    let figures = run.end(&report, None)?;
    let per_cpu_s = figures.get(figure::PER_CPU_S).copied().unwrap_or(f64::NAN);
    Ok(Column { head, profile, cpu_ns: 1e9 / per_cpu_s })
}
