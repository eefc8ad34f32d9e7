//! What was measured, beside the bounds that durability has to keep. It knows no servers and no
//! files.

use std::fmt;

use super::reports::Reports;
use super::restart::RestartReport;
use silverback_load::replay::report::{MarkedLatencies, RunReport};
use silverback_load::replay::spread::Spread;

/// The loads, as the script names them.
pub mod load {
    /// Closed loop: CPU time for a sample.
    pub const CPU: &str = "cpu";
    /// A fixed rate: latency.
    pub const PACED: &str = "paced";
    /// What a restart has to bring back.
    pub const RESTART: &str = "restart";
    /// The fixed rate, on a node that holds much and writes no checkpoint.
    pub const BESIDE_NOTHING: &str = "beside nothing";
    /// The same while it writes one.
    pub const BESIDE_CHECKPOINT: &str = "beside a checkpoint";
    /// The same while another process replays its log from the same disk.
    pub const BESIDE_REPLAY: &str = "beside a replay";
}

/// The node as it is by default.
pub const DURABLE: &str = "silverback";
/// The node with `--ack=memory`.
pub const MEMORY: &str = "silverback-memory";

const CPU_RATIO_MAX: f64 = 1.25;
const PACED_TO_BARE_MAX: f64 = 2.0;
const BYTES_PER_SAMPLE_MAX: f64 = 6.0;
const READY_S_MAX: f64 = 10.0;
const PEAK_RATIO_MAX: f64 = 1.05;
const BESIDE_RATIO_MAX: f64 = 2.0;

/// Something that has to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Of what.
    pub what: String,
    /// As measured.
    pub measured: f64,
    /// The most that holds.
    pub most: f64,
}

impl Bound {
    fn new(what: impl Into<String>, measured: f64, most: f64) -> Self {
        Self { what: what.into(), measured, most }
    }

    /// Whether it holds. What could not be computed doesn't.
    pub fn holds(&self) -> bool {
        self.measured <= self.most
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holds = if self.holds() { "yes" } else { "**no**" };
        write!(f, "| {} | {:.2} | {:.2} | {holds} |", self.what, self.measured, self.most)
    }
}

/// Samples that were not acknowledged, and acknowledged ones that a kill lost. Empty: all is well.
pub fn losses(reports: &Reports) -> Vec<String> {
    let refused = reports.runs.iter().filter(|run| run.main.samples_acked != run.main.samples_sent);
    let refused = refused.map(|run| {
        let (acked, sent) = (run.main.samples_acked, run.main.samples_sent);
        format!("{}, {}: {acked} of {sent} samples were acknowledged", run.contestant, run.load)
    });
    let lost = reports.kept.iter().filter(|kept| kept.found != kept.acknowledged);
    let lost = lost.map(|kept| {
        let (acknowledged, found) = (kept.acknowledged, kept.found);
        format!("{}: {acknowledged} samples acknowledged, {found} there after the kill", kept.contestant)
    });
    refused.chain(lost).collect()
}

/// All bounds of what was measured.
pub fn bounds(reports: &Reports) -> Vec<Bound> {
    let cpu = cpu_ratio(reports).map(|ratio| {
        let what = "CPU time of a sample, durable over memory";
        Bound::new(what, ratio.median, CPU_RATIO_MAX)
    });
    let log = reports.logs.iter().map(|log| {
        let what = format!("bytes of the log a sample, {}", log.load);
        Bound::new(what, log.known_series.bytes_per_sample(), BYTES_PER_SAMPLE_MAX)
    });
    let ours = reports.restarts.iter().filter(|restart| restart.contestant == DURABLE);
    let restarts = ours.flat_map(|restart| restart_bounds(reports, restart));
    let rest = log.chain(restarts).chain(beside_bounds(reports));
    cpu.into_iter().chain(paced_bounds(reports)).chain(rest).collect()
}

/// CPU time of a sample, durable over memory, round by round.
pub fn cpu_ratio(reports: &Reports) -> Option<Spread> {
    let durable = reports.rounds(load::CPU, DURABLE).map(cpu_us_per_sample);
    let memory = reports.rounds(load::CPU, MEMORY).map(cpu_us_per_sample);
    let ratios: Vec<f64> = durable.zip(memory).map(|(durable, memory)| durable / memory).collect();
    (!ratios.is_empty()).then(|| Spread::of(ratios))
}

