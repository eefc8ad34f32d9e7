//! The `silverback` command: arguments to a configuration, a configuration to a running node.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use silverback::config::{self, Config, Effective, FaultList};
use silverback::node::{self, NodeError};

/// Neither started nor tried to: the configuration, the arguments or the machine are wrong.
const EXIT_CONFIG: u8 = 2;

const EXAMPLES: &str = "\
Where values come from, each over the next:
  a flag --data-dir, the environment SILVERBACK_DATA_DIR, the file's data-dir, the default.

Examples:
  silverback                                     a node on 127.0.0.1:9009, data in ./silverback-data
  silverback --listen :9009 --retention 2d       on every address, keeping two days
  silverback check-config --config node.yaml     what the node would run with, and why

To send it samples, give Prometheus:
  remote_write: [{url: http://127.0.0.1:9009/api/v1/write}]";

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = command().get_matches();
    match matches.subcommand() {
        Some(("check-config", options)) => check_config(&[&matches, options]),
        Some(("run", options)) => run(&[&matches, options]),
        _ => run(&[&matches]),
    }
}

fn command() -> Command {
    let run = Command::new("run").about("Run the node; the same as no command");
    let check_config = Command::new("check-config")
        .about("Print the effective configuration and the origin of each value, or all its faults");
    config::with_options(Command::new("silverback"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("A time-series ingestion node: Prometheus remote write in, on disk before it is acknowledged, remote read out; each pinned core owns its data")
        .after_help(EXAMPLES)
        .subcommand(config::with_options(run))
        .subcommand(config::with_options(check_config))
}

fn load(matches: &[&ArgMatches]) -> Result<Effective, FaultList> {
    config::load(matches.iter().copied(), std::env::vars_os())
}

fn check_config(matches: &[&ArgMatches]) -> ExitCode {
    match load(matches) {
        Ok(effective) => {
            print!("{effective}");
            check_memory(&effective.config)
        }
        Err(faults) => refuse(&faults),
    }
}

/// What of the configuration depends on the machine, as a comment.
fn check_memory(config: &Config) -> ExitCode {
    match node::memory_share(config) {
        Ok(share) => {
            println!("# memory here: {share}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("silverback: {error}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(matches: &[&ArgMatches]) -> ExitCode {
    let effective = match load(matches) {
        Ok(effective) => effective,
        Err(faults) => return refuse(&faults),
    };
    let config = effective.config;
    if let Err(error) = silverback::logging::start(config.log_format, &config.log_level) {
        eprintln!("silverback: {error}");
        return ExitCode::FAILURE;
    }
    match node::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("silverback: {error}");
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What an operator has to change before a start can succeed is told apart from what failed.
fn exit_code(error: &NodeError) -> u8 {
    match error {
        NodeError::Preflight(_) | NodeError::LimitTooSmall(_) => EXIT_CONFIG,
        NodeError::Cpus(_)
        | NodeError::Memory(_)
        | NodeError::Listen(..)
        | NodeError::Signals(_)
        | NodeError::Run(_)
        | NodeError::DataDir(_)
        | NodeError::Core(..) => 1,
    }
}

fn refuse(faults: &FaultList) -> ExitCode {
    eprintln!("silverback: {faults}");
    ExitCode::from(EXIT_CONFIG)
}
