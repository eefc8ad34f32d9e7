//! `silverback-bench`: every program that measures, as one binary's subcommands.
//!
//! Knows which there are, and how one ends. What a program measures is in its own module and in the
//! library. One binary, because each would link all of the node and its peers' service again.
//!
//! All run with the node's own allocator: the contender has to, to be compared with the node, and so has
//! whatever runs the node's parts in its own process.
#![forbid(unsafe_code)]

mod contender;
mod durability;
mod founding;
mod http_transport;
mod isolation;
mod profile;
mod promql;
mod rebalance;
mod replay;
mod report;
mod runtime_soak;
mod section;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use silverback_benches::report::backed_memory;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How a program ends that didn't fail: with what it measured, and whether that is as it should be.
type Ended = Result<ExitCode, Box<dyn Error>>;

/// Measure a Silverback node, its parts and its peers.
#[derive(Debug, Parser)]
#[command(name = "silverback-bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    Replay(replay::ReplayArgs),
    Report(report::ReportArgs),
    Section(section::SectionArgs),
    Contender(contender::ContenderArgs),
    Durability(durability::DurabilityArgs),
    Founding(founding::FoundingArgs),
    Isolation(isolation::IsolationArgs),
    Profile(profile::ProfileArgs),
    Promql(promql::PromqlArgs),
    Rebalance(rebalance::RebalanceArgs),
    HttpTransport(http_transport::TransportArgs),
    RuntimeSoak(runtime_soak::SoakArgs),
    /// Touch so many MiB of memory, and end: what the report does before each load
    #[command(hide = true, name = backed_memory::SUBCOMMAND)]
    BackMemory {
        mib: usize,
    },
}

fn main() -> ExitCode {
    run(Cli::parse().program).unwrap_or_else(|error| {
        eprintln!("silverback-bench: {error}");
        ExitCode::FAILURE
    })
}

fn run(program: Program) -> Ended {
    match program {
        Program::Replay(arguments) => replay::run(arguments),
        Program::Report(arguments) => report::run(&arguments),
        Program::Section(arguments) => section::run(&arguments),
        Program::Contender(arguments) => contender::run(arguments),
        Program::Durability(arguments) => durability::run(arguments),
        Program::Founding(arguments) => founding::run(&arguments),
        Program::Isolation(arguments) => isolation::run(arguments),
        Program::Profile(arguments) => profile::run(&arguments),
        Program::Promql(arguments) => promql::run(&arguments),
        Program::Rebalance(arguments) => rebalance::run(&arguments),
        Program::HttpTransport(arguments) => Ok(http_transport::run(&arguments)),
        Program::RuntimeSoak(arguments) => Ok(runtime_soak::run(&arguments)),
        Program::BackMemory { mib } => {
            backed_memory::take(mib);
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn each_program_s_options_are_sound() {
        Cli::command().debug_assert();
    }
}
