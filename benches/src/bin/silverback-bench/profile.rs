//! `silverback-bench profile`: where the CPU time goes, of the node and of who is beside it. Exit code 2: perf isn't
//! there or may not sample.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use silverback_benches::founding;
use silverback_benches::profile::cache_groups::CACHE;
use silverback_benches::profile::cases::{CASES, Case, Work};
use silverback_benches::profile::groups::Group;
use silverback_benches::profile::loads::{self as profiled, Column};
use silverback_benches::profile::perf::{self, FREQUENCY, NoPerf};
use silverback_benches::profile::server_groups::SERVER;
use silverback_benches::profile::{founding as comparisons, table};
use silverback_benches::report::loads::{self, Load, Size, Work as Sent};
use silverback_benches::report::rounds::{self, Ground, Subject};
use silverback_benches::report::side::{Paths, Programs, Side};
use silverback_benches::report::writes;
use silverback_load::usage::raise_file_limit;

use crate::Ended;

/// Symbols that are shown of each side.
const SYMBOLS_SHOWN: usize = 30;
/// What is said where perf can't be used.
const NO_PERF: u8 = 2;

/// Measure where the CPU time goes, as tables of groups of symbols
///
///   silverback-bench profile                             all cases, tables on standard output
///   silverback-bench profile --only steady-1 --symbols   one of them, with the symbols of each side
///   silverback-bench section profile --out docs/performance.md -- target/release/silverback-bench profile
///                                                        into the document
///
/// Each load is sent once as `report` sends it, with `perf record` over the server, without call graphs. Two of the
/// founding comparisons come after that. Takes perf, and leave to sample the kernel's code: exit code 2 where one isn't
/// there.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProfileArgs {
    /// Only these cases
    #[arg(long, value_name = "CASE", value_delimiter = ',', value_parser = known)]
    only: Vec<String>,
    /// Print the heaviest symbols of each side, too, with their groups
    #[arg(long)]
    symbols: bool,
    /// A hundredth of it all: shows that it works, measures nothing
    #[arg(long)]
    small: bool,
    /// Where servers keep their data: some GB
    #[arg(long, value_name = "DIRECTORY", default_value = "target")]
    disk: PathBuf,
    /// Our node; the one beside this program where it isn't given
    #[arg(long, value_name = "PATH")]
    silverback: Option<PathBuf>,
    /// Another build of this program, as the loader and the contender
    #[arg(long, value_name = "PATH")]
    bench: Option<PathBuf>,
}

fn known(name: &str) -> Result<String, String> {
    let names = CASES.map(|case| case.name);
    if names.contains(&name) { Ok(name.to_owned()) } else { Err(format!("one of {}", names.join(", "))) }
}

/// Measures and prints.
pub(crate) fn run(arguments: &ProfileArgs) -> Ended {
    raise_file_limit()?;
    let own = arguments.bench.clone().map_or_else(std::env::current_exe, Ok)?;
    let node = arguments.silverback.clone();
    let programs = Programs::find(&Paths { node: node.clone(), ..Paths::default() }, &own)?;
    let programs = programs.only(&[Side::Node, Side::NodeMemory, Side::Contender]);
    let node = node.unwrap_or_else(|| own.with_file_name("silverback"));
    let ground = Ground::prepare(&own, &node, &arguments.disk)
        .map_err(|error| format!("{}: {error}", arguments.disk.display()))?;
    match perf::check(&ground.scratch) {
        Ok(()) => {}
        Err(error @ (NoPerf::Missing(_) | NoPerf::Refused(_))) => {
            eprintln!("silverback-bench: {error}");
            return Ok(ExitCode::from(NO_PERF));
        }
        Err(NoPerf::Run(error)) => return Err(error.into()),
    }
    let measuring = Measuring { arguments, ground, programs };
    println!("{}\n", preamble());
    let is_wanted =
        |case: &&Case| arguments.only.is_empty() || arguments.only.iter().any(|name| name == case.name);
    CASES.iter().filter(is_wanted).try_for_each(|case| measuring.print(case))?;
    Ok(ExitCode::SUCCESS)
}

