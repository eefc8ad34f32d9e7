//! Small requests beside big jobs on one core: on the node's runtime in slices, on tokio first come first
//! served, and on tokio with the big ones on its threads for blocking work, or on one such thread.

use std::error::Error;

use serde::{Deserialize, Serialize};
use silverback_load::figures::Quantiles;
use silverback_runtime::cpus::affinity_mask;

use super::meter::Figures;
use super::results::{Column, Comparison, Results, Row};
use super::{Job, OURS, Size};
use crate::isolation::mixed::{MixedOptions, MixedReport, mixed};
use crate::isolation::on_tokio::{Jobs, mixed_on_tokio};
use crate::rebalance::verdict::{Bound, Kind};

/// One row's work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    side: Side,
    options: MixedOptions,
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// A worker of tokio's; a job runs until it is done.
    FirstComeFirstServed,
    /// The same, the jobs with `spawn_blocking`, as many at once as there are.
    SpawnBlocking,
    /// The same, one at a time, as in slices.
    OneBlockingThread,
    /// The node's executor; a job runs in slices.
    Slices,
}

impl Side {
    const ALL: [Self; 4] =
        [Self::FirstComeFirstServed, Self::SpawnBlocking, Self::OneBlockingThread, Self::Slices];

    fn name(self) -> &'static str {
        match self {
            Self::FirstComeFirstServed => "tokio",
            Self::SpawnBlocking => "tokio, spawn_blocking",
            Self::OneBlockingThread => "tokio, spawn_blocking on one thread",
            Self::Slices => OURS,
        }
    }
}

const SMALL_P99_MS_MAX: f64 = 3.0;
/// They come at random times: some more or less in a run.
const SMALL_PER_S: f64 = 2500.0;
const SMALL_PER_S_MIN: f64 = 2400.0;
const BIG_SHARE_MIN: f64 = 0.55;

/// The comparison.
pub fn comparison(size: Size) -> Comparison {
    let options = MixedOptions {
        connections: size.pick(128, 16),
        rate: size.pick(SMALL_PER_S, 250.0),
        request_us: 143,
        jobs: size.pick(4, 2),
        job_ms: 55,
        seconds: size.pick(10.0, 0.5),
        // The machine's daemons and interrupts mostly keep to the first.
        cpu: affinity_mask().ok().and_then(|cpus| cpus.last().copied()).unwrap_or_default(),
    };
    let row = |side: Side| Row {
        setting: "one core".to_owned(),
        side: side.name().to_owned(),
        job: Job::Mixed(Work { side, options }),
    };
    let column = |figure, head, digits| Column { figure, head, unit: 1.0, digits };
    Comparison {
        name: "mixed",
        title: "Requests of 143 µs beside jobs of 55 ms, 128 clients",
        rows: Side::ALL.map(row).into(),
        columns: vec![
            column("small_p50", "small: p50 ms", 2),
            column("small_p90", "p90", 2),
            column("small_p99", "small: p99 ms", 2),
            column("small_p999", "p99.9", 2),
            column("small_per_s", "done/s", 0),
            column("big_p50", "big: p50 ms", 0),
            column("big_p90", "p90", 0),
            column("big_p99", "p99", 0),
            column("big_p999", "p99.9", 0),
            column("big_per_s", "done/s", 1),
            column("big_share", "of a core", 2),
        ],
        plotted: 2,
        counts_events: false,
        judge,
    }
}

fn judge(results: &Results) -> Vec<Bound> {
    let ours = |figure| results.median("one core", OURS, figure);
    let (p99, share, requests) = (ours("small_p99"), ours("big_share"), ours("small_per_s"));
    let bound = |kind, holds, words| Bound::new(kind, holds, words);
    vec![
        bound(
            Kind::Speed,
            requests >= SMALL_PER_S_MIN,
            format!(
                "{requests:.0} small requests a second were answered (at least {SMALL_PER_S_MIN} of {SMALL_PER_S})"
            ),
        ),
        bound(
            Kind::Speed,
            p99 <= SMALL_P99_MS_MAX,
            format!("small requests' p99 is {p99:.2} ms (at most {SMALL_P99_MS_MAX})"),
        ),
        bound(
            Kind::Speed,
            share >= BIG_SHARE_MIN,
            format!("big jobs have {share:.2} of a core (at least {BIG_SHARE_MIN})"),
        ),
    ]
}

impl Work {
    /// Does it.
    pub fn run(&self) -> Result<Figures, Box<dyn Error>> {
        Ok(figures(&match self.side {
            Side::FirstComeFirstServed => mixed_on_tokio(&self.options, Jobs::AsTasks)?,
            Side::SpawnBlocking => mixed_on_tokio(&self.options, Jobs::OnBlockingThreads(self.options.jobs))?,
            Side::OneBlockingThread => mixed_on_tokio(&self.options, Jobs::OnBlockingThreads(1))?,
            Side::Slices => mixed(&self.options)?,
        }))
    }
}

fn figures(report: &MixedReport) -> Figures {
    let quantiles = |name: &str, of: &Quantiles| {
        [("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("p999", of.p999)]
            .map(|(quantile, ms)| (format!("{name}_{quantile}"), ms))
    };
    let per_s = |count: u64| count as f64 / report.options.seconds;
    let mut figures: Figures = quantiles("small", &report.latency_ms).into();
    figures.extend(quantiles("big", &report.job_ms));
    figures.insert("small_per_s".to_owned(), per_s(report.requests));
    figures.insert("big_per_s".to_owned(), per_s(report.jobs_done));
    figures.insert("big_share".to_owned(), report.jobs_share);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a side: on a machine with much else to do none of its big jobs may end in a short one.
    const RUNS_MAX: usize = 20;

    #[test]
    fn every_side_answers_small_requests_and_ends_big_jobs() {
        for row in comparison(Size::Small).rows {
            let mut runs = (0..RUNS_MAX).map(|_| {
                let figures = row.job.run().unwrap_or_else(|error| panic!("{}: {error}", row.side));
                assert!(figures["small_per_s"] > 0.0, "{}: {figures:?}", row.side);
                figures
            });
            let has_ended_some =
                |figures: &Figures| figures["big_per_s"] > 0.0 && figures["big_share"] > 0.05;
            assert!(runs.any(|figures| has_ended_some(&figures)), "{}: no big job ends", row.side);
        }
    }
}
