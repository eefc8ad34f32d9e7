//! The reports of a whole run of `benches/isolation`, by kind, in the order of their files' names:
//! a directory each for `runs`, `reads`, `mixed`.

use std::path::Path;

use super::mixed::MixedReport;
use super::reads::ReadsReport;
use crate::durability::reports::{ReportsError, read_all};
use silverback_load::replay::report::RunReport;

/// All reports.
#[derive(Debug, Default)]
pub struct Reports {
    /// What loads took.
    pub runs: Vec<RunReport>,
    /// The reads beside them.
    pub reads: Vec<ReadsReport>,
    /// Small requests and long jobs on one executor.
    pub mixed: Vec<MixedReport>,
}

impl Reports {
    /// Reads them. A kind that was not measured has no directory.
    pub fn read(directory: &Path) -> Result<Self, ReportsError> {
        Ok(Self {
            runs: read_all(&directory.join("runs"))?,
            reads: read_all(&directory.join("reads"))?,
            mixed: read_all(&directory.join("mixed"))?,
        })
    }

    /// The runs of one load, round after round.
    pub fn rounds<'a>(&'a self, load: &'a str) -> impl Iterator<Item = &'a RunReport> {
        self.runs.iter().filter(move |run| run.load == load)
    }

    /// Whether this was measured.
    pub fn has(&self, load: &str) -> bool {
        self.rounds(load).next().is_some()
    }

    /// The runs of the executor, those with jobs or those without.
    pub fn mixed_beside(&self, jobs: Jobs) -> impl Iterator<Item = &MixedReport> {
        self.mixed.iter().filter(move |mixed| match jobs {
            Jobs::Some => mixed.options.jobs > 0,
            Jobs::None => mixed.options.jobs == 0,
        })
    }
}

/// What small requests have beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// Long jobs.
    Some,
    /// Nothing.
    None,
}
