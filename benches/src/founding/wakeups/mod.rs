//! What it takes to wake a task: on another core, on the same one, and for the first time.
//!
//! The pieces are those of tokio's own benches of its multi-thread runtime: a message there and back,
//! many tasks that yield, many that are spawned at once, and a chain in which each spawns the next. All
//! but the first are done by every core at the same time.

mod on_tokio;
mod owned;

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::events;
use super::meter::{Figures, Meter, figure};
use super::results::{Column, Comparison, Results, Row};
use super::{Job, OURS, Size, cpus};
use crate::rebalance::verdict::{Bound, Kind};

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    side: Side,
    task: Task,
    cores: usize,
    /// Round trips, yields of each task, tasks of a burst, links of a chain.
    count: u64,
    /// How often that is done, one after the other.
    repeats: u64,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Task {
    /// A message from one core to another and back.
    PingPong,
    /// Tasks that do nothing but yield.
    YieldMany,
    /// Tasks that end at once, spawned in a burst and awaited.
    SpawnMany,
    /// Each task spawns the next.
    ChainedSpawns,
}

/// Tasks that yield on each core.
const YIELDING_TASKS: usize = 100;

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong between two cores",
            Self::YieldMany => "yield",
            Self::SpawnMany => "spawn in a burst",
            Self::ChainedSpawns => "spawn in a chain",
        }
    }
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// One multi-thread runtime of tokio's.
    Tokio,
    /// A runtime of tokio's for each core, so that a message has to cross.
    TokioPerCore,
    /// The node's executors, as the node sets them up.
    Executors,
    /// The same, looking for work for 20 µs before they sleep.
    SpinningExecutors,
}

const SPINNING: &str = "silverback, 20 µs of spinning";

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::TokioPerCore => "tokio, a runtime for each core",
            Self::Executors => OURS,
            Self::SpinningExecutors => SPINNING,
        }
    }
}

/// The comparison.
pub fn comparison(size: Size, cores: usize) -> Comparison {
    let works = [
        (
            Task::PingPong,
            vec![Side::Tokio, Side::TokioPerCore, Side::Executors, Side::SpinningExecutors],
            100_000,
            1,
        ),
        (Task::YieldMany, vec![Side::Tokio, Side::Executors], 1000, 10),
        (Task::SpawnMany, vec![Side::Tokio, Side::Executors], 10_000, 50),
        (Task::ChainedSpawns, vec![Side::Tokio, Side::Executors], 1000, 500),
    ];
    let row = |task: Task, side: Side, count, repeats| Row {
        setting: task.name().to_owned(),
        side: side.name().to_owned(),
        job: Job::Wakeups(Work { side, task, cores, count: size.pick(count, count / 100), repeats }),
    };
    let column = |figure, head, unit, digits| Column { figure, head, unit, digits };
    Comparison {
        name: "wakeups",
        title: "What it takes to wake a task",
        rows: works
            .into_iter()
            .flat_map(|(task, sides, count, repeats)| {
                sides.into_iter().map(move |side| row(task, side, count, repeats))
            })
            .collect(),
        columns: vec![
            column(figure::NS, "ns each", 1.0, 0),
            column(figure::CPU_NS, "CPU ns each", 1.0, 0),
            column(figure::SWITCHES, "context switches each", 1.0, 3),
            column(events::SYSCALLS, "system calls each", 1.0, 3),
        ],
        plotted: 1,
        counts_events: true,
        judge,
    }
}

/// What stays on a core has to cost less than on workers that steal from each other. What crosses cores isn't bound.
fn judge(results: &Results) -> Vec<Bound> {
    [Task::YieldMany, Task::SpawnMany, Task::ChainedSpawns]
        .map(|task| {
            let cpu_ns = |side: Side| results.median(task.name(), side.name(), figure::CPU_NS);
            let ratio = cpu_ns(Side::Executors) / cpu_ns(Side::Tokio);
            let words = format!("CPU time of a {} is {ratio:.2} times tokio's (at most 1)", task.name());
            Bound::new(Kind::Speed, ratio <= 1.0, words)
        })
        .into()
}

impl Work {
    /// Does it.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        let meter = Arc::new(Meter::default());
        match self.side {
            Side::Tokio => on_tokio::run(self, &meter)?,
            Side::TokioPerCore => on_tokio::between_runtimes(self, &meter)?,
            Side::Executors | Side::SpinningExecutors => owned::run(self, &meter)?,
        }
        Ok(meter.figures(self.operations()))
    }

    fn operations(&self) -> u64 {
        let of_each_core = self.count * self.repeats;
        match self.task {
            Task::PingPong => of_each_core,
            Task::YieldMany => of_each_core * (YIELDING_TASKS * self.cores) as u64,
            Task::SpawnMany | Task::ChainedSpawns => of_each_core * self.cores as u64,
        }
    }

    /// A CPU for each core, two at least for what goes from one to another.
    fn cpus(&self) -> std::io::Result<Vec<usize>> {
        let cores = match self.task {
            Task::PingPong => 2,
            Task::YieldMany | Task::SpawnMany | Task::ChainedSpawns => self.cores,
        };
        cpus(cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_does_every_piece() {
        for row in comparison(Size::Small, 2).rows {
            let Job::Wakeups(work) = &row.job else { panic!("another comparison's {:?}", row.job) };
            let work = Work { repeats: 2, ..work.clone() };
            let figures = work.run().unwrap_or_else(|error| panic!("{work:?}: {error}"));
            assert_eq!(figures[figure::OPERATIONS], work.operations() as f64, "{work:?}");
        }
    }
}
