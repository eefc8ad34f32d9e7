//! The `silverback` command: arguments to a configuration, a configuration to a running node.

mod allocator;

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use silverback::access;
use silverback::config::{self, Effective, FaultList};
use silverback::node::blocks_command::{self as blocks, Blocks};
use silverback::node::topology_command::{self, Form, Machine, TopologyCommandError};
use silverback::node::wal_command::{self as logs, Detail, Soundness};
use silverback::node::{self, NodeError, seccomp_profile};
use silverback_model::printable::Printable;

/// Neither started nor tried to: the configuration, the arguments or the machine are wrong.
const EXIT_CONFIG: u8 = 2;

/// What the commands that look at a data directory take, and the one that writes the manual.
const DIR: &str = "dir";

/// What `topology` takes.
const JSON: &str = "json";
const TREE: &str = "tree";
const AFFINITY: &str = "affinity";
/// What `seccomp-profile` takes.
const INSTALL: &str = "install";
const STAY: &str = "stay";
/// What `completions` takes.
const SHELL: &str = "shell";

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

fn main() -> ExitCode {
    allocator::configure();
    let matches = command().subcommand(man_command()).get_matches();
    match matches.subcommand() {
        Some(("check-config", options)) => check_config(&[&matches, options]),
        Some(("run", options)) => run(&[&matches, options]),
        Some(("topology", options)) => show_topology(&[&matches, options]),
        Some(("wal", options)) => look_at_logs(options),
        Some(("blocks", options)) => look_at_blocks(options),
        Some(("seccomp-profile", options)) => seccomp_profile(options),
        Some(("completions", options)) => print_completions(options),
        Some(("man", options)) => write_manual(options),
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
        .subcommand(config::with_options(topology_command()))
        .subcommand(wal_command())
        .subcommand(blocks_command())
        .subcommand(seccomp_command())
        .subcommand(completions_command())
}

fn topology_command() -> Command {
    let arg = |name: &'static str| Arg::new(name).long(name).help_heading("Topology");
    Command::new("topology")
        .about("Print the NUMA nodes, cores and quota that a node finds here, and which shard would run on which CPU")
        .after_help("In the picture, `s3 3+19` is shard 3 on a core of CPUs 3 and 19, and `-- 4+20` a core without a shard.")
        .arg(arg(JSON).action(ArgAction::SetTrue).help("Print one JSON object"))
        .arg(
            arg(TREE)
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Another machine's: DIR holds its sys/ and proc/ as they lie below /"),
        )
        .arg(
            arg(AFFINITY)
                .value_name("CPUS")
                .help("The affinity mask, such as 0-3,8 [default: this process'; with --tree all that are online]"),
        )
}

fn wal_command() -> Command {
    let dir = || {
        Arg::new(DIR)
            .value_name("DIR")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("A node's data directory. The node must not be running")
    };
    let records = Arg::new("records").long("records").action(ArgAction::SetTrue);
    let inspect = Command::new("inspect")
        .about("List the files of the write-ahead log and what is in them")
        .arg(dir())
        .arg(records.help("List the records too"));
    let verify = Command::new("verify")
        .about("Read all of the write-ahead log and tell all damage: the file, where, and what is lost")
        .after_help("Exit code: 0 if a node would lose nothing (a group at the end that may be a write that was cut short counts as none), 1 if it would.")
        .arg(dir());
    Command::new("wal")
        .about("Look at the write-ahead log of a node that isn't running; nothing is changed")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(inspect)
        .subcommand(verify)
}

fn blocks_command() -> Command {
    let dir = || {
        Arg::new(DIR)
            .value_name("DIR")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("A directory of TSDB blocks, such as a snapshot, or one block")
    };
    let list = Command::new("list").about("List blocks: their times, what is in them, their size").arg(dir());
    let verify = Command::new("verify")
        .about("Read all series and samples of blocks and tell all damage: the file, where, and what it is")
        .after_help("Postings, which find series by their labels, aren't read. Exit code: 0 if nothing is damaged, 1 if something is.")
        .arg(dir());
    Command::new("blocks")
        .about("Look at TSDB blocks, as snapshots and Prometheus write them; nothing is changed")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list)
        .subcommand(verify)
}

fn seccomp_command() -> Command {
    let install = Arg::new(INSTALL).long(INSTALL).value_name("FILE").value_parser(value_parser!(PathBuf));
    let stay = Arg::new(STAY).long(STAY).action(ArgAction::SetTrue).requires(INSTALL);
    Command::new("seccomp-profile")
        .about(
            "Print the seccomp profile that a container of the node needs: containerd's default and io_uring",
        )
        .arg(install.help("Put it into this file instead"))
        .arg(stay.help("Then wait to be told to end, as a DaemonSet's pod has to"))
}

fn completions_command() -> Command {
    let shell = Arg::new(SHELL).value_name("SHELL").required(true).value_parser(value_parser!(Shell));
    Command::new("completions")
        .about("Print a completion script for a shell")
        .after_help("To use it at once in bash: source <(silverback completions bash)")
        .arg(shell.help("The shell that reads it"))
}

