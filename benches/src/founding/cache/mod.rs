//! A cache of items of 16 KiB, spread over cores: by locks, by a thread that deals everything out, and by
//! cores that own their part.
//!
//! 128 askers, each with 1,024 writes and then 4,096 reads, one after the other. Every operation is a task
//! of its own, as a request is on a server. Where several cores take operations in, each has its share of
//! the askers.

mod dispatched;
mod items;
mod locked;
mod owned;

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use silverback_load::random::SplitMix;

use super::events;
use super::meter::{Figures, Meter, figure};
use super::results::{Column, Comparison, Results, Row};
use super::{Job, OURS, Size};
use crate::rebalance::verdict::{Bound, Kind as About};

use items::{Kind, Operation};

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    side: Side,
    cores: usize,
    askers: usize,
    /// Of each asker.
    writes: usize,
    reads: usize,
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// Tokio's multi-thread runtime, with the standard library's read-write locks.
    Locks,
    /// The same, with tokio's own locks.
    AsyncLocks,
    /// A `LocalSet` on each of some threads, and one thread that deals everything out.
    LocalSets,
    /// Pinned threads, and one thread that deals everything out.
    PinnedThreads,
    /// The node's executors, lanes and parts.
    Owners,
}

impl Side {
    const ALL: [Self; 5] =
        [Self::Locks, Self::AsyncLocks, Self::LocalSets, Self::PinnedThreads, Self::Owners];

    fn name(self) -> &'static str {
        match self {
            Self::Locks => STD_LOCKS,
            Self::AsyncLocks => "tokio, tokio's RwLock",
            Self::LocalSets => "LocalSets and a dispatcher",
            Self::PinnedThreads => "pinned threads and a dispatcher",
            Self::Owners => OURS,
        }
    }
}

/// The side behind the standard library's locks.
pub const STD_LOCKS: &str = "tokio, std's RwLock";
const RATIO_MIN: f64 = 1.5;

/// The comparison.
pub fn comparison(size: Size, cores: usize) -> Comparison {
    let work =
        |side| Work { side, cores, askers: 128, writes: size.pick(1024, 8), reads: size.pick(4096, 32) };
    let row = |side: Side| Row {
        setting: format!("{cores} cores"),
        side: side.name().to_owned(),
        job: Job::Cache(work(side)),
    };
    let column = |figure, head, unit, digits| Column { figure, head, unit, digits };
    Comparison {
        name: "cache",
        title: "A cache of 16 KiB items, 128 tasks at once",
        rows: Side::ALL.map(row).into(),
        columns: vec![
            column(figure::PER_S, "k operations/s", 1e3, 0),
            column(figure::CPU_NS, "CPU µs each", 1e3, 2),
            column(figure::SWITCHES, "context switches each", 1.0, 4),
            column(events::SYSCALLS, "system calls each", 1.0, 4),
            column(events::CACHE_MISSES, "cache misses each", 1.0, 1),
        ],
        plotted: 0,
        counts_events: true,
        judge,
    }
}

fn judge(results: &Results) -> Vec<Bound> {
    let Some(first) = results.rows.first() else { return Vec::new() };
    let per_s = |side: Side| results.median(&first.setting, side.name(), figure::PER_S);
    let best = per_s(Side::Locks).max(per_s(Side::AsyncLocks));
    let ratio = per_s(Side::Owners) / best;
    let words = format!(
        "operations of cores that own their part are {ratio:.2} times those of locks on tokio (at least {RATIO_MIN})"
    );
    vec![Bound::new(About::Speed, ratio >= RATIO_MIN, words)]
}

impl Work {
    /// Does it.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        let meter = Arc::new(Meter::default());
        match self.side {
            Side::Locks => locked::run(self, &meter, locked::standard())?,
            Side::AsyncLocks => locked::run(self, &meter, locked::asynchronous())?,
            Side::LocalSets => dispatched::run(self, &meter, dispatched::Owner::LocalSet)?,
            Side::PinnedThreads => dispatched::run(self, &meter, dispatched::Owner::Pinned)?,
            Side::Owners => owned::run(self, &meter)?,
        }
        Ok(meter.figures((self.askers * (self.writes + self.reads)) as u64))
    }

    /// What one asker asks for: the same on every side.
    fn operations(&self, asker: usize) -> impl Iterator<Item = Operation> + use<> {
        let mut random = SplitMix::new(1, asker as u64);
        let writes = std::iter::repeat_n(Kind::Write, self.writes);
        let kinds = writes.chain(std::iter::repeat_n(Kind::Read, self.reads));
        kinds.map(move |kind| Operation::begin(kind, &mut random))
    }

    /// The askers of one of several cores.
    fn askers_of(&self, core: usize, cores: usize) -> Range<usize> {
        self.askers * core / cores..self.askers * (core + 1) / cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_does_all_of_the_work() {
        for side in Side::ALL {
            let work = Work { side, cores: 2, askers: 9, writes: 3, reads: 5 };
            let figures = work.run().unwrap_or_else(|error| panic!("{side:?}: {error}"));
            assert_eq!(figures[figure::OPERATIONS], 72.0, "{side:?}");
        }
    }

    #[test]
    fn every_asker_has_its_core() {
        let work = Work { side: Side::Locks, cores: 3, askers: 128, writes: 1, reads: 0 };
        let askers: Vec<usize> = (0..3).flat_map(|core| work.askers_of(core, 3)).collect();
        assert_eq!(askers, (0..128).collect::<Vec<_>>());
    }
}
