//! `silverctl`: writes to a node, reads from it and looks into it, from the command line.
//!
//! Knows which commands there are and how one runs and ends. What a command does is in its own
//! module, how a node is reached in [`connection`], how an end is reported in [`error`].
#![forbid(unsafe_code)]

mod answers;
mod cells;
mod completions;
mod connection;
mod error;
mod figures;
mod filter;
mod formats;
mod import;
mod interrupt;
mod label_set;
mod labels;
mod load;
mod manual;
mod metadata;
mod progress;
mod queries;
mod query;
mod rebalance;
mod refusals;
mod sending;
mod shards;
mod shown;
mod table;
mod time_range;
mod time_text;
mod top;
mod write;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use connection::ConnectionArgs;
use error::Done;
use interrupt::Interrupt;

/// Write to a Silverback node, read from it and look into it.
#[derive(Debug, Parser)]
#[command(name = "silverctl", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    Write(write::WriteArgs),
    Query(query::QueryArgs),
    Labels(labels::LabelsArgs),
    Series(labels::SeriesArgs),
    Import(import::ImportArgs),
    Load(load::LoadArgs),
    Top(top::TopArgs),
    Metadata(metadata::MetadataArgs),
    Refusals(refusals::RefusalsArgs),
    Queries(queries::QueriesArgs),
    Shards(shards::ShardsArgs),
    #[command(subcommand)]
    Shard(shards::ShardCommand),
    Cells(cells::CellsArgs),
    #[command(subcommand)]
    Cell(cells::CellCommand),
    #[command(subcommand)]
    Rebalance(rebalance::RebalanceCommand),
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    let matches = Cli::command().subcommand(manual::command()).get_matches();
    if let Some((manual::NAME, arguments)) = matches.subcommand() {
        return error::exit_code(manual::run(arguments));
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return error::exit_code(Err(error.into())),
    };
    let ended = runtime.block_on(async { run(cli, Interrupt::watch()).await });
    // A thread that waits for standard input would hold up an orderly shutdown.
    runtime.shutdown_background();
    error::exit_code(ended)
}

async fn run(cli: Cli, interrupt: Interrupt) -> Done {
    let connection = &cli.connection;
    match cli.command {
        Command::Write(arguments) => write::run(arguments, connection, interrupt).await,
        Command::Query(arguments) => interrupt.or(query::run(arguments, connection)).await,
        Command::Labels(arguments) => interrupt.or(labels::labels(arguments, connection)).await,
        Command::Series(arguments) => interrupt.or(labels::series(arguments, connection)).await,
        Command::Import(arguments) => import::run(arguments, connection, interrupt).await,
        Command::Load(arguments) => load::run(arguments, connection, interrupt).await,
        Command::Top(arguments) => top::run(&arguments, connection, interrupt).await,
        Command::Metadata(arguments) => interrupt.or(metadata::run(&arguments, connection)).await,
        Command::Refusals(arguments) => interrupt.or(refusals::run(&arguments, connection)).await,
        Command::Queries(arguments) => interrupt.or(queries::run(&arguments, connection)).await,
        Command::Shards(arguments) => interrupt.or(shards::list(&arguments, connection)).await,
        Command::Shard(command) => interrupt.or(shards::run(command, connection)).await,
        Command::Cells(arguments) => interrupt.or(cells::list(&arguments, connection)).await,
        Command::Cell(command) => interrupt.or(cells::run(command, connection)).await,
        Command::Rebalance(command) => interrupt.or(rebalance::run(command, connection)).await,
        Command::Completions(arguments) => completions::run(&arguments),
    }
}
