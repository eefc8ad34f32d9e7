//! One node: its configuration to its shards, acceptors and clocks.
mod assemble;
mod blocks;
pub mod blocks_command;
pub mod data_dir;
mod entrance;
mod host;
pub mod identity;
mod memory;
mod presence;
mod rebalance;
mod recovery;
mod retention;
mod room;
pub mod seccomp_profile;
mod self_scrape;
pub mod shipping;
mod table;
pub mod topology_command;
mod trusted_clock;
mod upkeep;
pub mod wal_command;
mod watchdog;
mod welcome;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::access::{Access, AccessError, Sources};
use crate::api::admission::Door;
use crate::config::{Config, ShipOnShutdown};
use crate::node::data_dir::{DataDir, DataDirError};
use crate::placement::topology::FileFormatError;
use crate::placement::{self, PlacementPlan, Topology, TopologyError};
use crate::routing::LaneMessage;
use silverback_model::clock::Clock;
use silverback_model::limits::{LANE_CAPACITY, MemoryLimitError, QueryMemoryError};
use silverback_runtime as runtime;
use silverback_runtime::preflight::{PreflightError, preflight};
use silverback_runtime::signals::Hangups;
use silverback_runtime::{BoundAddress, Executor, Options, RunError, Shutdown, signals};

pub use assemble::CoreError;
pub use memory::MemoryShare;
pub use recovery::RecoveryError;

/// What the rest of a stop may take beyond its time limits.
const END_MARGIN: Duration = Duration::from_secs(5);

