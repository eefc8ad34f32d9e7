//! What was measured, beside the bounds that isolation and scaling have to keep. It knows no servers
//! and no files.

use std::fmt;

use super::reports::{Jobs, Reports};
use silverback_load::replay::report::RunReport;
use silverback_load::replay::spread::Spread;

/// The loads, as the script names them.
pub mod load {
    /// What the reads have to read.
    pub const FILL: &str = "fill";
    /// Ingest at a fixed rate and nothing else.
    pub const ALONE: &str = "alone";
    /// The same beside reads of everything.
    pub const BESIDE_READS: &str = "beside reads";
    /// Closed loop, a shard on one CPU.
    pub const ONE_SHARD: &str = "1 shard";
    /// Closed loop, two shards on two CPUs.
    pub const TWO_SHARDS: &str = "2 shards";
}

/// CPUs of the server in the loads at a fixed rate.
const READ_CPUS: f64 = 1.0;
const BESIDE_RATIO_MAX: f64 = 2.0;
const READS_SHARE_MIN: f64 = 0.9;
const SCALE_MIN: f64 = 1.8;
const MIXED_P99_MS_MAX: f64 = 3.0;

/// What a figure has to stay at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// No more.
    AtMost(f64),
    /// No less.
    AtLeast(f64),
}

/// Something that has to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Of what.
    pub what: &'static str,
    /// As measured: the median of all rounds.
    pub measured: Spread,
    /// What holds.
    pub limit: Limit,
}