fn preamble() -> String {
    format!(
        "Each load is sent once, as the report sends it, with `perf record -F {FREQUENCY}` over the server, without \
         call graphs: from before the warm-up until the server has settled. A row is a group of symbols: the \
         server's CPU time for each acknowledged sample, as the report counts it, by the group's share of perf's \
         samples (in brackets). A function that was inlined counts for the one that it is in: what codes a sample \
         for the node's log, for its append. Where perf samples the CPU clock, time with interrupts off counts for \
         the function that allows them again: most often for a wake-up."
    )
}

/// What was sent, in words, and each side's column.
type Columns = (String, Vec<Column>);

/// Who and where, and how much of it.
struct Measuring<'a> {
    arguments: &'a ProfileArgs,
    ground: Ground,
    programs: Programs,
}

impl Measuring<'_> {
    fn print(&self, case: &Case) -> Result<(), Box<dyn Error>> {
        let small = self.arguments.small;
        let size = if small { founding::Size::Small } else { founding::Size::Full };
        eprintln!("{}", case.name);
        let (groups, what, columns): (&[Group], _, _) = match case.work {
            Work::Loads(columns) => match self.loads(columns)? {
                None => {
                    println!("**{}**: not measured, for there are too few CPUs.\n", case.name);
                    return Ok(());
                }
                Some((what, columns)) => (SERVER, what, columns),
            },
            Work::Connections => {
                let what =
                    "the server of the founding comparison at its most connections, CPU time of a request";
                (SERVER, what.to_owned(), comparisons::connections(&self.ground, size)?)
            }
            Work::Cache => {
                let what = "the founding comparison, CPU time of an operation; shares are of the whole process, \
                            which fills its cache first";
                (CACHE, what.to_owned(), comparisons::cache(&self.ground, size)?)
            }
        };
        println!("**{}**: {what}.\n\n{}", case.name, table::markdown(groups, &columns));
        if self.arguments.symbols {
            columns.iter().for_each(|column| println!("{}", table::symbols(groups, column, SYMBOLS_SHOWN)));
        }
        Ok(())
    }

    /// What is sent, and its columns; nothing where the machine has too few CPUs.
    fn loads(&self, of: &[(&str, Side)]) -> Result<Option<Columns>, Box<dyn Error>> {
        let size = if self.arguments.small { Size::Small } else { Size::Full };
        let (all, _) = rounds::possible(loads::all(size), self.ground.cpus.len());
        let mut loads: Vec<&Load> = Vec::new();
        for (name, _) in of {
            let Some(load) = all.iter().find(|load| load.name == *name) else { return Ok(None) };
            loads.push(load);
        }
        let mut columns = Vec::new();
        for (load, (_, side)) in loads.iter().zip(of) {
            let is_one = loads.iter().all(|other| other.name == load.name);
            let label = self.programs.label(*side);
            let head = if is_one { label } else { format!("{}, {label}", load.name) };
            columns.push(self.column(load, *side, head)?);
        }
        loads.dedup_by_key(|load| load.name);
        let what: Vec<_> = loads.iter().map(|load| load.what).collect();
        Ok(Some((what.join("; ") + ", CPU time of a sample", columns)))
    }

    fn column(&self, load: &Load, side: Side, head: String) -> Result<Column, Box<dyn Error>> {
        let (ground, failed) = (&self.ground, |why: &str| format!("{side}, {}: {why}", load.name));
        let Sent::Replay(replay) = &load.work else { return Err(failed("not a load of requests").into()) };
        let program = self.programs.get(side).ok_or_else(|| failed("not here"))?;
        eprintln!("  {side}, {}", load.name);
        // Anew for each: none is older at its run than another.
        let file = ground.scratch.join("requests");
        writes::prepare(&replay.options, &file)?;
        let column = profiled::profile(ground, &Subject { side, program }, replay, &file, head)
            .map_err(|error| failed(&error.to_string()));
        // What one leaves on the disk is in no other's way; all of it goes with the scratch directory anyway.
        let _ = fs::remove_dir_all(ground.directory(side));
        Ok(column?)
    }
}
