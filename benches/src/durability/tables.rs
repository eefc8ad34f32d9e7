//! The reports as Markdown tables, one for each thing that was measured.

use std::fmt::Write;

use super::probe::ProbeReport;
use super::reports::Reports;
use super::verdict::{
    DURABLE, MEMORY, bare_p99_ms, beside_ms, bounds, cpu_ratio, cpu_us_per_sample, load, p99_ms, quantile,
};
use silverback_load::replay::report::RunReport;
use silverback_load::replay::spread::Spread;

/// All tables of what was measured.
pub fn markdown(reports: &Reports) -> String {
    let tables = [cpu(reports), paced(reports), log(reports), restart(reports), beside(reports)];
    tables.into_iter().filter(|table| table.rows > 0).map(|table| table.text + "\n").collect()
}

/// The bounds, and whether they hold.
pub fn verdict(reports: &Reports) -> String {
    let mut table = Table::new("| bound | measured | at most | holds |\n|---|--:|--:|---|");
    bounds(reports).iter().for_each(|bound| table.row(&bound.to_string()));
    table.text
}

struct Table {
    text: String,
    rows: usize,
}

impl Table {
    fn new(head: &str) -> Self {
        Self { text: format!("{head}\n"), rows: 0 }
    }

    fn row(&mut self, row: &str) {
        // Writing to a string can't fail.
        writeln!(self.text, "{row}").expect("a string");
        self.rows += 1;
    }
}

fn cpu(reports: &Reports) -> Table {
    let mut table = Table::new(
        "| contestant | CPU µs a sample (min to max) | to ack=memory | p50 / p99 ms | written to disk, bytes a sample |\n\
         |---|--:|--:|--:|--:|",
    );
    let figure =
        |contestant, of: fn(&RunReport) -> f64| Spread::of(reports.rounds(load::CPU, contestant).map(of));
    let memory = figure(MEMORY, cpu_us_per_sample).median;
    for contestant in reports.contestants(load::CPU) {
        let cpu = figure(contestant, cpu_us_per_sample);
        let ratio = match (contestant, cpu_ratio(reports)) {
            (DURABLE, Some(Spread { min, median, max })) => format!("{median:.2} ({min:.2} to {max:.2})"),
            (_, _) => format!("{:.2}", cpu.median / memory),
        };
        let (p50, p99) = (
            figure(contestant, |run| run.main.latency_ms.p50),
            figure(contestant, |run| run.main.latency_ms.p99),
        );
        let written = figure(contestant, written_bytes_per_sample).median;
        let Spread { min, median, max } = cpu;
        table.row(&format!(
            "| {contestant} | {median:.3} ({min:.3} to {max:.3}) | {ratio} | {:.2} / {:.2} | {written:.1} |",
            p50.median, p99.median,
        ));
    }
    table
}

fn written_bytes_per_sample(run: &RunReport) -> f64 {
    let written = run.main.server.map_or(0, |server| server.disk_write_bytes);
    written as f64 / run.main.samples_acked.max(1) as f64
}

fn paced(reports: &Reports) -> Table {
    let mut table =
        Table::new("| contestant | p50 ms | p99 ms (min to max) | p99 to bare |\n|---|--:|--:|--:|");
    let bare = bare_p99_ms(reports);
    let mut row = |name: &str, p50: f64, p99: Spread| {
        let Spread { min, median, max } = p99;
        let ratio = median / bare.median;
        table.row(&format!("| {name} | {p50:.2} | {median:.2} ({min:.2} to {max:.2}) | {ratio:.2} |"));
    };
    for contestant in reports.contestants(load::PACED) {
        let p50 =
            Spread::of(reports.rounds(load::PACED, contestant).map(|run| run.main.latency_ms.p50)).median;
        row(contestant, p50, p99_ms(reports, contestant));
    }
    for (name, is_of_kind) in BARE {
        let probes: Vec<&ProbeReport> = reports.probes.iter().filter(|probe| is_of_kind(probe)).collect();
        if let Some(probe) = probes.first() {
            let p50 = Spread::of(probes.iter().map(|probe| probe.latency_ms.p50)).median;
            let p99 = Spread::of(probes.iter().map(|probe| probe.latency_ms.p99));
            row(&format!("bare disk, {} KiB, {name}", probe.options.bytes >> 10), p50, p99);
        }
    }
    table
}

