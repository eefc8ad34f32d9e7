//! `silverctl completions`: what a shell needs to complete `silverctl`'s words.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

use crate::Cli;
use crate::error::{Done, output};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "To use it at once in bash: source <(silverctl completions bash)")]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &CompletionsArgs) -> Done {
    // Into memory first: the generator panics where it can't write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "silverctl", &mut script);
    let mut out = output();
    out.write_all(&script)?;
    Ok(out.flush()?)
}
