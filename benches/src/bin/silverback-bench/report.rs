//! `silverback-bench report`: every load beside the peers, written into the documents; or a short form beside what was
//! kept. Exit code 1: a run failed, a ratio fell, or a document says of old figures that they are new.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use silverback_benches::founding::document::preamble;
use silverback_benches::report::commit::{Code, Figures};
use silverback_benches::report::document::{self, DocumentError};
use silverback_benches::report::kept::{self, Judged, KEPT_RUNS, Kept, KeptRatio};
use silverback_benches::report::loads::{self, Load, SHORT, Size};
use silverback_benches::report::rounds::{self, Ground, Rounds};
use silverback_benches::report::section::{Context, LAYOUTS, Written, summary};
use silverback_benches::report::side::{Paths, Programs, Side};
use silverback_load::machine::Machine;
use silverback_load::usage::raise_file_limit;

use crate::Ended;

/// The documents that have generated sections.
const DOCUMENTS: [&str; 3] = ["docs/performance.md", "README.md", "docs/why-thread-per-core.md"];
/// Fewer rounds aren't written into a document.
const WRITTEN_ROUNDS_MIN: usize = 3;

/// Measure every load beside the node's peers, and write the document
///
///   silverback-bench report                            all loads, three rounds; the sections are printed
///   silverback-bench report --out docs/performance.md  and written into the document, with plots beside it
///   silverback-bench report --only paced,restart       some loads, or sections of loads
///   silverback-bench report --only former --former PATH
///                                                      some loads beside another build, made in a checkout of its
///                                                      commit
///   silverback-bench report --short                    five short rounds beside the contender: fails where a
///                                                      ratio falls below the least that was kept, by a tenth or
///                                                      by what is written down for its load
///   silverback-bench report --short --keep             three such runs, of which the least ratios are kept,
///                                                      beside those of other kinds of machines
///   silverback-bench report --check                    fails where figures are older than the code and aren't
///                                                      marked so; --mark marks them
///
/// Debian's prometheus and victoria-metrics are taken from the path, where they are installed. Servers listen on
/// loopback and run on the first CPU, the loader on the second; each begins on an empty directory and ends with its
/// run. Samples that weren't stored are a failure, not a figure.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReportArgs {
    /// What is done
    #[command(flatten)]
    form: Form,
    /// Rounds of every load; 3, or 5 of the short form
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Only these loads, or all loads of these sections
    #[arg(long, value_name = "LOAD", value_delimiter = ',', value_parser = known)]
    only: Vec<String>,
    /// Only these sides
    #[arg(long, value_name = "SIDE", value_delimiter = ',')]
    sides: Vec<Side>,
    /// Our node; the one beside this program where it isn't given
    #[arg(long, value_name = "PATH")]
    silverback: Option<PathBuf>,
    /// Another build of our node, for the loads of the section `former`
    #[arg(long, value_name = "PATH")]
    former: Option<PathBuf>,
    /// A current Prometheus, besides the one in the path
    #[arg(long, value_name = "PATH")]
    prometheus: Option<PathBuf>,
    /// A current VictoriaMetrics, besides the one in the path
    #[arg(long, value_name = "PATH")]
    victoria_metrics: Option<PathBuf>,
    /// Document that sections are written into; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["short", "small"])]
    out: Vec<PathBuf>,
    /// Where servers keep their data: some GB
    #[arg(long, value_name = "DIRECTORY", default_value = "target")]
    disk: PathBuf,
    /// Minutes: no further round is begun that would end later, but for those that a document needs
    #[arg(long, default_value_t = 40.0)]
    minutes: f64,
    /// The ratios that were kept
    #[arg(long, value_name = "FILE", default_value = "benches/ratios.json")]
    ratios: PathBuf,
    /// Run the short form three times and keep each load's least ratio on this kind of machine
    #[arg(long, requires = "short")]
    keep: bool,
}

/// What is done instead of the whole report.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Form {
    /// Some short loads beside the contender alone, compared with the ratios that were kept
    #[arg(long)]
    short: bool,
    /// A hundredth of it all: shows that it works, measures nothing
    #[arg(long)]
    small: bool,
    /// Measure nothing: fail where figures are older than the code and the document doesn't say so
    #[arg(long)]
    check: bool,
    /// Measure nothing: mark figures that are older than the code
    #[arg(long)]
    mark: bool,
}

fn known(name: &str) -> Result<String, String> {
    let loads = loads::all(Size::Small);
    let is_known = loads.iter().any(|load| load.name == name || load.section == name);
    let names: Vec<_> = loads.iter().map(|load| load.name).collect();
    if is_known { Ok(name.to_owned()) } else { Err(format!("one of {}", names.join(", "))) }
}

/// Does what it is asked for.
pub(crate) fn run(arguments: &ReportArgs) -> Ended {
    let Form { short, check, mark, .. } = arguments.form;
    match (short, check, mark) {
        (true, ..) => short_form(arguments),
        (_, true, _) => check_documents(documents(arguments)),
        (.., true) => mark_documents(documents(arguments)),
        _measured => whole(arguments),
    }
}

