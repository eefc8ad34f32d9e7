//! `silverback-bench founding`: what a core that owns its data is worth beside threads that share, and what
//! it costs. Exit code 1: a bound is missed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use silverback_benches::founding::document::{self, Section};
use silverback_benches::founding::measure::measure;
use silverback_benches::founding::results::{Comparison, Results};
use silverback_benches::founding::{self, Job, OURS, Size, plot};
use silverback_benches::rebalance::verdict::Kind;
use silverback_benches::report::commit::{Code, Figures};
use silverback_load::usage::raise_file_limit;
use silverback_runtime::cpus::affinity_mask;

use crate::Ended;

/// Measure a core that owns its data beside threads that share it
///
///   silverback-bench founding                   all of them, tables on standard output
///   silverback-bench founding cache --cores 16  one of them, on more cores
///   silverback-bench founding --docs docs       and write tables and plots into the documents
///
/// Each row is measured in a process of its own, in turn, round after round. Where perf is installed and
/// allowed, system calls and cache misses are counted, too.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FoundingArgs {
    /// Which of them; all where none is named
    #[arg(value_name = "COMPARISON", value_parser = known)]
    comparisons: Vec<String>,
    /// Rounds of each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Cores to compare on; as many as the process may use where it isn't given
    #[arg(long)]
    cores: Option<usize>,
    /// A short run: shows that every side does the work, measures nothing
    #[arg(long)]
    small: bool,
    /// The documents' directory, to write tables and plots into
    #[arg(long, conflicts_with = "small")]
    docs: Option<PathBuf>,
    /// Measure one row here, JSON: how each gets a process of its own
    #[arg(long, hide = true, value_parser = job)]
    side: Option<Job>,
}

fn known(name: &str) -> Result<String, String> {
    let names: Vec<_> = founding::all(Size::Small, 1).iter().map(|comparison| comparison.name).collect();
    match names.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("one of {}", names.join(", "))),
    }
}

fn job(json: &str) -> serde_json::Result<Job> {
    serde_json::from_str(json)
}

/// Measures and judges.
pub(crate) fn run(arguments: &FoundingArgs) -> Ended {
    raise_file_limit()?;
    if let Some(job) = &arguments.side {
        println!("{}", serde_json::to_string(&job.run()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (size, rounds) = if arguments.small { (Size::Small, 1) } else { (Size::Full, arguments.rounds) };
    let cores = arguments.cores.map_or_else(|| affinity_mask().map(|cpus| cpus.len()), Ok)?;
    let is_wanted = |comparison: &Comparison| {
        arguments.comparisons.is_empty() || arguments.comparisons.iter().any(|name| name == comparison.name)
    };
    let comparisons: Vec<_> = founding::all(size, cores).into_iter().filter(is_wanted).collect();
    let code = match &arguments.docs {
        None => None,
        Some(docs) => {
            document::check(docs, comparisons.iter().map(|comparison| comparison.name))?;
            Some(Code::committed(Path::new("."), Figures::Founding)?)
        }
    };
    let (mut sections, mut all_kept) = (Vec::new(), true);
    for comparison in comparisons {
        let results = measure(&comparison, rounds)?;
        let bounds = (comparison.judge)(&results);
        let mut section = section(&comparison, &results, cores, rounds);
        section.table.push('\n');
        section.table.extend(bounds.iter().map(|bound| format!("- {bound}\n")));
        println!("## {}\n\n{}\n\n{}", comparison.title, section.preamble, section.table);
        let care = if arguments.small { Kind::Soundness } else { Kind::Speed };
        all_kept &= bounds.iter().all(|bound| bound.is_kept(care));
        sections.push(section);
    }
    if let (Some(docs), Some(code)) = (&arguments.docs, code) {
        // Once more: someone may have worked on the code meanwhile.
        code.check_same(&Code::look(Path::new("."), Figures::Founding)?)?;
        document::write(docs, &sections, &code)?;
    }
    Ok(if all_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn section(comparison: &Comparison, results: &Results, cores: usize, rounds: usize) -> Section {
    let command = format!("silverback-bench founding {} --cores {cores} --rounds {rounds}", comparison.name);
    let is_own = |side: &str| side.starts_with(OURS);
    let plotted = &comparison.columns[comparison.plotted];
    Section {
        name: comparison.name,
        preamble: document::preamble(&command, rounds),
        table: results.markdown(&comparison.columns),
        svg: plot::svg(comparison.title, plotted, results, is_own),
    }
}