impl Bound {
    /// Whether it holds. What could not be computed doesn't.
    pub fn holds(&self) -> bool {
        match self.limit {
            Limit::AtMost(most) => self.measured.median <= most,
            Limit::AtLeast(least) => self.measured.median >= least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { min, median, max } = self.measured;
        let limit = match self.limit {
            Limit::AtMost(most) => format!("at most {most:.2}"),
            Limit::AtLeast(least) => format!("at least {least:.2}"),
        };
        let holds = if self.holds() { "yes" } else { "**no**" };
        write!(f, "| {} | {median:.2} ({min:.2} to {max:.2}) | {limit} | {holds} |", self.what)
    }
}

/// Samples that were not acknowledged, reads that failed, and what was never done. Empty: all is well.
pub fn faults(reports: &Reports) -> Vec<String> {
    let refused = reports.runs.iter().filter(|run| run.main.samples_acked != run.main.samples_sent);
    let refused = refused.map(|run| {
        let (acked, sent) = (run.main.samples_acked, run.main.samples_sent);
        format!("{}: {acked} of {sent} samples were acknowledged", run.load)
    });
    let reads = reports.reads.iter().filter(|reads| reads.failed > 0 || reads.finished == 0);
    let reads =
        reads.map(|reads| format!("{} reads failed and {} were finished", reads.failed, reads.finished));
    let unanswered = reports.mixed.iter().filter(|mixed| mixed.requests == 0);
    let unanswered = unanswered.map(|mixed| format!("{} jobs: no request was answered", mixed.options.jobs));
    refused.chain(reads).chain(unanswered).collect()
}

/// All bounds of what was measured.
pub fn bounds(reports: &Reports) -> Vec<Bound> {
    let mut bounds = Vec::new();
    if reports.has(load::ALONE) {
        bounds.push(Bound {
            what: "p99 of ingest beside reads over alone",
            measured: p99_ratio(reports),
            limit: Limit::AtMost(BESIDE_RATIO_MAX),
        });
        bounds.push(Bound {
            what: "the reads' part of the CPU that ingest leaves",
            measured: reads_share(reports),
            limit: Limit::AtLeast(READS_SHARE_MIN),
        });
    }
    if reports.has(load::ONE_SHARD) {
        bounds.push(Bound {
            what: "samples a CPU second × CPUs, two shards over one",
            measured: scale(reports),
            limit: Limit::AtLeast(SCALE_MIN),
        });
    }
    if !reports.mixed.is_empty() {
        let beside_jobs = reports.mixed_beside(Jobs::Some).map(|mixed| mixed.latency_ms.p99);
        bounds.push(Bound {
            what: "p99 ms of small requests beside jobs",
            measured: Spread::of(beside_jobs),
            limit: Limit::AtMost(MIXED_P99_MS_MAX),
        });
    }
    bounds
}

/// Beside reads over alone, round by round.
fn p99_ratio(reports: &Reports) -> Spread {
    let rounds = reports.rounds(load::ALONE).zip(reports.rounds(load::BESIDE_READS));
    Spread::of(rounds.map(|(alone, beside)| beside.main.latency_ms.p99 / alone.main.latency_ms.p99))
}

/// What the server spent beyond what ingest alone took, in what ingest would have left, round by round.
fn reads_share(reports: &Reports) -> Spread {
    let rounds = reports.rounds(load::ALONE).zip(reports.rounds(load::BESIDE_READS));
    Spread::of(rounds.map(|(alone, beside)| {
        let (ingest, both) = (cores(alone), cores(beside));
        (both - ingest) / (READ_CPUS - ingest)
    }))
}

/// Twice the speed of a CPU second with two shards over that with one, round by round.
fn scale(reports: &Reports) -> Spread {
    let rounds = reports.rounds(load::ONE_SHARD).zip(reports.rounds(load::TWO_SHARDS));
    Spread::of(rounds.map(|(one, two)| 2.0 * two.samples_per_cpu_s() / one.samples_per_cpu_s()))
}

/// CPUs that the server kept busy.
pub fn cores(run: &RunReport) -> f64 {
    run.main.server.map_or(f64::NAN, |server| server.cores)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::durability::verdict::tests::run;
    use crate::isolation::mixed::{MixedOptions, MixedReport};
    use crate::isolation::reads::ReadsReport;
    use silverback_load::figures::Quantiles;

    fn busy(load: &str, cores: f64, p99: f64) -> RunReport {
        let mut run = run(load, "silverback", 1.0, p99);
        run.main.server.as_mut().expect("a server").cores = cores;
        run
    }

    fn mixed(jobs: usize, p99: f64) -> MixedReport {
        let (connections, rate, request_us, job_ms) = (128, 2500.0, 150, 50);
        MixedReport {
            options: MixedOptions { connections, rate, request_us, jobs, job_ms, seconds: 1.0, cpu: 0 },
            requests: 2500,
            latency_ms: Quantiles { p99, ..Quantiles::default() },
            jobs_share: 0.5,
            busy_share: 0.9,
            jobs_done: 1,
            job_ms: Quantiles::default(),
        }
    }

    /// All that can be measured.
    pub(crate) fn reports() -> Reports {
        Reports {
            runs: vec![
                busy(load::ALONE, 0.1, 4.0),
                busy(load::BESIDE_READS, 0.55, 6.0),
                run(load::ONE_SHARD, "silverback", 1.0, 1.0),
                run(load::TWO_SHARDS, "silverback", 0.95, 1.0),
            ],
            reads: vec![ReadsReport { finished: 7, bytes: 10_000_000, failed: 0 }],
            mixed: vec![mixed(0, 1.0), mixed(4, 3.5)],
        }
    }

    fn check(what: &str, measured: f64, holds: bool) {
        let bounds = bounds(&reports());
        let bound = bounds.iter().find(|bound| bound.what.starts_with(what));
        let bound = bound.unwrap_or_else(|| panic!("no {what} in {bounds:?}"));
        assert!((bound.measured.median - measured).abs() < 1e-9, "{bound:?}");
        assert_eq!(bound.holds(), holds, "{bound:?}");
    }

    #[test]
    fn each_bound_is_judged_by_its_own_figures() {
        check("p99 of ingest", 1.5, true);
        check("the reads' part", 0.5, false);
        check("samples a CPU second", 1.9, true);
        check("p99 ms of small requests", 3.5, false);
    }

    #[test]
    fn what_was_not_measured_has_no_bound_and_what_was_half_measured_does_not_hold() {
        assert_eq!(bounds(&Reports::default()), []);
        let half = Reports { runs: vec![busy(load::ALONE, 0.1, 1.0)], ..Reports::default() };
        assert!(bounds(&half).iter().all(|bound| !bound.holds()));
    }

    #[test]
    fn what_was_refused_and_what_was_never_done_is_told() {
        let mut reports = reports();
        assert_eq!(faults(&reports), [] as [String; 0]);
        reports.runs[0].main.samples_sent = 1;
        reports.reads[0].finished = 0;
        reports.mixed[1].requests = 0;
        assert_eq!(faults(&reports).len(), 3);
    }
}
