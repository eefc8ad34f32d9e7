//! What an operator may set: one plain struct, filled from defaults, a YAML file, the environment
//! and flags, in that order, all under the same names.
//!
//! Knows where each value came from and tells all faults at once. Doesn't know what a value is
//! used for, and doesn't start anything.
mod effective;
mod environment;
mod fault;
mod file;
mod flags;
mod hosts;
mod layer;
mod options;
mod validate;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

pub use fault::{Fault, FaultList};
pub use flags::with_options;
pub use hosts::{AllowedHosts, HostPattern};
pub use layer::Origin;

use layer::Layers;
use silverback_model::limits;
use silverback_storage::wal::{AckMode, WalRecovery};

/// Everything that a node can be told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen; every core accepts on each of these.
    pub listen: Vec<SocketAddr>,
    /// Where the WAL and the blocks lie.
    pub data_dir: PathBuf,
    /// How many shards.
    pub shards: ShardCount,
    /// How long samples are kept.
    pub retention: Duration,
    /// Whether cells of a hot shard move by themselves.
    pub rebalance: RebalanceMode,
    /// How far above the mean the busiest shard may be before cells move, in percent.
    pub rebalance_threshold_percent: u64,
    /// How often loads are looked at.
    pub rebalance_interval: Duration,
    /// What the admin API takes.
    pub admin_api: AdminAccess,
    /// The names that clients may reach the node by.
    pub allowed_hosts: AllowedHosts,
    /// When a write is acknowledged.
    pub ack: AckMode,
    /// What becomes of OTLP's delta temporality.
    pub otlp_delta: OtlpDelta,
    /// What a damaged log does to a start.
    pub wal_recovery: WalRecovery,
    /// A segment of a shard's log.
    pub wal_segment_bytes: usize,
    /// The log of a shard with which a checkpoint is due at the earliest.
    pub checkpoint_bytes: usize,
    /// How a line of the log is written.
    pub log_format: LogFormat,
    /// A level, or `tracing` directives. Checked: it parses as an `EnvFilter`.
    pub log_level: String,
    /// How often the node stores its own metrics; `None`: not at all.
    pub self_scrape_interval: Option<Duration>,
    /// Resident memory of the whole process.
    pub memory_limit: MemoryLimit,
    /// Open connections of the whole node.
    pub max_connections: usize,
    /// A request body as it arrives.
    pub max_body_bytes: usize,
    /// A request body after decompression.
    pub max_decoded_bytes: usize,
    /// Active series of the whole node; `None`: no such limit.
    pub max_series: Option<NonZeroU64>,
    /// Reads at the same time.
    pub max_reads: usize,
    /// Samples that one remote read of type SAMPLES may return.
    pub max_read_samples: u64,
    /// How long the body of a write may take to arrive, and a read to begin its answer.
    pub request_timeout: Duration,
    /// A gRPC stream on which nothing comes for so long is ended.
    pub stream_idle_timeout: Duration,
    /// From a request's first byte to the end of its head.
    pub header_timeout: Duration,
    /// How long a connection may lie idle between requests.
    pub idle_timeout: Duration,
    /// How long requests in flight may take to end once the node is told to stop.
    pub shutdown_timeout: Duration,
    /// A shard that gives no sign for so long makes the node unhealthy.
    pub stall_limit: Duration,
}

/// How many shards a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCount {
    /// One for each physical core that the process may use, as far as its CPU quota goes.
    PerCore,
    /// As many as this.
    Fixed(NonZeroUsize),
}

/// Whether cells move by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebalanceMode {
    /// From hot shards to idle ones.
    On,
    /// Only when they are told to.
    Off,
}

/// What the admin API takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminAccess {
    /// Questions.
    ReadOnly,
    /// Changes, too.
    Full,
}

/// What becomes of OTLP's data points that tell what came since the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpDelta {
    /// They are added up, series by series.
    Cumulative,
    /// They are refused.
    Refuse,
}

/// How much memory a node may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Most of what the cgroup or the machine has.
    Auto,
    /// As many bytes as this.
    Fixed(usize),
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9009))],
            data_dir: PathBuf::from("./silverback-data"),
            shards: ShardCount::PerCore,
            retention: Duration::from_secs(26 * 60 * 60),
            rebalance: RebalanceMode::On,
            rebalance_threshold_percent: 10,
            rebalance_interval: Duration::from_secs(1),
            admin_api: AdminAccess::ReadOnly,
            allowed_hosts: AllowedHosts::default(),
            ack: AckMode::Durable,
            otlp_delta: OtlpDelta::Cumulative,
            wal_recovery: WalRecovery::Strict,
            wal_segment_bytes: 16 << 20,
            checkpoint_bytes: 64 << 20,
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
            self_scrape_interval: Some(Duration::from_secs(15)),
            memory_limit: MemoryLimit::Auto,
            max_connections: 10_000,
            max_body_bytes: limits::BODY_BYTES_MAX,
            max_decoded_bytes: limits::DECODED_BYTES_MAX,
            max_series: None,
            max_reads: 10,
            max_read_samples: 50_000_000,
            request_timeout: Duration::from_secs(30),
            stream_idle_timeout: Duration::from_secs(300),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(5 * 60),
            shutdown_timeout: Duration::from_secs(30),
            stall_limit: Duration::from_secs(30),
        }
    }
}

/// A configuration that was checked, and where each of its values came from.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The values.
    pub config: Config,
    /// The origin of each option that isn't at its default, by name.
    origins: BTreeMap<&'static str, Origin>,
}

/// Reads the configuration: the file that `--config` or `SILVERBACK_CONFIG` names, then the
/// environment, then the flags of `matches` (outermost command first), each over the former.
pub fn load<'a>(
    matches: impl IntoIterator<Item = &'a clap::ArgMatches>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, FaultList> {
    let (flag_values, config_flag) = flags::read(matches);
    let (environment_values, config_variable) = environment::read(variables);
    let mut layers = Layers::default();
    if let Some(path) = config_flag.or(config_variable) {
        layers.apply_all(file::read(&path));
    }
    layers.apply_all(environment_values);
    layers.apply_all(flag_values);
    layers.finish()
}

#[cfg(test)]
mod tests;
