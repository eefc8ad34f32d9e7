//! What a process is to measure: one row of a comparison.

use std::error::Error;

use serde::{Deserialize, Serialize};

use super::meter::Figures;
use super::{cache, connections, mixed, refcounts, wakeups};

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Job {
    /// A cache of items, spread over cores.
    Cache(cache::Work),
    /// A shared reference count on the ingest path.
    Refcounts(refcounts::Work),
    /// One request of that path, to be watched.
    Stepped(refcounts::Stepped),
    /// Small requests beside long jobs.
    Mixed(mixed::Work),
    /// One write over few and many connections.
    Connections(connections::Work),
    /// A server of those.
    Serving(connections::Serving),
    /// What it takes to wake a task.
    Wakeups(wakeups::Work),
}

/// How much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Enough to mean something.
    Full,
    /// Seconds: shows that it works, measures nothing.
    Small,
}

impl Size {
    /// The one or the other.
    pub fn pick<T>(self, full: T, small: T) -> T {
        match self {
            Self::Full => full,
            Self::Small => small,
        }
    }
}

impl Job {
    /// Does it here, in this process.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        match self {
            Self::Cache(work) => work.run(),
            Self::Refcounts(work) => work.run(),
            Self::Stepped(work) => work.run(),
            Self::Mixed(work) => work.run(),
            Self::Connections(work) => work.run(),
            Self::Serving(serving) => serving.run(),
            Self::Wakeups(work) => work.run(),
        }
    }
}