fn paced_bounds(reports: &Reports) -> Vec<Bound> {
    let p99 = |contestant: &str| p99_ms(reports, contestant).median;
    let bound = |contestant: &str| match contestant {
        DURABLE => {
            let what = "p99 at the fixed rate over the bare disk's";
            Some(Bound::new(what, p99(DURABLE) / bare_p99_ms(reports).median, PACED_TO_BARE_MAX))
        }
        MEMORY => None,
        peer => {
            let what = format!("p99 at the fixed rate over that of {peer}");
            Some(Bound::new(what, p99(DURABLE) / p99(peer), 1.0))
        }
    };
    reports.contestants(load::PACED).into_iter().filter_map(bound).collect()
}

fn restart_bounds(reports: &Reports, restart: &RestartReport) -> [Bound; 2] {
    let before = reports.rounds(load::RESTART, DURABLE).next_back();
    let before = before.map_or(f64::NAN, RunReport::resident_peak_bytes);
    let peak = restart.settled_peak_bytes as f64;
    [
        Bound::new("seconds from the start until ready", restart.ready_s, READY_S_MAX),
        Bound::new("peak RSS after a restart over that before", peak / before, PEAK_RATIO_MAX),
    ]
}

fn beside_bounds(reports: &Reports) -> Vec<Bound> {
    let loads = [load::BESIDE_CHECKPOINT, load::BESIDE_REPLAY];
    let measured = loads.into_iter().filter(|load| !reports.contestants(load).is_empty());
    let nothing = quantile(&beside_ms(reports, load::BESIDE_NOTHING), 0.99);
    let bound = |load: &str| {
        let what = format!("p99 {load} over that {}", load::BESIDE_NOTHING);
        Bound::new(what, quantile(&beside_ms(reports, load), 0.99) / nothing, BESIDE_RATIO_MAX)
    };
    measured.map(bound).collect()
}

/// Microseconds of the server's CPU time for a sample: seconds for a million.
pub fn cpu_us_per_sample(run: &RunReport) -> f64 {
    1e6 / run.samples_per_cpu_s()
}

/// A contestant's p99 at the fixed rate over the rounds.
pub fn p99_ms(reports: &Reports, contestant: &str) -> Spread {
    Spread::of(reports.rounds(load::PACED, contestant).map(|run| run.main.latency_ms.p99))
}

/// The bare disk's, asked as often as the node.
pub fn bare_p99_ms(reports: &Reports) -> Spread {
    let paced = reports.probes.iter().filter(|probe| probe.options.rate.is_some());
    Spread::of(paced.map(|probe| probe.latency_ms.p99))
}