fn documents(arguments: &ReportArgs) -> Vec<PathBuf> {
    if arguments.out.is_empty() { DOCUMENTS.map(PathBuf::from).to_vec() } else { arguments.out.clone() }
}

/// A document, as it is and with its figures marked as they should be.
struct Marked {
    path: PathBuf,
    text: String,
    marked: String,
}

fn marked(documents: Vec<PathBuf>) -> Result<Vec<Marked>, Box<dyn Error>> {
    let one = |path: PathBuf| {
        let text = read(&path)?;
        let failed = |error: DocumentError| format!("{}: {error}", path.display());
        let look =
            |name: String| Code::look(Path::new("."), Figures::of(&path, &name)).map(|code| (name, code));
        let code = document::names(&text).map_err(failed)?.into_iter().map(look).collect::<Result<_, _>>()?;
        let marked = document::marked(&text, &code).map_err(failed)?;
        Ok(Marked { path, text, marked })
    };
    documents.into_iter().map(one).collect()
}

fn check_documents(documents: Vec<PathBuf>) -> Ended {
    let mut ended = ExitCode::SUCCESS;
    for Marked { path, text, marked } in marked(documents)? {
        if text != marked {
            eprintln!(
                "{}: figures are older than the code or wrongly marked so: report --mark",
                path.display()
            );
            ended = ExitCode::FAILURE;
        }
    }
    Ok(ended)
}