/// Why a node couldn't start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The machine or the container doesn't let it run. Each fault says what to do.
    #[error("this node can't run here:\n{}", told(.0))]
    Preflight(Vec<PreflightError>),
    /// The CPUs that the process may use are not known.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The memory that the process may use is not known.
    #[error(transparent)]
    Memory(#[from] FileFormatError),
    /// The memory limit leaves too little.
    #[error(transparent)]
    MemoryLimit(#[from] MemoryLimitError),
    /// Queries are to have more memory than the limit has for them.
    #[error(transparent)]
    QueryMemory(#[from] QueryMemoryError),
    /// An address can't be listened on.
    #[error("listening on {}: {}{}", .0, .1, advice(.1))]
    Listen(SocketAddr, io::Error),
    /// The signal handler can't be set up.
    #[error("setting up signals: {0}")]
    Signals(io::Error),
    /// The executors did not start or one of them failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The data directory can't be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A file that says who may do what isn't valid.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The file that says where blocks are shipped to isn't valid.
    #[error(transparent)]
    Objstore(#[from] shipping::ShippingError),
    /// A core ended with an error.
    #[error("shard {0}: {1}")]
    Core(usize, CoreError),
}

/// What to do about an address that can't be had.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another process listens there (`ss -ltnp` shows which): end it, or name another address with --listen"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: --listen takes one of its own, or :9009 for all of them"
        }
        io::ErrorKind::PermissionDenied => "; a port below 1024 takes CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

fn told(faults: &[PreflightError]) -> String {
    faults.iter().map(|fault| format!("  - {fault}\n")).collect()
}

/// How a node with this configuration would share out its memory here.
pub fn memory_share(config: &Config) -> Result<MemoryShare, NodeError> {
    MemoryShare::of(config, place(config)?.seats.len())
}

/// Runs a node until a signal to stop.
pub fn run(config: Config) -> Result<(), NodeError> {
    let shutdown = Shutdown::new();
    let hangups = Hangups::default();
    signals::request_on_signal(shutdown.clone(), hangups.clone()).map_err(NodeError::Signals)?;
    // Requests in flight may take the time limit, what is shipped at the end, and then the log.
    let shipping = u32::from(config.ship_on_shutdown == ShipOnShutdown::On);
    let limit = (2 + shipping) * config.shutdown_timeout + END_MARGIN;
    signals::end_within(&shutdown, limit).map_err(NodeError::Signals)?;
    run_hearing(config, &shutdown, hangups, |_| {})
}

/// Runs a node until the notice to end is given. `bound` is given the addresses before anything is
/// accepted there, those of `--listen`, of `--admin-listen` and of `--probe-listen`: with port 0 they are the
/// system's choice.
pub fn run_until(
    config: Config,
    shutdown: &Shutdown,
    bound: impl FnOnce(&[SocketAddr]),
) -> Result<(), NodeError> {
    run_hearing(config, shutdown, Hangups::default(), bound)
}

/// The same; at a hangup files are read again.
fn run_hearing(
    config: Config,
    shutdown: &Shutdown,
    hangups: Hangups,
    bound: impl FnOnce(&[SocketAddr]),
) -> Result<(), NodeError> {
    let access = match Sources::of(&config) {
        Some(sources) => Some(Access::start(sources, hangups)?.map_err(RunError::Thread)?),
        None => None,
    };
    let bucket = shipping::bucket(&config)?;
    let plan = place(&config)?;
    for caution in &plan.cautions {
        tracing::warn!(%caution, "placement");
    }
    let shards = plan.seats.len();
    let memory = MemoryShare::of(&config, shards)?;
    let config = memory.narrow(config, shards);
    // Before the data directory is made: where a node already runs nothing of this one is left behind.
    let listeners = bind(&config)?;
    check_machine(&config, shards)?;
    let data_dir = DataDir::open(&config.data_dir, shards, config.wal_recovery)?;
    let shipper =
        bucket.map(|bucket| shipping::start(&config, bucket)).transpose().map_err(RunError::Thread)?;
    let shipper = shipper.map(Arc::new);
    let beside = (access, shipper.clone());
    let shared =
        assemble::Shared::new(config, memory.plan, &plan, listeners, beside, data_dir, &Clock::System);
    let shared = Arc::new(shared.map_err(RunError::Thread)?);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        shards,
        placement = %plan,
        listen = ?shared.facts.listen,
        data_dir = %shared.config.data_dir.display(),
        %memory,
        "silverback is starting"
    );
    let addresses = shared.addresses();
    welcome::warn_of_open_doors(&addresses, shared.doors());
    bound(&addresses);
    // Each lane has room for the requests and for the replies that its core may have in flight.
    let options = Options {
        lane_capacity: 2 * LANE_CAPACITY,
        pinning: plan.pinning,
        memory_nodes: plan.memory_nodes(),
        ..Options::on_cpus(plan.cpus())
    };
    let start = move |executor: Executor<LaneMessage>| assemble::run_core(Arc::clone(&shared), executor);
    let ended = runtime::run(&options, shutdown, start);
    shipping::stop(shipper.as_ref());
    for (core, ended) in ended?.into_iter().enumerate() {
        ended.map_err(|error| NodeError::Core(core, error))?;
    }
    tracing::info!("silverback has stopped");
    Ok(())
}

/// Takes the addresses: nobody is answered yet.
fn bind(config: &Config) -> Result<Vec<(Door, BoundAddress)>, NodeError> {
    let main = Door::Main { has_admin: !config.admin_listen.is_empty() };
    let doors =
        [(main, &config.listen), (Door::Admin, &config.admin_listen), (Door::Probes, &config.probe_listen)];
    let addresses =
        doors.into_iter().flat_map(|(door, addresses)| addresses.iter().map(move |at| (door, *at)));
    let bind = |(door, address)| match BoundAddress::bind(address) {
        Ok(bound) => Ok((door, bound)),
        Err(error) => Err(NodeError::Listen(address, error)),
    };
    addresses.map(bind).collect()
}

/// Where the shards of a node with this configuration would run here.
fn place(config: &Config) -> Result<PlacementPlan, TopologyError> {
    Ok(placement::plan(&Topology::of_this_process()?, config.shards))
}

/// Asks, before anything is started, whether the node can run here.
fn check_machine(config: &Config, executors: usize) -> Result<(), NodeError> {
    let io_memory_bytes = Options::on_cpus(Vec::new()).io_memory_bytes;
    let report = preflight(&config.data_dir, executors, io_memory_bytes, config.max_connections);
    let report = report.map_err(NodeError::Preflight)?;
    for caution in &report.cautions {
        match caution.is_warning() {
            true => tracing::warn!(%caution, "preflight"),
            false => tracing::info!(%caution, "preflight"),
        }
    }
    tracing::info!(kernel = report.kernel, file_system = report.file_system, "preflight passed");
    Ok(())
}
