//! A run's report in words, for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use silverback_model::printable::Printable;

use super::options::{LoadPlan, Loop, Protocol};
use super::report::{Ending, LoadReport};
use crate::figures::{counted, grouped};

const MIB: f64 = 1024.0 * 1024.0;

/// Shows a report.
#[derive(Debug)]
pub(super) struct Summary<'a>(pub &'a LoadReport);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        writeln!(f, "{}", what(&report.plan))?;
        writeln!(f, "{}", how_long(report))?;
        writeln!(f)?;
        self.samples(f)?;
        self.latencies(f)?;
        self.spent(f)?;
        for words in &report.totals.said {
            writeln!(f, "said: {}", Printable(words))?;
        }
        Ok(())
    }
}

impl Summary<'_> {
    fn samples(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let totals = &self.0.totals;
        let per_s = format!("{} a second", grouped(self.0.samples_per_s() as u64));
        row(f, "samples", "acknowledged", totals.samples_written, &per_s)?;
        row(f, "", "refused", sum(&totals.samples_refused), &parts(&totals.samples_refused))?;
        row(f, "", "failed", sum(&totals.samples_failed), &parts(&totals.samples_failed))?;
        if totals.samples_not_written_in_warmup > 0 {
            row(f, "", "before", totals.samples_not_written_in_warmup, "refused or failed in the warm-up")?;
        }
        if totals.samples_unanswered > 0 {
            row(f, "", "unanswered", totals.samples_unanswered, "when the run was ended")?;
        }
        if totals.samples_overdue > 0 {
            row(f, "", "overdue", totals.samples_overdue, "due and never sent: slower than the rate")?;
        }
        row(f, "requests", "sent", totals.requests, "")?;
        if !totals.sent_again.is_empty() {
            row(f, "", "sent again", sum(&totals.sent_again), &parts(&totals.sent_again))?;
        }
        Ok(())
    }

    fn latencies(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let latency = &self.0.latency_ms;
        let columns = [
            ("p50", latency.p50),
            ("p90", latency.p90),
            ("p99", latency.p99),
            ("p99.9", latency.p999),
            ("max", latency.max),
        ];
        write!(f, "\n{:<10}", "latency")?;
        columns.iter().try_for_each(|(name, _)| write!(f, "{name:>10}"))?;
        write!(f, "\n{:<10}", "ms")?;
        columns.iter().try_for_each(|(_, ms)| write!(f, "{ms:>10.2}"))?;
        writeln!(f, "\n")
    }

    fn spent(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.0.server {
            writeln!(
                f,
                "{:<10}{:.2} cores, {} samples a CPU second, {:.0} MiB resident (peak {:.0}), {:.0} MiB written",
                "server",
                server.cores,
                grouped(server.samples_per_cpu_s as u64),
                server.resident_bytes as f64 / MIB,
                server.resident_peak_bytes as f64 / MIB,
                server.disk_write_bytes as f64 / MIB,
            )?;
        }
        let machine = &self.0.machine;
        let (cores, cpus) = (self.0.loader_cpu_s / self.0.wall_s.max(f64::MIN_POSITIVE), machine.cpus);
        writeln!(
            f,
            "{:<10}{cores:.2} cores of {}, {}",
            "loader",
            counted(cpus as u64, "CPU", "CPUs"),
            machine.cpu
        )
    }
}

fn what(plan: &LoadPlan) -> String {
    let protocol = match plan.protocol {
        Protocol::Rw1 => "remote write 1",
        Protocol::Rw2 => "remote write 2",
        Protocol::Grpc => "gRPC streams",
    };
    let pacing = match plan.pacing {
        Loop::Open { samples_per_s } => format!("open loop of {} samples/s", grouped(samples_per_s as u64)),
        Loop::Closed => "closed loop".to_owned(),
    };
    let connections = counted(plan.connections as u64, "connection", "connections");
    format!("{protocol} to {}, {pacing}, {connections}, batches of {}", plan.url, grouped(plan.batch as u64))
}

fn how_long(report: &LoadReport) -> String {
    let plan = &report.plan;
    let series = grouped((plan.targets * plan.series_per_target) as u64);
    let (targets, interval_s) =
        (counted(plan.targets as u64, "target", "targets"), f64::from(plan.interval_ms) / 1e3);
    let ending = match report.ending {
        Ending::Done => "",
        Ending::Interrupted => ", ended by Ctrl-C",
        Ending::ClockReached => ", ended because timestamps came up to the clock: try an earlier --start",
        Ending::Failed => ", ended by an error",
    };
    format!(
        "{series} series of {targets}, scraped every {interval_s} s; {:.1} s measured{ending}",
        report.wall_s
    )
}

fn row(f: &mut Formatter<'_>, group: &str, name: &str, count: u64, words: &str) -> fmt::Result {
    let line = format!("{group:<10}{name:<13}{:>15}  {words}", grouped(count));
    writeln!(f, "{}", line.trim_end())
}

/// All that was counted.
pub(super) fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

/// What was counted of each. Names may be a receiver's words.
pub(super) fn parts(counts: &BTreeMap<String, u64>) -> String {
    let part = |(name, count): (&String, &u64)| format!("{}: {}", Printable(name), grouped(*count));
    counts.iter().map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::super::tally::Second;
    use super::*;

    #[test]
    fn nothing_that_was_not_stored_is_left_out() {
        let second = Second { span_s: 2.0, samples_written: 3_000_000, ..Second::default() };
        let mut report = report(vec![second]);
        report.totals.samples_refused.insert("duplicate".to_owned(), 12);
        report.totals.samples_failed.insert("503".to_owned(), 4000);
        report.totals.samples_failed.insert("\u{1b}[2J".to_owned(), 1);
        report.totals.samples_not_written_in_warmup = 9;
        report.totals.samples_unanswered = 5;
        report.totals.samples_overdue = 6;
        report.totals.said.push("503: busy".to_owned());
        let text = Summary(&report).to_string();
        for line in [
            "samples   acknowledged       3,000,000  1,500,000 a second",
            "          refused                   12  duplicate: 12",
            "          failed                 4,001  \\u001b[2J: 1, 503: 4,000",
            "          before                     9  refused or failed in the warm-up",
            "          unanswered                 5  when the run was ended",
            "          overdue                    6  due and never sent: slower than the rate",
            "said: 503: busy",
        ] {
            assert!(text.lines().any(|written| written == line), "{line:?} is missing in:\n{text}");
        }
    }
}
