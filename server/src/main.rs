//! The `silverback` command: arguments to a configuration, a configuration to a running node.

mod allocator;

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use clap_complete::Shell;
use silverback::access;
use silverback::config::{self, Effective};
use silverback::node::blocks_command as blocks;
use silverback::node::topology_command::{self, Form, MachineSource, TopologyCommandError};
use silverback::node::wal_command::{self as logs, Detail, Soundness};
use silverback::node::{self, NodeError, seccomp_profile};
use silverback_model::printable::Printable;

/// Neither started nor tried to: the configuration, the arguments or the machine are wrong.
const EXIT_CONFIG: u8 = 2;

const EXAMPLES: &str = "\
Where values come from, each over the next:
  a flag --data-dir, the environment SILVERBACK_DATA_DIR, the file's data-dir, the default.

Examples:
  silverback                                     a node on 127.0.0.1:9009, data in ./silverback-data
  silverback --listen :9009 --retention 2d       on every address, keeping two days
  silverback check-config --config node.yaml     what the node would run with, and why
  silverback topology                            this machine's cores, and where the shards go
  silverback wal verify ./silverback-data        whether a stopped node's log is whole

To send it samples, give Prometheus:
  remote_write: [{url: http://127.0.0.1:9009/api/v1/write}]";

/// All that the command can be asked for.
#[derive(Subcommand)]
enum CliCommand {
    #[command(flatten)]
    Listed(ListedCommand),
    /// Write the pages of the manual into a directory
    // For who makes a package. Not among the commands that completions and the manual list.
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

#[derive(Subcommand)]
enum ListedCommand {
    /// Run the node; the same as no command
    Run,
    /// Print the effective configuration and the origin of each value, or all its faults
    CheckConfig,
    /// Print the NUMA nodes, cores and quota that a node finds here, and which shard would run on which CPU
    #[command(
        after_help = "In the picture, `s3 3+19` is shard 3 on a core of CPUs 3 and 19, and `-- 4+20` a core without a shard."
    )]
    Topology(Topology),
    /// Look at the write-ahead log of a node that isn't running; nothing is changed
    #[command(subcommand)]
    Wal(Wal),
    /// Look at TSDB blocks, as snapshots and Prometheus write them; nothing is changed
    #[command(subcommand)]
    Blocks(Blocks),
    /// Print the seccomp profile that a container of the node needs: containerd's default and io_uring
    SeccompProfile {
        /// Put it into this file instead
        #[arg(long, value_name = "FILE")]
        install: Option<PathBuf>,
        /// Then wait for a signal to end, as a DaemonSet's pod has to
        #[arg(long, requires = "install")]
        stay: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = "To use it at once in bash: source <(silverback completions bash)")]
    Completions {
        /// The shell that reads it
        shell: Shell,
    },
}

#[derive(Args)]
struct Topology {
    /// Print one JSON object
    #[arg(long, help_heading = "Topology")]
    json: bool,
    /// Another machine's: DIR holds its sys/ and proc/ as they are below /
    #[arg(long, help_heading = "Topology", value_name = "DIR")]
    tree: Option<PathBuf>,
    /// The affinity mask, such as 0-3,8 [default: this process'; with --tree all that are online]
    #[arg(long, help_heading = "Topology", value_name = "CPUS")]
    affinity: Option<String>,
}

#[derive(Subcommand)]
enum Wal {
    /// List the files of the write-ahead log and what is in them
    Inspect {
        /// A node's data directory. The node must not be running
        dir: PathBuf,
        /// List the records too
        #[arg(long)]
        records: bool,
    },
    /// Read all of the write-ahead log and report all damage: the file, where, and what is lost
    #[command(
        after_help = "Exit code: 0 if a node would lose nothing (a group at the end that may be a write that was cut short counts as none), 1 if it would."
    )]
    Verify {
        /// A node's data directory. The node must not be running
        dir: PathBuf,
    },
}

#[derive(Subcommand)]
enum Blocks {
    /// List blocks: their times, what is in them, their size
    List {
        /// A directory of TSDB blocks, such as a snapshot, or one block
        dir: PathBuf,
    },
    /// Read all series and samples of blocks and report all damage: the file, where, and what it is
    #[command(
        after_help = "Postings, which find series by their labels, aren't read. Exit code: 0 if nothing is damaged, 1 if something is."
    )]
    Verify {
        /// A directory of TSDB blocks, such as a snapshot, or one block
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    allocator::configure();
    let matches = command::<CliCommand>().get_matches();
    let Some((_, options)) = matches.subcommand() else { return configured(&[&matches], run) };
    let layers = [&matches, options];
    match CliCommand::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()) {
        CliCommand::Listed(ListedCommand::Run) => configured(&layers, run),
        CliCommand::Listed(ListedCommand::CheckConfig) => {
            configured(&layers, |effective| check_config(&effective))
        }
        CliCommand::Listed(ListedCommand::Topology(topology)) => {
            configured(&layers, |effective| show_topology(&effective, topology))
        }
        CliCommand::Listed(ListedCommand::Wal(wal)) => look_at(|out| match wal {
            Wal::Inspect { dir, records } => {
                let detail = if records { Detail::Records } else { Detail::Files };
                logs::inspect(&dir, detail, SystemTime::now(), out).map(|()| Soundness::Whole)
            }
            Wal::Verify { dir } => logs::verify(&dir, out),
        }),
        CliCommand::Listed(ListedCommand::Blocks(asked)) => look_at(|out| match asked {
            Blocks::List { dir } => blocks::list(&dir, out),
            Blocks::Verify { dir } => blocks::verify_all(&dir, out),
        }),
        CliCommand::Listed(ListedCommand::SeccompProfile { install, stay }) => {
            give_seccomp_profile(install, stay)
        }
        CliCommand::Listed(ListedCommand::Completions { shell }) => print_completions(shell),
        CliCommand::Man { dir } => {
            let written = clap_mangen::generate_to(command::<ListedCommand>(), &dir);
            ended(written.map_err(|error| format!("the manual in {}: {error}", dir.display())))
        }
    }
}

