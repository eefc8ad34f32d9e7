//! `silverback-bench isolation`: what `benches/isolation` measures and judges besides sending loads.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use silverback_benches::isolation::mixed::{MixedOptions, mixed};
use silverback_benches::isolation::reports::Reports;
use silverback_benches::isolation::{tables, verdict};

use crate::Ended;

/// Measure how well pieces of work leave each other alone
///
/// The parts are put together by benches/isolation. Reports are JSON on standard output.
#[derive(Debug, Args)]
pub(crate) struct IsolationArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run small requests beside long jobs on one executor
    Mixed(MixedOptions),
    /// Print the reports below a directory as tables, and judge them
    Verdict {
        /// With a directory for each kind of report
        reports: PathBuf,
        /// Judge only whether all was done: the loads were too small for the bounds
        #[arg(long)]
        only_faults: bool,
    },
}

/// Runs a part, and prints its report.
pub(crate) fn run(arguments: IsolationArgs) -> Ended {
    match arguments.command {
        Command::Mixed(options) => println!("{}", serde_json::to_string_pretty(&mixed(&options)?)?),
        Command::Verdict { reports, only_faults } => {
            return Ok(judge(&Reports::read(&reports)?, only_faults));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails where something wasn't done or a bound is missed.
fn judge(reports: &Reports, only_faults: bool) -> ExitCode {
    print!("{}", tables::markdown(reports));
    let faults = verdict::faults(reports);
    faults.iter().for_each(|fault| println!("FAILED: {fault}"));
    let mut all_hold = faults.is_empty();
    if !only_faults {
        print!("{}", tables::verdict(reports));
        all_hold &= verdict::bounds(reports).iter().all(verdict::Bound::holds);
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
