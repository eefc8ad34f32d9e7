//! `silverback-bench durability`: what `benches/durability` measures and judges besides sending loads.

use std::io::stdin;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use silverback_benches::durability::kept::{self, KeptOptions};
use silverback_benches::durability::log::{self, LogOptions};
use silverback_benches::durability::probe::{ProbeOptions, probe};
use silverback_benches::durability::reports::Reports;
use silverback_benches::durability::restart::{RestartOptions, wait_until_ready};
use silverback_benches::durability::{tables, verdict};

use crate::Ended;

/// Measure what the durable log costs, part by part
///
/// The parts are put together by benches/durability. Reports are JSON on standard output.
#[derive(Debug, Args)]
pub(crate) struct DurabilityArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write and sync past the page cache, as a log does
    Probe {
        /// On the disk to measure
        directory: PathBuf,
        #[command(flatten)]
        options: ProbeOptions,
    },
    /// Count the bytes and samples of an ended node's log
    Log(LogOptions),
    /// Wait until a server that was just started is ready
    Restart(RestartOptions),
    /// Count the samples of an export on standard input, beside those that were acknowledged
    Kept(KeptOptions),
    /// Print the reports below a directory as tables, and judge them
    Verdict {
        /// With a directory for each kind of report
        reports: PathBuf,
        /// Judge only whether anything was lost: the loads were too small for the bounds
        #[arg(long)]
        only_losses: bool,
    },
}

/// Runs a part, and prints its report.
pub(crate) fn run(arguments: DurabilityArgs) -> Ended {
    match arguments.command {
        Command::Probe { directory, options } => print(&probe(&directory, &options)?)?,
        Command::Log(options) => print(&log::count(&options)?)?,
        Command::Restart(options) => print(&wait_until_ready(&options)?)?,
        Command::Kept(options) => print(&kept::compare(&options, stdin().lock())?)?,
        Command::Verdict { reports, only_losses } => {
            return Ok(judge(&Reports::read(&reports)?, only_losses));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(report: &impl Serialize) -> serde_json::Result<()> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}

/// Fails where something was lost or a bound is missed.
fn judge(reports: &Reports, only_losses: bool) -> ExitCode {
    println!("{}", tables::markdown(reports));
    let losses = verdict::losses(reports);
    losses.iter().for_each(|loss| println!("LOST: {loss}"));
    if only_losses {
        return if losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    print!("{}", tables::verdict(reports));
    let all_hold = verdict::bounds(reports).iter().all(verdict::Bound::holds);
    if losses.is_empty() && all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
