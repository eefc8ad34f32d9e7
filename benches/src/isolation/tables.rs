//! The reports as Markdown tables, one for each step.

use std::fmt::Write;

use super::mixed::MixedReport;
use super::reports::{Jobs, Reports};
use super::verdict::{bounds, cores, load};
use silverback_load::replay::report::RunReport;
use silverback_load::replay::spread::Spread;

/// All tables of what was measured.
pub fn markdown(reports: &Reports) -> String {
    let tables = [paced(reports), scale(reports), mixed(reports)];
    tables.into_iter().filter(|table| !table.is_empty()).map(|table| table + "\n").collect()
}

/// The bounds, and whether they hold.
pub fn verdict(reports: &Reports) -> String {
    let rows = bounds(reports).into_iter().map(|bound| bound.to_string());
    table("| bound | measured (min to max) | bound at | holds |\n|---|--:|--:|---|", rows)
}

/// Nothing without rows.
fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for row in rows {
        if text.is_empty() {
            text = format!("{head}\n");
        }
        writeln!(text, "{row}").expect("text takes text");
    }
    text
}

fn of_rounds(reports: &Reports, load: &str, figure: impl Fn(&RunReport) -> f64) -> f64 {
    Spread::of(reports.rounds(load).map(figure)).median
}

fn paced(reports: &Reports) -> String {
    let loads = [load::ALONE, load::BESIDE_READS].into_iter().filter(|load| reports.has(load));
    let rows = loads.map(|load| {
        let figure = |of: fn(&RunReport) -> f64| of_rounds(reports, load, of);
        let reads = match load {
            load::BESIDE_READS => reads_of_a_round(reports),
            _ => "none".to_owned(),
        };
        format!(
            "| {load} | {:.0} | {:.2} / {:.2} | {:.2} | {reads} |",
            figure(|run| run.main.samples_per_s / 1e3),
            figure(|run| run.main.latency_ms.p50),
            figure(|run| run.main.latency_ms.p99),
            figure(cores),
        )
    });
    let head =
        "| ingest | k samples/s | p50 / p99 ms | CPUs busy | reads of a round |\n|---|--:|--:|--:|--:|";
    table(head, rows)
}

fn reads_of_a_round(reports: &Reports) -> String {
    let finished = Spread::of(reports.reads.iter().map(|reads| reads.finished as f64)).median;
    let megabytes = Spread::of(reports.reads.iter().map(|reads| reads.bytes as f64 / 1e6)).median;
    format!("{finished:.0}, {megabytes:.0} MB")
}

fn scale(reports: &Reports) -> String {
    let loads = [load::ONE_SHARD, load::TWO_SHARDS].into_iter().filter(|load| reports.has(load));
    let rows = loads.map(|load| {
        let per_cpu_s = Spread::of(reports.rounds(load).map(|run| run.samples_per_cpu_s() / 1e3));
        let Spread { min, median, max } = per_cpu_s;
        let busy = of_rounds(reports, load, cores);
        let p99 = of_rounds(reports, load, |run| run.main.latency_ms.p99);
        format!("| {load} | {median:.0} ({min:.0} to {max:.0}) | {busy:.2} | {p99:.2} |")
    });
    let head = "| closed loop | k samples a server CPU second (min to max) | CPUs busy | p99 ms |\n\
                |---|--:|--:|--:|";
    table(head, rows)
}

fn mixed(reports: &Reports) -> String {
    let rows = [Jobs::None, Jobs::Some].into_iter().filter_map(|jobs| {
        let first = reports.mixed_beside(jobs).next()?;
        let figure = |of: fn(&MixedReport) -> f64| Spread::of(reports.mixed_beside(jobs).map(of)).median;
        Some(format!(
            "| {} | {:.2} / {:.2} / {:.2} | {:.0} % | {:.0} % |",
            first.options.jobs,
            figure(|mixed| mixed.latency_ms.p50),
            figure(|mixed| mixed.latency_ms.p99),
            figure(|mixed| mixed.latency_ms.p999),
            100.0 * figure(|mixed| mixed.jobs_share),
            100.0 * figure(|mixed| mixed.busy_share),
        ))
    });
    let head = "| jobs beside small requests | p50 / p99 / p99.9 ms of those | the jobs' part of the CPU | \
                CPU busy |\n|--:|--:|--:|--:|";
    table(head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::verdict::tests::reports;

    #[test]
    fn each_table_has_its_rows() {
        let text = markdown(&reports());
        for row in [
            "| alone | 0 | 0.00 / 4.00 | 0.10 | none |",
            "| beside reads | 0 | 0.00 / 6.00 | 0.55 | 7, 10 MB |",
            "| 2 shards | 0 (0 to 0) |",
            "| 4 | 0.00 / 3.50 / 0.00 | 50 % | 90 % |",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_table() {
        assert_eq!(markdown(&Reports::default()) + &verdict(&Reports::default()), "");
    }

    #[test]
    fn a_missed_bound_is_told() {
        let text = verdict(&reports());
        assert!(text.contains("| 0.50 (0.50 to 0.50) | at least 0.90 | **no** |"), "{text}");
    }
}
