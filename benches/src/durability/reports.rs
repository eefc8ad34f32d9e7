//! The reports of a whole run of `benches/durability`, by kind, in the order of their files' names:
//! a directory each for `runs`, `probes`, `logs`, `restarts`, `kept`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::kept::KeptReport;
use super::log::LogReport;
use super::probe::ProbeReport;
use super::restart::RestartReport;
use silverback_load::replay::report::RunReport;

/// All reports.
#[derive(Debug, Default)]
pub struct Reports {
    /// What loads took.
    pub runs: Vec<RunReport>,
    /// The bare disk in between.
    pub probes: Vec<ProbeReport>,
    /// What lay in logs.
    pub logs: Vec<LogReport>,
    /// Restarts.
    pub restarts: Vec<RestartReport>,
    /// What was there after them.
    pub kept: Vec<KeptReport>,
}

/// Why there are no reports.
#[derive(Debug, thiserror::Error)]
pub enum ReportsError {
    /// A file or a directory can't be read.
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    /// A file isn't a report.
    #[error("{0}: {1}")]
    Parse(PathBuf, serde_json::Error),
}

impl Reports {
    /// Reads them. A kind that was not measured has no directory.
    pub fn read(directory: &Path) -> Result<Self, ReportsError> {
        Ok(Self {
            runs: read_all(&directory.join("runs"))?,
            probes: read_all(&directory.join("probes"))?,
            logs: read_all(&directory.join("logs"))?,
            restarts: read_all(&directory.join("restarts"))?,
            kept: read_all(&directory.join("kept"))?,
        })
    }

    /// The runs of one contestant with one load, round after round.
    pub fn rounds<'a>(
        &'a self,
        load: &'a str,
        contestant: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a RunReport> {
        self.runs.iter().filter(move |run| run.load == load && run.contestant == contestant)
    }

    /// Those that had a load, in the order of their first runs.
    pub fn contestants(&self, load: &str) -> Vec<&str> {
        let mut contestants = Vec::new();
        for run in self.runs.iter().filter(|run| run.load == load) {
            if !contestants.contains(&run.contestant.as_str()) {
                contestants.push(run.contestant.as_str());
            }
        }
        contestants
    }
}

/// Reads all files of one kind; none where there is no directory.
pub fn read_all<R: DeserializeOwned>(directory: &Path) -> Result<Vec<R>, ReportsError> {
    let in_directory = |error| ReportsError::Read(directory.to_owned(), error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(in_directory(error)),
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>().map_err(in_directory)?;
    paths.sort();
    paths.into_iter().map(read_one).collect()
}

fn read_one<R: DeserializeOwned>(path: PathBuf) -> Result<R, ReportsError> {
    let bytes = fs::read(&path).map_err(|error| ReportsError::Read(path.clone(), error))?;
    serde_json::from_slice(&bytes).map_err(|error| ReportsError::Parse(path, error))
}
