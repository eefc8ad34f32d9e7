//! `silverback-bench promql`: what PromQL costs beside its peers. Exit code 1: a bound is missed, or answers differ.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use silverback_benches::promql::ask::{asked, matrix};
use silverback_benches::promql::dataset::{Extent, INSTANCE_SERIES, INTERVAL_MS};
use silverback_benches::promql::expressions::{ALL, Expression, RATE, panels};
use silverback_benches::promql::load::{fill, rest};
use silverback_benches::promql::tables::Costs;
use silverback_benches::promql::together::{at_once, writes_beside};
use silverback_benches::promql::verdict::{Others, judge};
use silverback_benches::rebalance::verdict::{Bound, Kind as Care};
use silverback_benches::report::failure::RunError;
use silverback_benches::report::rounds::{Ground, Subject};
use silverback_benches::report::server::Server;
use silverback_benches::report::side::{Kind, Paths, Programs, Side};

use crate::Ended;

/// Queries that are always in flight beside writes.
const IN_FLIGHT: usize = 4;

/// Measure what PromQL costs beside its peers
///
/// Fills the node and each peer with the same six hours of samples, waits until they are at rest, and asks all of them
/// twenty expressions in turn, round after round, each over all of it, a step a minute. Answers are compared. Then ten
/// questions at once, and writes beside four questions that are always in flight.
///
/// Debian's prometheus and victoria-metrics are taken from the path, where they are installed. Loopback; all servers
/// have all CPUs, and one works at a time.
#[derive(Debug, Args)]
pub(crate) struct PromqlArgs {
    /// Instances, of 130 series each; 1,000 have 100,000 counters
    #[arg(long, default_value_t = 100)]
    instances: usize,
    /// Scrapes of each, 15 seconds apart
    #[arg(long, default_value_t = 1440)]
    scrapes: usize,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only expressions with this in their text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only these sides; the node is always one
    #[arg(long, value_name = "SIDE", value_delimiter = ',')]
    sides: Vec<Side>,
    /// Our node; the one beside this program where it isn't given
    #[arg(long, value_name = "PATH")]
    silverback: Option<PathBuf>,
    /// A current Prometheus, besides the one in the path
    #[arg(long, value_name = "PATH")]
    prometheus: Option<PathBuf>,
    /// A current VictoriaMetrics, besides the one in the path
    #[arg(long, value_name = "PATH")]
    victoria_metrics: Option<PathBuf>,
    /// Where servers keep their data: some GB
    #[arg(long, value_name = "DIRECTORY", default_value = "target")]
    disk: PathBuf,
    /// A short run: shows that it works and that answers agree, measures nothing
    #[arg(long)]
    small: bool,
}

/// A server with all data.
struct Filled {
    side: Side,
    server: Server,
}

