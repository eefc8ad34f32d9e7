//! `silverctl load compare`: two runs' reports side by side, and which differences are more than
//! noise.

mod margin;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use self::margin::{Figure, Margin, RESAMPLES, SECONDS_MIN, SEED, block_len};
use super::report::LoadReport;
use super::summary::{parts, sum};
use super::tally::{Second, Totals};
use crate::error::{Done, output};
use crate::figures::grouped;

/// A second that the end of a run cut to less says little of a rate.
const SPAN_S_MIN: f64 = 0.5;

/// Compare the reports of two runs.
///
/// Each figure comes with the ratio of B to A and a 95 % margin of error, drawn from the runs'
/// seconds. A difference within the margin may be chance.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// A report that `silverctl load --report` wrote.
    a: PathBuf,
    /// Another one.
    b: PathBuf,
}

/// Prints the comparison.
pub(super) fn run(arguments: &CompareArgs) -> Done {
    let (a, b) = (LoadReport::read(&arguments.a)?, LoadReport::read(&arguments.b)?);
    let mut out = output();
    writeln!(out, "A: {}\nB: {}", arguments.a.display(), arguments.b.display())?;
    write!(out, "{}", comparison(&a, &b))?;
    Ok(out.flush()?)
}

/// One line of the table.
struct Row {
    name: &'static str,
    decimals: Decimals,
    figure: Figure,
}

#[derive(Debug, Clone, Copy)]
enum Decimals {
    None,
    Two,
}

const ROWS: [Row; 7] = [
    Row { name: "samples/s", decimals: Decimals::None, figure: samples_per_s },
    Row { name: "samples/CPU s", decimals: Decimals::None, figure: samples_per_cpu_s },
    latency("p50 ms", |s| mean(s, |second| Some(second.latency_ms?.p50))),
    latency("p90 ms", |s| mean(s, |second| Some(second.latency_ms?.p90))),
    latency("p99 ms", |s| mean(s, |second| Some(second.latency_ms?.p99))),
    latency("p99.9 ms", |s| mean(s, |second| Some(second.latency_ms?.p999))),
    latency("max ms", |s| mean(s, |second| Some(second.latency_ms?.max))),
];

const fn latency(name: &'static str, figure: Figure) -> Row {
    Row { name, decimals: Decimals::Two, figure }
}

fn samples_per_s(seconds: &[&Second]) -> Option<f64> {
    let samples: u64 = seconds.iter().map(|second| second.samples_written).sum();
    let span_s: f64 = seconds.iter().map(|second| second.span_s).sum();
    (span_s > 0.0).then(|| samples as f64 / span_s)
}

fn samples_per_cpu_s(seconds: &[&Second]) -> Option<f64> {
    let samples: u64 = seconds.iter().map(|second| second.samples_written).sum();
    let cpu_s: f64 = seconds.iter().map(|second| second.server_cpu_s).sum::<Option<f64>>()?;
    (cpu_s > 0.0).then(|| samples as f64 / cpu_s)
}