/// For who makes a package. Not among the commands that completions and the manual tell of.
fn man_command() -> Command {
    let dir = Arg::new(DIR).value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    Command::new("man")
        .about("Write the pages of the manual into a directory")
        .hide(true)
        .arg(dir.help("The directory"))
}

fn print_completions(options: &ArgMatches) -> ExitCode {
    let shell = *options.get_one::<Shell>(SHELL).expect("clap requires it");
    // Into memory first: the generator panics where it can't write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "silverback", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => unwritten(&error),
    }
}

fn write_manual(options: &ArgMatches) -> ExitCode {
    let dir = given_dir(options);
    match clap_mangen::generate_to(command(), dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("the manual in {}: {error}", dir.display()));
            ExitCode::FAILURE
        }
    }
}

fn seccomp_profile(options: &ArgMatches) -> ExitCode {
    let told = match options.get_one::<PathBuf>(INSTALL) {
        None => io::stdout().write_all(seccomp_profile::PROFILE.as_bytes()),
        Some(file) => install_seccomp_profile(file).and_then(|()| match options.get_flag(STAY) {
            true => seccomp_profile::stay(),
            false => Ok(()),
        }),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("the seccomp profile: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn install_seccomp_profile(file: &Path) -> io::Result<()> {
    seccomp_profile::install(file)?;
    writeln!(io::stdout(), "silverback: the seccomp profile is in {}", file.display())
}

fn look_at_logs(matches: &ArgMatches) -> ExitCode {
    let out = &mut BufWriter::new(io::stdout().lock());
    let looked = match matches.subcommand() {
        Some(("inspect", options)) => {
            let detail = if options.get_flag("records") { Detail::Records } else { Detail::Files };
            logs::inspect(given_dir(options), detail, SystemTime::now(), out).map(|()| Soundness::Whole)
        }
        Some(("verify", options)) => logs::verify(given_dir(options), out),
        _ => unreachable!("clap requires one of the two"),
    };
    let soundness = looked.and_then(|soundness| Ok(out.flush().map(|()| soundness)?));
    match soundness {
        Ok(Soundness::Whole) => ExitCode::SUCCESS,
        Ok(Soundness::Damaged) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn look_at_blocks(matches: &ArgMatches) -> ExitCode {
    let out = &mut BufWriter::new(io::stdout().lock());
    let looked = match matches.subcommand() {
        Some(("list", options)) => blocks::list(given_dir(options), out),
        Some(("verify", options)) => blocks::verify_all(given_dir(options), out),
        _ => unreachable!("clap requires one of the two"),
    };
    match looked.and_then(|blocks| Ok(out.flush().map(|()| blocks)?)) {
        Ok(Blocks::Whole) => ExitCode::SUCCESS,
        Ok(Blocks::Damaged) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn given_dir(options: &ArgMatches) -> &Path {
    options.get_one::<PathBuf>(DIR).expect("clap requires it")
}

fn load(matches: &[&ArgMatches]) -> Result<Effective, FaultList> {
    config::load(matches.iter().copied(), std::env::vars_os())
}

fn show_topology(matches: &[&ArgMatches]) -> ExitCode {
    let effective = match load(matches) {
        Ok(effective) => effective,
        Err(faults) => return refuse(&faults),
    };
    let options = matches[matches.len() - 1];
    let machine = Machine {
        tree: options.get_one::<PathBuf>(TREE).cloned(),
        affinity: options.get_one::<String>(AFFINITY).cloned(),
    };
    let form = if options.get_flag(JSON) { Form::Json } else { Form::Picture };
    match topology_command::show(&machine, effective.config.shards, form, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(TopologyCommandError::Output(error)) => unwritten(&error),
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn check_config(matches: &[&ArgMatches]) -> ExitCode {
    let effective = match load(matches) {
        Ok(effective) => effective,
        Err(faults) => return refuse(&faults),
    };
    match show_config(&effective, &mut io::stdout().lock()) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            complain(&error);
            ExitCode::from(exit_code(&error))
        }
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

fn run(matches: &[&ArgMatches]) -> ExitCode {
    let effective = match load(matches) {
        Ok(effective) => effective,
        Err(faults) => return refuse(&faults),
    };
    let config = effective.config;
    if let Err(error) = silverback::logging::start(config.log_format, &config.log_level) {
        complain(&error);
        return ExitCode::FAILURE;
    }
    match node::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What an operator has to change before a start can succeed is told apart from what failed.
fn exit_code(error: &NodeError) -> u8 {
    match error {
        NodeError::Preflight(_)
        | NodeError::LimitTooSmall(_)
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

fn refuse(faults: &FaultList) -> ExitCode {
    complain(faults);
    ExitCode::from(EXIT_CONFIG)
}

/// Says on standard error what went wrong.
fn complain(error: impl fmt::Display) {
    // Where nobody hears it, the exit code is all that is left: the macro would panic.
    // Paths and values of the command line stand in it. Lines are its own.
    let text = error.to_string();
    let lines: Vec<String> = text.split('\n').map(|line| Printable(line).to_string()).collect();
    drop(writeln!(io::stderr(), "silverback: {}", lines.join("\n")));
}
