//! `silverctl man`: the pages of the manual, for whoever makes a package. It isn't among the commands that completions
//! and the manual itself list.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, CommandFactory, value_parser};

use crate::Cli;
use crate::error::{Context, Done};

/// What the command is called.
pub(crate) const NAME: &str = "man";

const DIR: &str = "dir";

/// The command and what it takes.
pub(crate) fn command() -> Command {
    let dir = Arg::new(DIR).value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    Command::new(NAME)
        .about("Write the pages of the manual into a directory")
        .hide(true)
        .arg(dir.help("The directory"))
}

/// Writes a page for each command.
pub(crate) fn run(arguments: &ArgMatches) -> Done {
    let dir = arguments.get_one::<PathBuf>(DIR).expect("clap requires it");
    clap_mangen::generate_to(Cli::command(), dir)
        .context(|| format!("can't write the manual into {}", dir.display()))
}
