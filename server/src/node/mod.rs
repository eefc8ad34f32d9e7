//! One node: its configuration to its shards, acceptors and clocks.
mod assemble;
mod host;
mod self_scrape;
mod upkeep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Config, ShardCount};
use crate::limits::{LANE_CAPACITY, SHARDS_MAX};
use crate::message::{LaneMessage, PartPool};
use crate::runtime::cpus::{self, CoreCpu};
use crate::runtime::preflight::{self, Fault};
use crate::runtime::{self, BoundAddress, Executor, Options, RunError, Shutdown, signals};

/// Why a node couldn't start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The machine or the container doesn't let it run. Each fault tells what to do.
    #[error("this node can't run here:\n{}", told(.0))]
    Preflight(Vec<Fault>),
    /// The CPUs that the process may use can't be told.
    #[error("reading the allowed CPUs: {0}")]
    Cpus(String),
    /// More shards than there may be.
    #[error("{0} shards are more than the {SHARDS_MAX} that a node may have: give a smaller --shards")]
    TooManyShards(usize),
    /// An address can't be listened on.
    #[error("listening on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The signal handler can't be set up.
    #[error("setting up signals: {0}")]
    Signals(io::Error),
    /// The executors did not start or one of them failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A core ended with an error.
    #[error("core {0}: {1}")]
    Core(usize, io::Error),
}

fn told(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("  - {fault}\n")).collect()
}

/// Runs a node until it is told to stop.
pub fn run(config: Config) -> Result<(), NodeError> {
    let shutdown = Shutdown::new();
    signals::request_on_signal(shutdown.clone()).map_err(NodeError::Signals)?;
    run_until(config, &shutdown)
}

/// Runs a node until the notice to end is given.
pub fn run_until(config: Config, shutdown: &Shutdown) -> Result<(), NodeError> {
    let cpus = plan_cpus(&config)?;
    let listeners = config.listen.iter().map(|address| {
        BoundAddress::bind(*address).map_err(|error| NodeError::Listen(*address, error))
    });
    let listeners: Vec<BoundAddress> = listeners.collect::<Result<_, _>>()?;
    let shared = Arc::new(assemble::Shared::new(config, cpus.clone(), listeners, &Clock::System));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        shards = cpus.len(),
        ?cpus,
        listen = ?shared.facts.listen,
        data_dir = %shared.config.data_dir.display(),
        "silverback is starting"
    );
    // Each lane has room for the requests and for the replies that its core may have under way.
    let options = Options { lane_capacity: 2 * LANE_CAPACITY, ..Options::on_cpus(cpus) };
    let start = move |executor: Executor<LaneMessage>| assemble::run_core(Arc::clone(&shared), executor);
    for (core, ended) in runtime::run(&options, shutdown, start)?.into_iter().enumerate() {
        ended.map_err(|error| NodeError::Core(core, error))?;
    }
    tracing::info!("silverback has stopped");
    Ok(())
}
