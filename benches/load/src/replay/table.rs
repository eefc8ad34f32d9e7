//! Many runs' reports as one Markdown table: medians over the rounds, their spread, and the ratio to
//! one contestant. It knows reports, not who was measured.

use std::fmt::Write;

use super::report::RunReport;
use super::spread::Spread;

/// The rows of one load and one contestant, in the order in which they first come up.
struct Group<'a> {
    load: &'a str,
    contestant: &'a str,
    runs: Vec<&'a RunReport>,
}

/// The table. `reference` is the contestant that the others are divided by.
pub fn markdown(reports: &[RunReport], reference: &str) -> String {
    let groups = group(reports);
    let mut table = String::from(
        "| load | contestant | k samples a server CPU second (min to max) | ratio | p50 / p99 ms \
         | RSS after, peak MB | bytes a series | not acknowledged |\n|---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for group in &groups {
        let reference = groups.iter().find(|other| other.load == group.load && other.contestant == reference);
        // Writing to a string can't fail.
        writeln!(table, "{}", row(group, reference)).expect("a string");
    }
    table
}

fn group(reports: &[RunReport]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in reports {
        let place = groups.iter().position(|g| g.load == run.load && g.contestant == run.contestant);
        match place {
            Some(place) => groups[place].runs.push(run),
            None => groups.push(Group { load: &run.load, contestant: &run.contestant, runs: vec![run] }),
        }
    }
    // Stable: within a load, the contestants keep their order.
    groups.sort_by_key(|g| reports.iter().position(|run| run.load == g.load));
    groups
}

fn row(group: &Group<'_>, reference: Option<&Group<'_>>) -> String {
    let spread =
        |group: &Group<'_>, figure: fn(&RunReport) -> f64| Spread::of(group.runs.iter().copied().map(figure));
    let throughput = spread(group, RunReport::samples_per_cpu_s);
    let ratio = match reference.map(|reference| spread(reference, RunReport::samples_per_cpu_s).median) {
        Some(reference) if reference > 0.0 => format!("{:.2}", throughput.median / reference),
        _ => "–".to_owned(),
    };
    let of = |figure: fn(&RunReport) -> f64| spread(group, figure).median;
    let lost = of(|run| (run.main.samples_sent - run.main.samples_acked) as f64);
    format!(
        "| {} | {} | {:.0} ({:.0} to {:.0}) | {ratio} | {:.2} / {:.2} | {:.0}, {:.0} | {:.0} | {lost} |",
        group.load,
        group.contestant,
        throughput.median / 1e3,
        throughput.min / 1e3,
        throughput.max / 1e3,
        of(|run| run.main.latency_ms.p50),
        of(|run| run.main.latency_ms.p99),
        of(RunReport::resident_bytes) / 1e6,
        of(RunReport::resident_peak_bytes) / 1e6,
        of(|run| run.resident_bytes() / run.dataset.total_series() as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::RemoteWrite;
    use crate::figures::ServerReport;
    use crate::replay::generate::tests::small;
    use crate::replay::report::PhaseReport;

    fn run(load: &str, contestant: &str, samples_per_cpu_s: f64) -> RunReport {
        let server = ServerReport { samples_per_cpu_s, resident_bytes: 300_000, ..Default::default() };
        RunReport {
            contestant: contestant.to_owned(),
            load: load.to_owned(),
            url: String::new(),
            rate: None,
            dataset: small(RemoteWrite::V1),
            warmup: None,
            main: PhaseReport { server: Some(server), ..Default::default() },
            settled: None,
        }
    }

    #[test]
    fn rounds_become_one_row_with_median_spread_and_ratio() {
        let reports = [
            run("A", "ours", 2e6),
            run("B", "ours", 1e6),
            run("A", "theirs", 1e6),
            run("A", "ours", 5e6),
            run("A", "ours", 4e6),
        ];
        let table = markdown(&reports, "ours");
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert!(rows[0].starts_with("| A | ours | 4000 (2000 to 5000) | 1.00 |"), "{table}");
        assert!(rows[1].starts_with("| A | theirs | 1000 (1000 to 1000) | 0.25 |"), "{table}");
        assert!(rows[2].starts_with("| B | ours | 1000 (1000 to 1000) | 1.00 |"), "{table}");
        assert!(rows[0].contains("| 1000 | 0 |"), "{table}");
    }
}
