//! `silverctl load`: a fleet's samples sent to a node, or to any receiver of remote write, and what
//! that came to.
//!
//! In reading order: what is asked for (`options`), from when on (`begin`), what there is to send and when (`feed`,
//! `histograms`, `turns`), who sends it (`posting`, `streaming`), what became of it (`event`, `tally`), the run
//! as a whole (`run`), and what is reported of it (`progress`, `report`, `summary`, `compare`).

mod backoff;
mod begin;
mod compare;
mod event;
mod feed;
mod histograms;
mod options;
mod posting;
mod progress;
mod report;
mod run;
mod streaming;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod turns;

use std::io::Write;

use clap::{Args, Subcommand};
use silverback_client::ReadError;
use silverback_model::printable::Printable;

use self::compare::CompareArgs;
use self::options::{LoadOptions, LoadPlan, Protocol};
use self::summary::Summary;
use crate::connection::ConnectionArgs;
use crate::error::{CommandError, Done, output};
use crate::interrupt::Interrupt;

/// Send a fleet's samples and measure what becomes of them.
///
/// The targets expose what a node_exporter does: its metric names, label names and kinds of values.
/// The same options give the same samples, but for --start: unless it is given, samples begin where those end
/// that the node has of the same series. They come up to the clock some time: another --first-target, or a --label
/// of their own, makes other series.
///
/// Exit code 1: a sample was refused, or its request was given up.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    command: Option<LoadCommand>,
    #[command(flatten)]
    options: LoadOptions,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    Compare(CompareArgs),
}

const EXAMPLES: &str = "\
Examples:
  silverctl load --rate 500000 --duration 2m --warmup 10s --pid $(pidof silverback) --report a.json
  silverctl load --closed --protocol grpc --rounds 60
  silverctl load --url http://127.0.0.1:9090/api/v1/write --protocol rw1 --churn 5% --skew 0.8";

/// Runs a load, or compares two.
pub(crate) async fn run(arguments: LoadArgs, connection: &ConnectionArgs, interrupt: Interrupt) -> Done {
    let options = match arguments {
        LoadArgs { command: Some(LoadCommand::Compare(compare)), .. } => return compare::run(&compare),
        LoadArgs { command: None, options } => options,
    };
    let mut plan = options.plan(connection)?;
    if options.begins_where_series_end() {
        interrupt.clone().or(begin_where_series_end(&mut plan, connection)).await?;
    }
    let ran = run::run(plan, connection, options.pid, interrupt).await?;
    let mut out = output();
    write!(out, "{}", Summary(&ran.report))?;
    out.flush()?;
    if let Some(path) = &options.report {
        ran.report.write(path)?;
    }
    match ran.failure {
        Some(failure) => Err(failure),
        None if ran.report.totals.samples_written == 0 => Err("no sample was acknowledged".into()),
        // The summary has said what.
        None if ran.report.totals.has_losses() => Err(CommandError::Told),
        None => Ok(()),
    }
}

/// Says, too, where that is. A receiver of remote write that can't be asked gets the samples as they are planned.
async fn begin_where_series_end(plan: &mut LoadPlan, connection: &ConnectionArgs) -> Done {
    let words = match begin::after_what_is_there(plan, connection).await {
        Ok(words) => words,
        Err(CommandError::Because(error)) if plan.protocol != Protocol::Grpc && error.is::<ReadError>() => {
            Some(format!("{} can't be asked where its series end: {error}", connection.address))
        }
        Err(failure) => return Err(failure),
    };
    if let Some(words) = words {
        eprintln!("{}", Printable(&words));
    }
    Ok(())
}