fn mark_documents(documents: Vec<PathBuf>) -> Ended {
    for Marked { path, text, marked } in marked(documents)? {
        if text != marked {
            fs::write(&path, marked).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("{}: marked", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    Ok(fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Who and where.
struct Prepared {
    ground: Ground,
    programs: Programs,
}

fn prepare(arguments: &ReportArgs, sides: &[Side]) -> Result<Prepared, Box<dyn Error>> {
    raise_file_limit()?;
    let own = std::env::current_exe()?;
    let paths = Paths {
        node: arguments.silverback.clone(),
        former: arguments.former.clone(),
        victoria_metrics: arguments.victoria_metrics.clone(),
        prometheus: arguments.prometheus.clone(),
    };
    let programs = Programs::find(&paths, &own)?.only(sides);
    let node = arguments.silverback.clone().unwrap_or_else(|| own.with_file_name("silverback"));
    let ground = Ground::prepare(&own, &node, &arguments.disk)
        .map_err(|error| format!("{}: {error}", arguments.disk.display()))?;
    Ok(Prepared { ground, programs })
}

fn wanted(arguments: &ReportArgs, size: Size) -> Vec<Load> {
    let is_named = |load: &Load| arguments.only.iter().any(|name| name == load.name || name == load.section);
    // Without the other build there is nothing to tell of its section.
    let is_possible = |load: &Load| load.section != "former" || arguments.former.is_some();
    let is_wanted = |load: &Load| is_possible(load) && (arguments.only.is_empty() || is_named(load));
    loads::all(size).into_iter().filter(is_wanted).collect()
}

fn sides(arguments: &ReportArgs, all: &[Side]) -> Vec<Side> {
    let is_wanted = |side: &&Side| arguments.sides.is_empty() || arguments.sides.contains(side);
    all.iter().filter(is_wanted).copied().collect()
}

fn whole(arguments: &ReportArgs) -> Ended {
    if wanted(arguments, Size::Small).is_empty() {
        return Err("nothing to measure: loads beside a former build take --former PATH".into());
    }
    let small = arguments.form.small;
    let count = arguments.rounds.map_or(if small { 1 } else { WRITTEN_ROUNDS_MIN }, usize::from);
    let code = if arguments.out.is_empty() { None } else { Some(check_written(arguments, count)?) };
    let size = if small { Size::Small } else { Size::Full };
    let Prepared { ground, programs } = prepare(arguments, &sides(arguments, &Side::ALL))?;
    let (loads, impossible) = rounds::possible(wanted(arguments, size), ground.cpus.len());
    let limit = Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0);
    // With fewer nothing could be written down of all that was measured.
    let least = if arguments.out.is_empty() { 1 } else { WRITTEN_ROUNDS_MIN };
    let all = rounds::run(&ground, &programs, &loads, Rounds { count, first: 0, least, limit });
    let context = Context {
        preamble: preamble("benches/report", all.rounds()),
        programs: &programs,
        loads: &loads,
        impossible: &impossible,
    };
    let parts = LAYOUTS.iter().filter_map(|layout| layout.write(&context, &all));
    let sections: Vec<Written> = summary(&context, &all).into_iter().chain(parts).collect();
    sections.iter().for_each(|written| println!("## {}\n\n{}\n", written.section.name, written.section.body));
    if let Some(code) = code {
        write(arguments, &sections, all.rounds(), &code)?;
    }
    Ok(if all.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What would make the documents say what isn't so, before anything is measured.
fn check_written(arguments: &ReportArgs, rounds: usize) -> Result<Code, Box<dyn Error>> {
    if rounds < WRITTEN_ROUNDS_MIN {
        return Err(
            format!("{rounds} rounds are too few to be written down: at least {WRITTEN_ROUNDS_MIN}").into()
        );
    }
    if !arguments.sides.is_empty() {
        return Err("a document takes every side that is here: leave out --sides or --out".into());
    }
    let code = Code::committed(Path::new("."), Figures::Report)?;
    let mut places = Vec::new();
    for path in &arguments.out {
        places.extend(document::names(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    for load in wanted(arguments, Size::Full) {
        if !places.iter().any(|place| place == load.section) {
            return Err(Box::new(DocumentError::NoPlace(load.section.to_owned())));
        }
    }
    Ok(code)
}

/// Sections of which every load was run, into the documents, as figures of `code`; their plots beside those.
fn write(
    arguments: &ReportArgs,
    sections: &[Written],
    rounds: usize,
    code: &Code,
) -> Result<(), Box<dyn Error>> {
    // Once more: someone may have worked on the code meanwhile.
    code.check_same(&check_written(arguments, rounds)?)?;
    let asked: Vec<&str> = wanted(arguments, Size::Full).iter().map(|load| load.name).collect();
    let is_whole = |written: &&Written| {
        let loads = loads::all(Size::Full);
        loads.iter().filter(|load| load.section == written.of).all(|load| asked.contains(&load.name))
    };
    let (whole, parts): (Vec<&Written>, Vec<&Written>) = sections.iter().partition(is_whole);
    for part in parts {
        eprintln!("{}: not all of its loads were run, so it isn't written", part.section.name);
    }
    let texts: Vec<_> = whole.iter().map(|written| written.section.clone()).collect();
    for path in &arguments.out {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let before = read(path)?;
        let places = document::names(&before).map_err(|error| failed(&error))?;
        let text = document::spliced(&before, &texts, code).map_err(|error| failed(&error))?;
        let plots = path.with_file_name("plots");
        for written in whole.iter().filter(|written| places.contains(&written.section.name)) {
            let Some(svg) = &written.svg else { continue };
            fs::create_dir_all(&plots).map_err(|error| failed(&error))?;
            fs::write(plots.join(format!("report-{}.svg", written.section.name)), svg)
                .map_err(|error| failed(&error))?;
        }
        fs::write(path, text).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn short_form(arguments: &ReportArgs) -> Ended {
    let code = if arguments.keep { Some(Code::look(Path::new("."), Figures::Report)?) } else { None };
    let count = arguments.rounds.map_or(5, usize::from);
    let Prepared { ground, programs } =
        prepare(arguments, &sides(arguments, &[Side::Node, Side::Contender]))?;
    let mut loads = wanted(arguments, Size::Short);
    loads.retain(|load| SHORT.contains(&load.name));
    let (kept, machine) = (kept::read(&arguments.ratios)?, Machine::look().cpu);
    let limit = Duration::from_secs_f64(arguments.minutes.max(0.0) * 60.0);
    let measure = |loads: &[Load], first| {
        let all = rounds::run(&ground, &programs, loads, Rounds { count, first, least: 1, limit });
        loads.iter().map(|load| Judged::of(load.name, &all, &kept, &machine)).collect::<Vec<_>>()
    };
    if let Some(code) = code {
        let runs: Vec<Vec<Judged>> = (0..KEPT_RUNS).map(|run| told(measure(&loads, run * count))).collect();
        return keep(&arguments.ratios, &code, kept, &loads, &runs);
    }
    let judged = told(measure(&loads, 0));
    let has_fallen = |load: &Load, judged: &[Judged]| {
        judged.iter().any(|judged| judged.load == load.name && judged.has_fallen())
    };
    loads.retain(|load| has_fallen(load, &judged));
    if !loads.is_empty() {
        // What else runs here may have met one side more than the other: what is so again isn't chance.
        println!("once more:");
        let again = told(measure(&loads, count));
        loads.retain(|load| has_fallen(load, &again));
    }
    Ok(if loads.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The ratios of a run, printed.
fn told(judged: Vec<Judged>) -> Vec<Judged> {
    judged.iter().for_each(|judged| println!("- {judged}"));
    println!();
    judged
}

/// Writes the least ratios of `code` beside what else is written down. Fails, after that, where a load has none.
fn keep(ratios: &Path, code: &Code, mut kept: Kept, loads: &[Load], runs: &[Vec<Judged>]) -> Ended {
    code.check_same(&Code::look(Path::new("."), Figures::Report)?)?;
    let (mut ended, machine) = (ExitCode::SUCCESS, Machine::look().cpu);
    for load in loads {
        match KeptRatio::of(load.name, runs, &machine, &code.to_string()) {
            Some(ratio) => kept.entry(load.name.to_owned()).or_default().keep(ratio),
            None => {
                eprintln!("{}: could not be measured, so nothing new is kept of it", load.name);
                ended = ExitCode::FAILURE;
            }
        }
    }
    kept::write(ratios, &kept)?;
    Ok(ended)
}