/// Measures and judges.
pub(crate) fn run(arguments: &PromqlArgs) -> Ended {
    let bounds = measure(arguments)?;
    println!();
    bounds.iter().for_each(|bound| println!("- {bound}"));
    let care = if arguments.small { Care::Soundness } else { Care::Speed };
    let all_kept = bounds.iter().all(|bound| bound.is_kept(care));
    Ok(if all_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(arguments: &PromqlArgs) -> Result<Vec<Bound>, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let paths = Paths {
        node: arguments.silverback.clone(),
        former: None,
        victoria_metrics: arguments.victoria_metrics.clone(),
        prometheus: arguments.prometheus.clone(),
    };
    let programs = Programs::find(&paths, &own)?;
    let node = arguments.silverback.clone().unwrap_or_else(|| own.with_file_name("silverback"));
    let ground = Ground::prepare(&own, &node, &arguments.disk)?;
    let extent = extent(arguments);
    let rounds = if arguments.small { 1 } else { arguments.rounds.max(1) };
    println!(
        "{} series of {} samples; medians of {rounds} rounds; MB: the most resident memory beyond that right before.\n",
        extent.instances * INSTANCE_SERIES,
        extent.rounds
    );
    let mut all = Vec::new();
    for side in sides(arguments, &programs) {
        all.push(filled(&ground, &programs, side, &extent)?);
    }
    let (mut costs, mut bounds) = (Costs::default(), Vec::new());
    for round in 0..rounds {
        for expression in wanted(arguments) {
            eprintln!("round {} of {rounds}: {}", round + 1, expression.text);
            bounds.extend(ask_all(&all, &expression, &extent, &mut costs, round == 0)?);
        }
    }
    println!("{}", costs.table(&programs));
    let others = others(arguments, &ground, &programs, all, &extent, rounds)?;
    println!("\nTen panels at once: {:.1} ms. {}", others.panels_s * 1e3, writes_text(others.writes_s));
    bounds.extend(judge(&costs, &extent, &others));
    Ok(bounds)
}

fn writes_text((alone, beside): (f64, f64)) -> String {
    let (alone, beside) = (alone * 1e3, beside * 1e3);
    format!("p99 of writes: {alone:.2} ms alone, {beside:.2} ms beside {IN_FLIGHT} queries.")
}

/// Until now, so that nothing is in the future.
fn extent(arguments: &PromqlArgs) -> Extent {
    let (instances, rounds) =
        if arguments.small { (10, 120) } else { (arguments.instances, arguments.scrapes) };
    let now_s = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
    let end_ms = (now_s - now_s % 60) * 1000;
    Extent { instances, rounds, start_ms: end_ms - rounds as i64 * INTERVAL_MS }
}

fn sides(arguments: &PromqlArgs, programs: &Programs) -> Vec<Side> {
    let is_peer = |side: &Side| matches!(side.kind(), Kind::Prometheus | Kind::VictoriaMetrics);
    let is_wanted = |side: &Side| {
        programs.get(*side).is_some()
            && (*side == Side::Node
                || is_peer(side) && (arguments.sides.is_empty() || arguments.sides.contains(side)))
    };
    Side::ALL.into_iter().filter(is_wanted).collect()
}

fn wanted(arguments: &PromqlArgs) -> Vec<Expression> {
    let is_wanted = |expression: &Expression| {
        arguments.only.as_ref().is_none_or(|only| expression.text.contains(only.as_str()))
    };
    ALL.into_iter().filter(is_wanted).collect()
}

fn filled(
    ground: &Ground,
    programs: &Programs,
    side: Side,
    extent: &Extent,
) -> Result<Filled, Box<dyn Error>> {
    let program = programs.get(side).ok_or("a side that isn't here")?;
    // Their own limits are below what is asked here.
    let arguments: &[&str] = match side.kind() {
        Kind::Prometheus => &["--query.max-samples=1000000000", "--query.timeout=10m"],
        Kind::VictoriaMetrics => &["-search.maxQueryDuration=10m", "-search.maxSamplesPerQuery=10000000000"],
        Kind::Node | Kind::Contender => &[],
    };
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    eprintln!("filling {side}");
    let (server, _) = ground.start(&Subject { side, program }, &ground.cpus, &arguments, &[])?;
    fill(&server, extent)?;
    Ok(Filled { side, server })
}

/// Asks all servers one after the other, and compares what they say with what the node says.
fn ask_all(
    all: &[Filled],
    expression: &Expression,
    extent: &Extent,
    costs: &mut Costs,
    compares: bool,
) -> Result<Vec<Bound>, RunError> {
    let (mut own, mut bounds) = (None, Vec::new());
    for Filled { side, server } in all {
        let (cost, body) = asked(server, expression.text, extent)?;
        costs.add(expression.text, *side, cost);
        if !compares {
            continue;
        }
        let matrix = matrix(expression.text, &body)?;
        let Some(own) = &own else {
            let text = format!("`{}` gives {} values", expression.text, matrix.values());
            bounds.extend((matrix.values() == 0).then(|| Bound::new(Care::Soundness, false, text)));
            own = Some(matrix);
            continue;
        };
        let difference = match expression.has_same_values(*side) {
            true => own.difference(&matrix),
            false => (own.series() != matrix.series())
                .then(|| format!("{} series, not {}", matrix.series(), own.series())),
        };
        bounds.extend(difference.map(|difference| {
            let text = format!("`{}` is the same of {side}: {difference}", expression.text);
            Bound::new(Care::Soundness, false, text)
        }));
    }
    Ok(bounds)
}

/// What is measured of the node alone. Its peers end before.
fn others(
    arguments: &PromqlArgs,
    ground: &Ground,
    programs: &Programs,
    mut all: Vec<Filled>,
    extent: &Extent,
    rounds: usize,
) -> Result<Others, Box<dyn Error>> {
    all.truncate(1);
    let Some(Filled { server, side }) = all.pop() else { return Err("no node".into()) };
    let walls = |server: &Server| {
        let asked = (0..rounds).map(|_| asked(server, RATE.text, extent).map(|(cost, _)| cost.wall_s));
        asked.collect::<Result<Vec<_>, _>>().map(median)
    };
    let panels = panels(extent.instances);
    let at_once = (0..rounds).map(|_| at_once(&server, &panels, extent)).collect::<Result<Vec<_>, _>>()?;
    let lasts = Duration::from_secs(if arguments.small { 1 } else { 10 });
    let writes_s = writes_beside(&server, RATE.text, IN_FLIGHT, extent, lasts)?;
    let mut others = Others { panels_s: median(at_once), writes_s, shards_s: None };
    if ground.cpus.len() > 1 {
        server.stop()?;
        let program = programs.get(side).ok_or("no node")?;
        // Alike but for the shards: both have just started over the same directory.
        let wall = |shards: usize| -> Result<f64, Box<dyn Error>> {
            let arguments = [format!("--shards={shards}")];
            let (server, _) = ground.start(&Subject { side, program }, &ground.cpus, &arguments, &[])?;
            rest(&server)?;
            // The first question is not measured.
            asked(&server, RATE.text, extent)?;
            let wall = walls(&server)?;
            server.stop()?;
            Ok(wall)
        };
        let two = wall(2)?;
        others.shards_s = Some((wall(1)?, two));
    }
    Ok(others)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