type IsOfKind = fn(&ProbeReport) -> bool;

/// A disk that is asked now and then answers later than one that is kept busy.
const BARE: [(&str, IsOfKind); 2] = [
    ("as often as the node", |probe| probe.options.rate.is_some()),
    ("one right after another", |probe| probe.options.rate.is_none()),
];

fn log(reports: &Reports) -> Table {
    let mut table = Table::new(
        "| log | samples a group | bytes a sample | of groups that make series | by the node's count, all |\n\
         |---|--:|--:|--:|--:|",
    );
    for log in &reports.logs {
        table.row(&format!(
            "| {} | {:.0} | {:.2} | {:.1} | {:.2} |",
            log.load,
            log.known_series.samples_per_group(),
            log.known_series.bytes_per_sample(),
            log.making_series.bytes_per_sample(),
            log.counted.bytes_per_sample(),
        ));
    }
    table
}

fn restart(reports: &Reports) -> Table {
    let mut table = Table::new(
        "| contestant | series, samples | ready after s | CPU s | RSS, peak MB before | peak MB until ready | RSS, peak MB settled |\n\
         |---|--:|--:|--:|--:|--:|--:|",
    );
    let mb = |bytes: f64| bytes / 1e6;
    for restart in &reports.restarts {
        let Some(before) = reports.rounds(load::RESTART, &restart.contestant).next_back() else { continue };
        table.row(&format!(
            "| {} | {}, {} | {:.1} | {:.1} | {:.0}, {:.0} | {:.0} | {:.0}, {:.0} |",
            restart.contestant,
            before.dataset.total_series(),
            before.main.samples_acked,
            restart.ready_s,
            restart.cpu_s,
            mb(before.resident_bytes()),
            mb(before.resident_peak_bytes()),
            mb(restart.ready_peak_bytes as f64),
            mb(restart.settled_resident_bytes as f64),
            mb(restart.settled_peak_bytes as f64),
        ));
    }
    table
}

fn beside(reports: &Reports) -> Table {
    let mut table =
        Table::new("| fixed rate | requests | p50 ms | p99 ms | slowest ms |\n|---|--:|--:|--:|--:|");
    for load in [load::BESIDE_NOTHING, load::BESIDE_CHECKPOINT, load::BESIDE_REPLAY] {
        let latencies = beside_ms(reports, load);
        if !latencies.is_empty() {
            let [p50, p99, slowest] = [0.5, 0.99, 1.0].map(|q| quantile(&latencies, q));
            table.row(&format!("| {load} | {} | {p50:.2} | {p99:.2} | {slowest:.2} |", latencies.len()));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::verdict::tests::reports;

    #[test]
    fn each_table_has_its_rows() {
        let text = markdown(&reports());
        for row in [
            "| silverback | 2500.000 (2500.000 to 5000.000) | 1.25 (1.00 to 2.00) |",
            "| prometheus | 0.00 | 4.00 (4.00 to 4.00) | 8.00 |",
            "| bare disk, 64 KiB, as often as the node | 0.00 | 0.50 (0.50 to 0.50) | 1.00 |",
            "| bare disk, 64 KiB, one right after another | 0.00 | 0.10 (0.10 to 0.10) | 0.20 |",
            "| closed loop | 100 | 5.10 | 90.0 | 7.00 |",
            "| silverback | 300, 0 | 4.0 | 7.0 |",
            "| beside a checkpoint | 1 | 3.00 | 3.00 | 3.00 |",
        ] {
            assert!(text.contains(row), "{row} is not in\n{text}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_table() {
        assert_eq!(markdown(&Reports::default()), "");
    }

    #[test]
    fn a_missed_bound_is_told() {
        let text = verdict(&reports());
        assert!(
            text.contains("| p99 at the fixed rate over the bare disk's | 4.00 | 2.00 | **no** |"),
            "{text}"
        );
    }
}