fn command<S: Subcommand>() -> Command {
    let takes_options = |command: &Command| matches!(command.get_name(), "run" | "check-config" | "topology");
    S::augment_subcommands(config::with_options(Command::new("silverback")))
        .mut_subcommands(|command| if takes_options(&command) { config::with_options(command) } else { command })
        .version(env!("CARGO_PKG_VERSION"))
        .about("A time-series ingestion node: Prometheus remote write in, on disk before it is acknowledged, remote read out; each pinned core owns its data")
        .after_help(EXAMPLES)
}

/// What a command's end comes to.
fn ended<E: fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn print_completions(shell: Shell) -> ExitCode {
    // Into memory first: the generator panics where it can't write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command::<ListedCommand>(), "silverback", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => unwritten(&error),
    }
}

fn give_seccomp_profile(install: Option<PathBuf>, stay: bool) -> ExitCode {
    let told = match install {
        None => io::stdout().write_all(seccomp_profile::PROFILE.as_bytes()),
        Some(file) => install_seccomp_profile(&file).and_then(|()| match stay {
            true => seccomp_profile::stay(),
            false => Ok(()),
        }),
    };
    match told {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        told => ended(told.map_err(|error| format!("the seccomp profile: {error}"))),
    }
}

fn install_seccomp_profile(file: &Path) -> io::Result<()> {
    seccomp_profile::install(file)?;
    writeln!(io::stdout(), "silverback: the seccomp profile is in {}", file.display())
}

/// Looks at files, and says by the exit code whether they are whole.
fn look_at<E: fmt::Display + From<io::Error>>(
    look: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> Result<Soundness, E>,
) -> ExitCode {
    let out = &mut BufWriter::new(io::stdout().lock());
    match look(out).and_then(|soundness| Ok(out.flush().map(|()| soundness)?)) {
        Ok(Soundness::Damaged) => ExitCode::FAILURE,
        looked => ended(looked.map(drop)),
    }
}

/// What a command comes to that runs with the configuration.
fn configured(matches: &[&ArgMatches], run: impl FnOnce(Effective) -> ExitCode) -> ExitCode {
    match config::load(matches.iter().copied(), std::env::vars_os()) {
        Ok(effective) => run(effective),
        Err(faults) => {
            complain(faults);
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

fn show_topology(effective: &Effective, topology: Topology) -> ExitCode {
    let machine = MachineSource { tree: topology.tree, affinity: topology.affinity };
    let form = if topology.json { Form::Json } else { Form::Picture };
    match topology_command::show(&machine, effective.config.shards, form, &mut io::stdout().lock()) {
        Err(TopologyCommandError::Output(error)) => unwritten(&error),
        shown => ended(shown),
    }
}

fn check_config(effective: &Effective) -> ExitCode {
    match show_config(effective, &mut io::stdout().lock()) {
        Ok(checked) => of_node(checked),
        Err(error) => unwritten(&error),
    }
}

/// What an answer that could not be written comes to. Whoever closed the pipe has read enough of it: that is no
/// failure, and nothing to complain of.
fn unwritten(error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _other => {
            complain(format_args!("writing the answer: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The configuration, and as a comment what of it depends on the machine, which may not be enough.
fn show_config(effective: &Effective, out: &mut impl Write) -> io::Result<Result<(), NodeError>> {
    write!(out, "{effective}")?;
    let cautions = match access::check(&effective.config) {
        Ok(cautions) => cautions,
        Err(fault) => return Ok(Err(fault.into())),
    };
    let of_bucket = match node::shipping::check(&effective.config) {
        Ok(cautions) => cautions,
        Err(fault) => return Ok(Err(fault.into())),
    };
    for caution in cautions.into_iter().chain(of_bucket) {
        writeln!(out, "# caution: {caution}")?;
    }
    let share = node::memory_share(&effective.config);
    if let Ok(share) = &share {
        writeln!(out, "# memory here: {share}")?;
    }
    out.flush()?;
    Ok(share.map(|_| ()))
}

fn run(Effective { config, .. }: Effective) -> ExitCode {
    if let failed @ Err(_) = silverback::logging::start(config.log_format, &config.log_level) {
        return ended(failed);
    }
    // Where the limit is wrong, the node says so.
    if let Ok(share) = node::memory_share(&config) {
        allocator::keep_freed(share.plan.limit_bytes);
    }
    of_node(node::run(config))
}

fn of_node(result: Result<(), NodeError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What an operator has to change before a start can succeed is kept apart from what failed.
fn exit_code(error: &NodeError) -> u8 {
    match error {
        NodeError::Preflight(_)
        | NodeError::MemoryLimit(_)
        | NodeError::QueryMemory(_)
        | NodeError::Access(_)
        | NodeError::Objstore(_) => EXIT_CONFIG,
        NodeError::Topology(_)
        | NodeError::Memory(_)
        | NodeError::Listen(..)
        | NodeError::Signals(_)
        | NodeError::Run(_)
        | NodeError::DataDir(_)
        | NodeError::Core(..) => 1,
    }
}

/// Says on standard error what went wrong.
fn complain(error: impl fmt::Display) {
    // Where nobody hears it, the exit code is all that is left: the macro would panic.
    // Paths and values of the command line are in it. Lines are its own.
    let text = error.to_string();
    let lines: Vec<String> = text.split('\n').map(|line| Printable(line).to_string()).collect();
    drop(writeln!(io::stderr(), "silverback: {}", lines.join("\n")));
}