/// Latencies of one of the loads beside something else, of all rounds, in ascending order. Beside a
/// checkpoint: of the requests that were in flight while it was written.
pub fn beside_ms(reports: &Reports, load: &str) -> Vec<f64> {
    let marked = reports.rounds(load, DURABLE).filter_map(|run| run.main.marked.as_ref());
    let wanted = |marked: &MarkedLatencies| match load {
        load::BESIDE_CHECKPOINT => marked.set_ms.clone(),
        _ => marked.unset_ms.clone(),
    };
    let mut latencies: Vec<f64> = marked.flat_map(wanted).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// A quantile of ascending figures. Of none it isn't a number.
pub fn quantile(ascending: &[f64], quantile: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * quantile).ceil() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::durability::kept::KeptReport;
    use crate::durability::log::{LogReport, Volume};
    use crate::durability::probe::{ProbeOptions, ProbeReport};
    use silverback_load::figures::{Quantiles, ServerReport};
    use silverback_load::replay::generate::GenerateOptions;
    use silverback_load::replay::report::PhaseReport;

    /// Nothing depends on it.
    fn dataset() -> GenerateOptions {
        GenerateOptions {
            targets: 6,
            series: 50,
            rounds: 3,
            start_ms: Some(1_700_000_000_000),
            batch: 40,
            connections: 3,
            ..GenerateOptions::default()
        }
    }

    /// A run of 100 samples a CPU second times `speed`, with this p99.
    pub(crate) fn run(load: &str, contestant: &str, speed: f64, p99: f64) -> RunReport {
        let server = ServerReport {
            samples_per_cpu_s: 100.0 * speed,
            resident_bytes: 100,
            resident_peak_bytes: 200,
            ..ServerReport::default()
        };
        let marked = MarkedLatencies { set_ms: vec![p99], unset_ms: vec![p99 / 2.0] };
        RunReport {
            contestant: contestant.to_owned(),
            load: load.to_owned(),
            url: String::new(),
            rate: None,
            dataset: dataset(),
            warmup: None,
            main: PhaseReport {
                server: Some(server),
                latency_ms: Quantiles { p99, ..Quantiles::default() },
                marked: Some(marked),
                ..PhaseReport::default()
            },
            settled: None,
        }
    }

    /// All that can be measured.
    pub(crate) fn reports() -> Reports {
        let probe = |rate, p99| ProbeReport {
            options: ProbeOptions { writes: 1, bytes: 65536, rate },
            latency_ms: Quantiles { p99, ..Quantiles::default() },
        };
        let volume = |bytes| Volume { groups: 1, bytes, samples: 100 };
        let restart = RestartReport {
            contestant: DURABLE.to_owned(),
            ready_s: 4.0,
            cpu_s: 7.0,
            ready_resident_bytes: 150,
            ready_peak_bytes: 190,
            settled_resident_bytes: 150,
            settled_peak_bytes: 206,
        };
        Reports {
            runs: vec![
                run(load::CPU, DURABLE, 4.0, 1.0),
                run(load::CPU, MEMORY, 5.0, 1.0),
                run(load::CPU, DURABLE, 4.0, 1.0),
                run(load::CPU, MEMORY, 4.0, 1.0),
                run(load::CPU, DURABLE, 2.0, 1.0),
                run(load::CPU, MEMORY, 4.0, 1.0),
                run(load::PACED, DURABLE, 1.0, 2.0),
                run(load::PACED, MEMORY, 1.0, 1.0),
                run(load::PACED, "prometheus", 1.0, 4.0),
                run(load::RESTART, DURABLE, 1.0, 1.0),
                run(load::BESIDE_NOTHING, DURABLE, 1.0, 2.0),
                run(load::BESIDE_CHECKPOINT, DURABLE, 1.0, 3.0),
                run(load::BESIDE_REPLAY, DURABLE, 1.0, 3.0),
            ],
            probes: vec![probe(None, 0.1), probe(Some(50.0), 0.5)],
            logs: vec![LogReport {
                load: "closed loop".to_owned(),
                counted: volume(700),
                making_series: volume(9000),
                known_series: volume(510),
            }],
            restarts: vec![restart],
            kept: vec![KeptReport { contestant: DURABLE.to_owned(), acknowledged: 7, found: 7 }],
        }
    }

    fn check(what: &str, measured: f64, holds: bool) {
        let bounds = bounds(&reports());
        let bound = bounds.iter().find(|bound| bound.what.starts_with(what));
        let bound = bound.unwrap_or_else(|| panic!("no {what} in {bounds:?}"));
        assert!((bound.measured - measured).abs() < 1e-9, "{bound:?}");
        assert_eq!(bound.holds(), holds, "{bound:?}");
    }

    #[test]
    fn each_bound_is_judged_by_its_own_figures() {
        check("CPU time", 1.25, true);
        check("p99 at the fixed rate over the bare", 4.0, false);
        check("p99 at the fixed rate over that of prometheus", 0.5, true);
        check("bytes of the log", 5.1, true);
        check("seconds", 4.0, true);
        check("peak RSS", 1.03, true);
        check("p99 beside a checkpoint", 3.0, false);
        check("p99 beside a replay", 1.5, true);
    }

    #[test]
    fn what_was_not_measured_has_no_bound_and_what_was_half_measured_does_not_hold() {
        assert_eq!(bounds(&Reports::default()), []);
        let paced = Reports { runs: vec![run(load::PACED, DURABLE, 1.0, 1.0)], ..Reports::default() };
        assert!(!bounds(&paced)[0].holds());
    }

    #[test]
    fn a_sample_that_was_acknowledged_and_is_gone_is_told() {
        let mut reports = reports();
        assert_eq!(losses(&reports), [] as [String; 0]);
        reports.kept[0].found = 6;
        reports.runs[0].main.samples_sent = 1;
        assert_eq!(losses(&reports).len(), 2);
    }

    #[test]
    fn quantiles_of_few_figures_are_the_worse_ones() {
        assert_eq!(quantile(&[1.0, 2.0], 0.99), 2.0);
        assert_eq!(quantile(&[1.0], 0.5), 1.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
