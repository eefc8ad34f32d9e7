//! `silverback-bench rebalance`: what moving cells is worth, and what it costs. Exit code 1: a bound is missed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use silverback_benches::rebalance::big_cell::{self, BigCellOptions};
use silverback_benches::rebalance::node::Node;
use silverback_benches::rebalance::stages::{self, StageOptions};
use silverback_benches::rebalance::verdict::{Bound, Kind};

use crate::Ended;

/// Measure what moving cells is worth, and what it costs
///
/// Runs a node of two shards under a load of which four fifths lie on one of them, by Zipf's law: with
/// cells at rest, as by --rebalance=off, and with cells that move, beside an even load in the same run. Then
/// moves a cell of 10,000 series back and forth under load.
///
/// Node and senders are one process and share the machine's CPUs.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    /// Seconds of each stage
    #[arg(long, default_value_t = 20)]
    seconds: usize,
    /// Connections: enough for both cores to accept about as many
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Where the node keeps its data
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// A short run: shows that no request fails while cells move, measures nothing
    #[arg(long)]
    small: bool,
}

/// Measures and judges.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(arguments: &RebalanceArgs) -> Ended {
    let data_dir = arguments.disk.join(format!("rebalance-{}", std::process::id()));
    std::fs::create_dir_all(&data_dir)?;
    let judged = measure(arguments, &data_dir).await;
    std::fs::remove_dir_all(&data_dir)?;
    let bounds = judged?;
    println!();
    bounds.iter().for_each(|bound| println!("- {bound}"));
    let care = if arguments.small { Kind::Soundness } else { Kind::Speed };
    let all_kept = bounds.iter().all(|bound| bound.is_kept(care));
    Ok(if all_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(arguments: &RebalanceArgs, data_dir: &Path) -> Result<Vec<Bound>, Box<dyn Error>> {
    let seconds = if arguments.small { 3 } else { arguments.seconds };
    let connections = if arguments.small { 4 } else { arguments.connections };
    let stages = {
        let node = Node::start(&data_dir.join("stages"))?;
        stages::run(&node, &StageOptions { seconds, connections, series: 8, batch: 2000, of_series: 4 })
            .await?
    };
    let mut bounds = stages.judge();
    let options = BigCellOptions {
        series: if arguments.small { 500 } else { 10_000 },
        connections,
        batch: 500,
        pause: Duration::from_millis(if arguments.small { 20 } else { 10 }),
        moves: if arguments.small { 2 } else { 10 },
    };
    let big_cell = {
        let node = Node::start(&data_dir.join("big-cell"))?;
        big_cell::run(&node, &options).await?
    };
    bounds.extend(big_cell.judge());
    Ok(bounds)
}
