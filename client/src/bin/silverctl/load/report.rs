//! What a run found, as JSON: the shape that a run writes and `compare` reads.

use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use silverback_load::figures::{Quantiles, ServerReport};

use super::options::LoadPlan;
use super::tally::{LoadResults, Second, Totals};
use crate::error::{Context, Done};
use silverback_load::machine::Machine;

/// The shape's version.
const FORMAT: u32 = 1;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// All that was planned is done.
    Done,
    /// Ctrl-C.
    Interrupted,
    /// Timestamps had come as far as the clock.
    ClockReached,
    /// A connection could not go on.
    Failed,
}

/// One whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadReport {
    /// The shape's version.
    pub format: u32,
    /// The program's version.
    pub version: String,
    /// When it began, ms since 1970.
    pub started_ms: i64,
    /// What was asked for.
    pub plan: LoadPlan,
    /// Where it ran.
    pub machine: Machine,
    /// Why it ended.
    pub ending: Ending,
    /// From the first request after the warm-up to the last answer.
    pub wall_s: f64,
    /// What was counted.
    pub totals: Totals,
    /// Of each answered request, from its intended start in an open loop.
    pub latency_ms: Quantiles,
    /// What the server spent.
    pub server: Option<ServerReport>,
    /// CPU time of the loader.
    pub loader_cpu_s: f64,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Latencies in µs, to three digits, and how many requests had each.
    pub histogram_us: Vec<(u64, u64)>,
}

impl LoadReport {
    /// Of what was counted.
    pub(super) fn new(
        plan: LoadPlan,
        started_ms: i64,
        ending: Ending,
        counted: LoadResults,
        loader_cpu_s: f64,
    ) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms,
            plan,
            machine: Machine::look(),
            ending,
            wall_s: counted.wall_s,
            totals: counted.totals,
            latency_ms: Quantiles::of_micros(&counted.latency_us),
            server: counted.server,
            loader_cpu_s,
            seconds: counted.seconds,
            histogram_us: recorded(&counted.latency_us),
        }
    }

    /// Acknowledged samples a second.
    pub(super) fn samples_per_s(&self) -> f64 {
        self.totals.samples_written as f64 / self.wall_s.max(f64::MIN_POSITIVE)
    }

    /// Writes it to a file.
    pub(super) fn write(&self, path: &Path) -> Done {
        let json = serde_json::to_vec(self)?;
        fs::write(path, json).context(|| format!("can't write {}", path.display()))
    }

    /// Reads one.
    pub(super) fn read(path: &Path) -> Done<Self> {
        let json = fs::read(path).context(|| format!("can't read {}", path.display()))?;
        let report: Self =
            serde_json::from_slice(&json).context(|| format!("{} isn't a load's report", path.display()))?;
        if report.format == FORMAT {
            return Ok(report);
        }
        let (path, format) = (path.display(), report.format);
        Err(format!("{path} has format {format}, this silverctl reads {FORMAT}").into())
    }
}

fn recorded(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use super::super::options::tests::plan;
    use super::super::tally::Tally;
    use super::*;

    /// A run of these seconds.
    pub(crate) fn report(seconds: Vec<Second>) -> LoadReport {
        let now = Instant::now();
        let mut counted = Tally::new(now, None).expect("no process").finish(now, 0);
        counted.wall_s = seconds.iter().map(|second| second.span_s).sum();
        counted.totals.samples_written = seconds.iter().map(|second| second.samples_written).sum();
        counted.seconds = seconds;
        LoadReport::new(plan(&[]).expect("a plan"), 0, Ending::Done, counted, 0.0)
    }

    #[test]
    fn a_report_reads_back() {
        let path = std::env::temp_dir().join(format!("silverctl-report-{}.json", std::process::id()));
        let second = Second {
            span_s: 1.0,
            samples_written: 7,
            latency_ms: Some(Quantiles { p50: 1.5, ..Quantiles::default() }),
            ..Second::default()
        };
        let written = report(vec![second, Second::default()]);
        written.write(&path).expect("a file");
        let read = LoadReport::read(&path).expect("the file");
        std::fs::remove_file(&path).expect("the file");
        assert_eq!(read, written);
    }

    #[test]
    fn what_is_no_report_is_told_with_its_name() {
        let path = std::env::temp_dir().join(format!("silverctl-no-report-{}.json", std::process::id()));
        std::fs::write(&path, "{}").expect("a file");
        let failure = LoadReport::read(&path).expect_err("no report");
        std::fs::remove_file(&path).expect("the file");
        assert!(format!("{failure:?}").contains("isn't a load's report"), "{failure:?}");
    }

    #[test]
    fn the_histogram_keeps_every_request() {
        let mut histogram = Histogram::new(3).expect("three digits");
        for us in [5, 5, 1000, 123_456] {
            histogram.record(us).expect("it grows");
        }
        let recorded = recorded(&histogram);
        assert_eq!(recorded.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(recorded[0], (5, 2));
    }
}