/// Over those seconds that have the figure.
fn mean(seconds: &[&Second], figure: fn(&Second) -> Option<f64>) -> Option<f64> {
    let figures: Vec<f64> = seconds.iter().filter_map(|second| figure(second)).collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

fn comparison(a: &LoadReport, b: &LoadReport) -> String {
    let (seconds_a, seconds_b) = (whole_seconds(a), whole_seconds(b));
    let (mut text, losses) = (differences(a, b), losses(&a.totals, &b.totals));
    let head = ["", "A", "B", "B / A", "95 % margin"];
    let [name, a, b, ratio, margin] = head;
    line(&mut text, format_args!("{name:<14}{a:>13}{b:>13}{ratio:>9}{margin:>18}"));
    for row in &ROWS {
        line(&mut text, format_args!("{}", row.compare(&seconds_a, &seconds_b)));
    }
    text.push_str(&losses);
    let blocks = block_len(seconds_a.len().min(seconds_b.len()));
    line(
        &mut text,
        format_args!(
            "\nMeans over the seconds, {} of A and {} of B. Margin: the middle 95 % of {} ratios of resampled\n\
         seconds (bootstrap, blocks of {blocks} s, seed {SEED}). It holds the noise within these two runs; what\n\
         differs from one run to the next is seen by running each more than once.",
            seconds_a.len(),
            seconds_b.len(),
            grouped(RESAMPLES as u64),
        ),
    );
    text
}

/// Samples of a run by the reason for which they aren't stored.
type Counts = fn(&Totals) -> &BTreeMap<String, u64>;

/// Samples of the whole runs that aren't stored, with the reasons: what was lost is in no rate above.
fn losses(a: &Totals, b: &Totals) -> String {
    let mut text = String::new();
    let mut row = |name: &str, in_a: u64, in_b: u64, words: String| {
        let words = if words.is_empty() { words } else { format!("  {words}") };
        line(&mut text, format_args!("{name:<14}{:>13}{:>13}{words}", grouped(in_a), grouped(in_b)));
    };
    let reasons = |of: Counts| {
        let told = [("A", of(a)), ("B", of(b))].into_iter().filter(|(_, counts)| !counts.is_empty());
        told.map(|(name, counts)| format!("{name}: {}", parts(counts))).collect::<Vec<_>>().join("; ")
    };
    let refused: Counts = |totals| &totals.samples_refused;
    let failed: Counts = |totals| &totals.samples_failed;
    row("refused", sum(refused(a)), sum(refused(b)), reasons(refused));
    row("failed", sum(failed(a)), sum(failed(b)), reasons(failed));
    let warmup = |totals: &Totals| totals.samples_not_written_in_warmup;
    if warmup(a) + warmup(b) > 0 {
        row("before", warmup(a), warmup(b), "refused or failed in the warm-up".to_owned());
    }
    text
}

fn whole_seconds(report: &LoadReport) -> Vec<&Second> {
    report.seconds.iter().filter(|second| second.span_s >= SPAN_S_MIN).collect()
}

impl Row {
    fn compare(&self, a: &[&Second], b: &[&Second]) -> String {
        let show = |figure: Option<f64>| figure.map_or("–".to_owned(), |figure| self.decimals.show(figure));
        let figures = ((self.figure)(a), (self.figure)(b));
        let mut text = format!("{:<14}{:>13}{:>13}", self.name, show(figures.0), show(figures.1));
        let (Some(of_a), Some(of_b)) = figures else { return text };
        let verdict = match Margin::of_ratio(a, b, self.figure) {
            None => format!("{:>18}  fewer than {SECONDS_MIN} seconds: no margin", "–"),
            Some(margin) => {
                let span = format!("{:.3} to {:.3}", margin.low, margin.high);
                format!("{span:>18}  {}", verdict(of_b / of_a, &margin))
            }
        };
        text.push_str(&format!("{:>9.3}{verdict}", of_b / of_a));
        text
    }
}

impl Decimals {
    fn show(self, figure: f64) -> String {
        match self {
            Self::None => grouped(figure.round() as u64),
            Self::Two => format!("{figure:.2}"),
        }
    }
}

fn verdict(ratio: f64, margin: &Margin) -> String {
    if margin.has_one() {
        return "within the margin: no difference shown".to_owned();
    }
    let percent = (ratio - 1.0).abs() * 100.0;
    format!("B {percent:.1} % {}", if ratio > 1.0 { "higher" } else { "lower" })
}

/// What else than the figures is not the same.
fn differences(a: &LoadReport, b: &LoadReport) -> String {
    let mut text = String::new();
    let of = |report: &LoadReport| {
        let parts = [serde_json::to_value(&report.plan), serde_json::to_value(&report.machine)];
        parts.into_iter().flatten().flat_map(|part| part.as_object().cloned().unwrap_or_default()).collect()
    };
    let (of_a, of_b): (Vec<_>, Vec<_>) = (of(a), of(b));
    for ((name, in_a), (_, in_b)) in of_a.iter().zip(&of_b) {
        // No two runs begin at the same time.
        if in_a != in_b && name != "start_ms" {
            line(&mut text, format_args!("different: {name} is {in_a} in A and {in_b} in B"));
        }
    }
    text.push('\n');
    text
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a string never fails");
}

#[cfg(test)]
mod tests {
    use silverback_load::figures::Quantiles;

    use super::super::report::tests::report;
    use super::*;

    fn second(samples_written: u64, cpu_s: Option<f64>, ms: f64) -> Second {
        let latency = Quantiles { mean: ms, p50: ms, p90: ms, p99: ms, p999: ms, max: ms };
        Second {
            span_s: 1.0,
            samples_written,
            server_cpu_s: cpu_s,
            latency_ms: Some(latency),
            ..Second::default()
        }
    }

    fn row(text: &str, name: &str) -> Vec<String> {
        let row = text.lines().find(|line| line.starts_with(name)).expect("a row of that name");
        row[name.len()..].split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_plain_difference_is_told_with_its_ratio() {
        let a = report(vec![second(1_000_000, Some(0.5), 2.0); 10]);
        let b = report(vec![second(1_500_000, Some(0.5), 1.0); 10]);
        let text = comparison(&a, &b);
        assert_eq!(
            row(&text, "samples/s").join(" "),
            "1,000,000 1,500,000 1.500 1.500 to 1.500 B 50.0 % higher"
        );
        assert_eq!(row(&text, "samples/CPU s")[..3], ["2,000,000", "3,000,000", "1.500"]);
        assert_eq!(row(&text, "p99 ms").join(" "), "2.00 1.00 0.500 0.500 to 0.500 B 50.0 % lower");
    }

    #[test]
    fn what_was_refused_and_why_stands_beside_the_rates() {
        let seconds = || vec![second(1000, None, 1.0); 10];
        let (a, mut b) = (report(seconds()), report(seconds()));
        let text = comparison(&a, &b);
        assert_eq!(
            (row(&text, "refused").join(" "), row(&text, "failed").join(" ")),
            ("0 0".into(), "0 0".into())
        );
        b.totals.samples_refused.insert("out_of_order".to_owned(), 12_000);
        b.totals.samples_failed.insert("503".to_owned(), 7);
        let text = comparison(&a, &b);
        assert_eq!(row(&text, "refused").join(" "), "0 12,000 B: out_of_order: 12,000");
        let text = comparison(&b, &b);
        assert_eq!(row(&text, "failed").join(" "), "7 7 A: 503: 7; B: 503: 7");
    }

    #[test]
    fn a_difference_within_the_noise_is_told_as_none() {
        let wave = |shift: u64| (0..30).map(|n| second(1000 + (n * 7 + shift) % 200, None, 1.0)).collect();
        let text = comparison(&report(wave(0)), &report(wave(9)));
        assert!(
            row(&text, "samples/s").join(" ").ends_with("within the margin: no difference shown"),
            "{text}"
        );
        assert_eq!(row(&text, "samples/CPU s"), ["–", "–"]);
    }

    #[test]
    fn short_runs_have_no_margin_and_other_plans_are_told() {
        let mut b = report(vec![second(2, None, 1.0); 3]);
        b.plan.batch = 500;
        let text = comparison(&report(vec![second(1, None, 1.0); 3]), &b);
        assert!(text.starts_with("different: batch is 2000 in A and 500 in B\n\n"), "{text}");
        assert!(row(&text, "samples/s").join(" ").ends_with("fewer than 5 seconds: no margin"), "{text}");
    }
}
