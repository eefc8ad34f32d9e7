//! `silverback-bench replay`: prepares a fleet's remote write requests, sends them, and says what a server spent.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use silverback_load::replay::dataset::{self, Dataset};
use silverback_load::replay::floor::floors;
use silverback_load::replay::generate::GenerateOptions;
use silverback_load::replay::report::RunReport;
use silverback_load::replay::send::{ReplayOptions, replay};
use silverback_load::replay::table;
use silverback_load::usage::raise_file_limit;

use crate::Ended;

/// Replay a fleet's remote write requests against any receiver
///
/// The requests are prepared ahead (gen) and sent from memory over keep-alive connections (run), so
/// that the loader takes next to no CPU while a server is measured. The targets expose what a
/// node_exporter does: its metric names, label names and kinds of values, scraped every 15 s, each
/// target at its own offset. The same options and start give the same bytes.
///
///   silverback-bench replay gen a.load --targets 200 --series 500 --rounds 60
///   taskset -c 1 silverback-bench replay run a.load --url http://127.0.0.1:9090/api/v1/write
///
/// Reports are JSON on standard output; progress and a summary go to standard error.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare a file of requests
    ///
    /// A connection has whole targets, or a part of one where there are more connections than
    /// targets, so each series' samples stay in order.
    Gen {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        options: GenerateOptions,
    },
    /// Send a file's requests and report
    Run {
        /// A file that gen wrote
        file: PathBuf,
        #[command(flatten)]
        options: ReplayOptions,
    },
    /// Measure what any receiver of a file's requests spends at least, part by part
    Floor {
        /// A file that gen wrote
        file: PathBuf,
        /// CPU seconds for each part
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Put reports into one Markdown table: medians, spread, ratios
    Table {
        /// Files that run's standard output went to
        #[arg(required = true)]
        reports: Vec<PathBuf>,
        /// The contestant that the others are divided by
        #[arg(long, default_value = "silverback")]
        reference: String,
    },
}

/// Runs a step, and prints its report.
pub(crate) fn run(arguments: ReplayArgs) -> Ended {
    match arguments.command {
        Command::Gen { file, options } => dataset::write(&file, &options.with_fixed_start())?,
        Command::Run { file, options } => {
            raise_file_limit()?;
            let report = replay(&Dataset::open(&file)?, &options)?;
            eprintln!("{}", summary(&report));
            println!("{}", serde_json::to_string_pretty(&report)?);
        }
        Command::Floor { file, seconds } => {
            let floors = floors(&Dataset::open(&file)?, seconds)?;
            for floor in &floors {
                eprintln!("{:<40} {:>7.2} M samples/s", floor.part, floor.samples_per_cpu_s / 1e6);
            }
            println!("{}", serde_json::to_string_pretty(&floors)?);
        }
        Command::Table { reports, reference } => {
            let read = |path: &PathBuf| -> Result<RunReport, Box<dyn Error>> {
                Ok(serde_json::from_slice(&std::fs::read(path)?)?)
            };
            let reports = reports.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            print!("{}", table::markdown(&reports, &reference));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One line for whoever watches.
fn summary(report: &RunReport) -> String {
    let main = &report.main;
    let mut line = format!(
        "{} {}: {} of {} samples acknowledged in {:.1} s, {:.0} k/s, p50 {:.2} ms, p99 {:.2} ms",
        report.load,
        report.contestant,
        main.samples_acked,
        main.samples_sent,
        main.wall_s,
        main.samples_per_s / 1e3,
        main.latency_ms.p50,
        main.latency_ms.p99,
    );
    if let Some(server) = &main.server {
        line += &format!(
            "; server {:.0} k samples a CPU second ({:.2} s, {:.2} cores), {:.0} MB resident, {:.0} MB peak",
            server.samples_per_cpu_s / 1e3,
            server.cpu_s,
            server.cores,
            server.resident_bytes as f64 / 1e6,
            server.resident_peak_bytes as f64 / 1e6,
        );
    }
    if let Some(refusal) = main.refusals.first() {
        line += &format!("; {:?}, first {refusal}", main.answers);
    }
    line
}
