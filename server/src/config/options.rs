//! The options, one entry each: name, help, how to set it and how to show it. Flags, environment,
//! file, help and `check-config` all read this table, so they can't disagree.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::fault::Problem;
use super::value::{DAY, HOUR, SECOND, count, duration, show_count, show_duration, show_size, size};
use super::{
    AdminAccess, AllowedHosts, Config, LogFormat, MemoryLimit, OtlpDelta, RebalanceMode, ShardCount,
};
use silverback_model::limits::memory::AUTO_LIMIT_PERCENT;
use silverback_model::limits::{MemoryPlan, SHARDS_MAX};
use silverback_storage::wal::{AckMode, WalRecovery};

/// One thing that can be set.
pub(super) struct ConfigOption {
    /// As a flag `--name`, in the file `name:`, in the environment `SILVERBACK_NAME`.
    pub name: &'static str,
    /// What its value is called in the help.
    pub value_name: &'static str,
    /// The heading that it stands under in the help.
    pub(crate) heading: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Takes text into the configuration.
    pub set: Set,
    /// The configuration's value, so that `set` would take it again.
    pub show: fn(&Config) -> Shown,
}

/// How an option takes its text.
pub(super) enum Set {
    /// One value.
    One(fn(&mut Config, &str) -> Result<(), Problem>),
    /// A list; a later origin replaces the former's whole list.
    Many(fn(&mut Config, &[String]) -> Result<(), Problem>),
}

/// A value as text.
pub(super) enum Shown {
    /// One value.
    One(String),
    /// A list.
    Many(Vec<String>),
}

const NODE: &str = "Node";
const DURABILITY: &str = "Durability";
const REBALANCE: &str = "Rebalancing";
const READS: &str = "Reads";
const LIMITS: &str = "Limits";
const TIMEOUTS: &str = "Timeouts";
const LOG: &str = "Log and metrics";

/// The label spans of a request keep offsets in 30 bits.
const BODY_BYTES_ALLOWED: RangeInclusive<usize> = 1 << 10..=512 << 20;
const _: () = assert!(*BODY_BYTES_ALLOWED.end() < 1 << 30);
const SEGMENT_BYTES_ALLOWED: RangeInclusive<usize> = 1 << 20..=1 << 30;
const CHECKPOINT_BYTES_ALLOWED: RangeInclusive<usize> = 1 << 20..=1 << 40;
/// What one shard needs, up to 64 TiB.
const MEMORY_ALLOWED: RangeInclusive<usize> = MemoryPlan::floor_bytes(1)..=1 << 46;
const SCRAPE_ALLOWED: RangeInclusive<Duration> = SECOND..=HOUR;
const TIMEOUT_ALLOWED: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;
const REBALANCE_THRESHOLD_ALLOWED: RangeInclusive<u64> = 1..=1000;
const STALL_ALLOWED: RangeInclusive<Duration> = Duration::from_secs(5)..=HOUR;
const REBALANCE_INTERVAL_ALLOWED: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;
const RETENTION_ALLOWED: RangeInclusive<Duration> = HOUR..=Duration::from_secs(3650 * DAY.as_secs());

/// All of them, in the order of the help.
pub(super) static OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "listen",
        value_name: "ADDRESS",
        heading: NODE,
        help: "Where to listen for HTTP and gRPC, both on one port; may be given more than once. \
               `:9009` means every address of the machine",
        set: Set::Many(|config, texts| set_listen(texts).map(|addresses| config.listen = addresses)),
        show: |config| Shown::Many(config.listen.iter().map(SocketAddr::to_string).collect()),
    },
    ConfigOption {
        name: "data-dir",
        value_name: "DIR",
        heading: NODE,
        help: "Where the node keeps its files; made if it isn't there",
        set: Set::One(|config, text| set_data_dir(text).map(|dir| config.data_dir = dir)),
        show: |config| Shown::One(config.data_dir.display().to_string()),
    },
    ConfigOption {
        name: "shards",
        value_name: "COUNT",
        heading: NODE,
        help: "How many shards, each on a core of its own. `auto`: one for each physical core that \
               the process may use, and no more than its CPU quota has whole CPUs",
        set: Set::One(|config, text| set_shards(text).map(|shards| config.shards = shards)),
        show: |config| Shown::One(show_shards(config.shards)),
    },
    ConfigOption {
        name: "retention",
        value_name: "DURATION",
        heading: NODE,
        help: "How long samples are kept. A sample older than this is refused",
        set: Set::One(|config, text| duration(text, RETENTION_ALLOWED).map(|d| config.retention = d)),
        show: |config| Shown::One(show_duration(config.retention)),
    },
    ConfigOption {
        name: "admin-api",
        value_name: "ACCESS",
        heading: NODE,
        help: "What gRPC's admin service and /api/v1/admin take from whoever reaches the port. `read-only`: \
               questions. `full`: changes too, such as series deleted, a cell moved by hand or a shard drained",
        set: Set::One(|config, text| set_admin_api(text).map(|access| config.admin_api = access)),
        show: |config| Shown::One(show_admin_api(config.admin_api).to_owned()),
    },
    ConfigOption {
        name: "allowed-hosts",
        value_name: "NAME",
        heading: NODE,
        help: "A host name that clients reach the node by; may be given more than once. Requests to other \
               names are refused, so that no web page can reach the node by a name of its own. Addresses and \
               localhost are always allowed. `*.example.com`: every name below it. `*`: every name",
        set: Set::Many(|config, texts| AllowedHosts::parse(texts).map(|hosts| config.allowed_hosts = hosts)),
        show: |config| Shown::Many(config.allowed_hosts.show()),
    },
    ConfigOption {
        name: "otlp-delta",
        value_name: "MODE",
        heading: NODE,
        help: "What becomes of OTLP's delta temporality. `cumulative`: each data point is added to the newest sample \
               of its series. `refuse`: it is refused",
        set: Set::One(|config, text| set_otlp_delta(text).map(|delta| config.otlp_delta = delta)),
        show: |config| Shown::One(show_otlp_delta(config.otlp_delta).to_owned()),
    },
    ConfigOption {
        name: "rebalance",
        value_name: "MODE",
        heading: REBALANCE,
        help: "`on`: cells of a hot shard move to idle ones, while traffic flows. `off`: a cell moves \
               only when the admin service is told to move it",
        set: Set::One(|config, text| set_rebalance(text).map(|mode| config.rebalance = mode)),
        show: |config| Shown::One(show_rebalance(config.rebalance).to_owned()),
    },
    ConfigOption {
        name: "rebalance-threshold",
        value_name: "PERCENT",
        heading: REBALANCE,
        help: "How far above the mean the busiest shard must be, at some looks in a row, before cells move",
        set: Set::One(|config, text| {
            count(text, REBALANCE_THRESHOLD_ALLOWED).map(|p| config.rebalance_threshold_percent = p)
        }),
        show: |config| Shown::One(config.rebalance_threshold_percent.to_string()),
    },
    ConfigOption {
        name: "rebalance-interval",
        value_name: "DURATION",
        heading: REBALANCE,
        help: "Between two looks at the loads",
        set: Set::One(|config, text| {
            duration(text, REBALANCE_INTERVAL_ALLOWED).map(|d| config.rebalance_interval = d)
        }),
        show: |config| Shown::One(show_duration(config.rebalance_interval)),
    },
    ConfigOption {
        name: "ack",
        value_name: "WHEN",
        heading: DURABILITY,
        help: "When a write is acknowledged. `durable`: once it is on disk and synced. `memory`: once \
               it is in memory; a crash then loses up to a second of acknowledged samples, or more \
               where the disk doesn't keep up",
        set: Set::One(|config, text| set_ack(text).map(|ack| config.ack = ack)),
        show: |config| Shown::One(show_ack(config.ack).to_owned()),
    },
    ConfigOption {
        name: "wal-recovery",
        value_name: "HOW",
        heading: DURABILITY,
        help: "What a damaged write-ahead log does to a start. `strict`: the node tells the damage and \
               doesn't start. `salvage`: it starts with what can be read. (An unfinished write at the \
               log's end is no damage)",
        set: Set::One(|config, text| set_wal_recovery(text).map(|recovery| config.wal_recovery = recovery)),
        show: |config| Shown::One(show_wal_recovery(config.wal_recovery).to_owned()),
    },
    ConfigOption {
        name: "wal-segment-bytes",
        value_name: "SIZE",
        heading: DURABILITY,
        help: "A segment of a shard's write-ahead log; it is filled with zeros before it is used",
        set: Set::One(|config, text| {
            size(text, SEGMENT_BYTES_ALLOWED).map(|bytes| config.wal_segment_bytes = bytes)
        }),
        show: |config| Shown::One(show_size(config.wal_segment_bytes)),
    },
    ConfigOption {
        name: "checkpoint-bytes",
        value_name: "SIZE",
        heading: DURABILITY,
        help: "A shard's state is written out, and its log begins anew, when the log is as large as the \
               state, and not before it is as large as this. Smaller: quicker restarts, more writing",
        set: Set::One(|config, text| {
            size(text, CHECKPOINT_BYTES_ALLOWED).map(|bytes| config.checkpoint_bytes = bytes)
        }),
        show: |config| Shown::One(show_size(config.checkpoint_bytes)),
    },
    ConfigOption {
        name: "memory-limit",
        value_name: "SIZE",
        heading: LIMITS,
        help: "Resident memory of the process. Near it, new series are refused first, then writes. \
               `auto`: 85 % of what the cgroup or the machine has",
        set: Set::One(|config, text| set_memory_limit(text).map(|limit| config.memory_limit = limit)),
        show: |config| Shown::One(show_memory_limit(config.memory_limit)),
    },
    ConfigOption {
        name: "max-series",
        value_name: "COUNT",
        heading: LIMITS,
        help: "Active series of the node, dealt out to its shards by their cells. Samples of further \
               new series are refused; the known ones go on. `unlimited`: no such limit",
        set: Set::One(|config, text| set_max_series(text).map(|series| config.max_series = series)),
        show: |config| Shown::One(config.max_series.map_or("unlimited".to_owned(), |n| show_count(n.get()))),
    },
    ConfigOption {
        name: "max-connections",
        value_name: "COUNT",
        heading: LIMITS,
        help: "Open connections of the whole node. One more is closed at once",
        set: Set::One(|config, text| {
            count(text, 1..=1_000_000).map(|connections| config.max_connections = connections as usize)
        }),
        show: |config| Shown::One(config.max_connections.to_string()),
    },
    ConfigOption {
        name: "max-body-bytes",
        value_name: "SIZE",
        heading: LIMITS,
        help: "A request body as it arrives. A larger one is refused with 413",
        set: Set::One(|config, text| {
            size(text, BODY_BYTES_ALLOWED).map(|bytes| config.max_body_bytes = bytes)
        }),
        show: |config| Shown::One(show_size(config.max_body_bytes)),
    },
    ConfigOption {
        name: "max-decoded-bytes",
        value_name: "SIZE",
        heading: LIMITS,
        help: "A request body after decompression. A larger one is refused before it is decompressed",
        set: Set::One(|config, text| {
            size(text, BODY_BYTES_ALLOWED).map(|bytes| config.max_decoded_bytes = bytes)
        }),
        show: |config| Shown::One(show_size(config.max_decoded_bytes)),
    },
    ConfigOption {
        name: "max-reads",
        value_name: "COUNT",
        heading: READS,
        help: "Reads at the same time, shared out to the shards' cores, one each at the least. \
               One more waits for its turn within the request timeout",
        set: Set::One(|config, text| count(text, 1..=10_000).map(|reads| config.max_reads = reads as usize)),
        show: |config| Shown::One(config.max_reads.to_string()),
    },
    ConfigOption {
        name: "max-read-samples",
        value_name: "COUNT",
        heading: READS,
        help: "Samples that one remote read of type SAMPLES may return. A larger one is refused, and told so; \
               answers that are streamed have no such limit",
        set: Set::One(|config, text| {
            count(text, 1..=1_000_000_000_000).map(|samples| config.max_read_samples = samples)
        }),
        show: |config| Shown::One(show_count(config.max_read_samples)),
    },
    ConfigOption {
        name: "request-timeout",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "How long the body of a write may take to arrive, and a read to begin its answer",
        set: Set::One(|config, text| duration(text, TIMEOUT_ALLOWED).map(|d| config.request_timeout = d)),
        show: |config| Shown::One(show_duration(config.request_timeout)),
    },
    ConfigOption {
        name: "stream-idle-timeout",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "How long a gRPC stream may send nothing before it is ended",
        set: Set::One(|config, text| {
            duration(text, TIMEOUT_ALLOWED).map(|limit| config.stream_idle_timeout = limit)
        }),
        show: |config| Shown::One(show_duration(config.stream_idle_timeout)),
    },
    ConfigOption {
        name: "header-timeout",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "From a request's first byte to the end of its head; at most the request timeout",
        set: Set::One(|config, text| duration(text, TIMEOUT_ALLOWED).map(|d| config.header_timeout = d)),
        show: |config| Shown::One(show_duration(config.header_timeout)),
    },
    ConfigOption {
        name: "idle-timeout",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "How long a connection may lie idle between requests",
        set: Set::One(|config, text| duration(text, SECOND..=DAY).map(|d| config.idle_timeout = d)),
        show: |config| Shown::One(show_duration(config.idle_timeout)),
    },
    ConfigOption {
        name: "shutdown-timeout",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "How long requests in flight may take to end after SIGTERM. Keep it below \
               Kubernetes' terminationGracePeriodSeconds",
        set: Set::One(|config, text| duration(text, SECOND..=HOUR).map(|d| config.shutdown_timeout = d)),
        show: |config| Shown::One(show_duration(config.shutdown_timeout)),
    },
    ConfigOption {
        name: "stall-limit",
        value_name: "DURATION",
        heading: TIMEOUTS,
        help: "A shard that doesn't answer for so long makes /-/healthy fail; not while its disk hangs",
        set: Set::One(|config, text| duration(text, STALL_ALLOWED).map(|d| config.stall_limit = d)),
        show: |config| Shown::One(show_duration(config.stall_limit)),
    },
    ConfigOption {
        name: "log-level",
        value_name: "LEVEL",
        heading: LOG,
        help: "error, warn, info, debug or trace; or directives such as `info,silverback_storage::wal=debug`",
        set: Set::One(|config, text| set_log_level(text).map(|level| config.log_level = level)),
        show: |config| Shown::One(config.log_level.clone()),
    },
    ConfigOption {
        name: "log-format",
        value_name: "FORMAT",
        heading: LOG,
        help: "text for people, json for machines",
        set: Set::One(|config, text| set_log_format(text).map(|format| config.log_format = format)),
        show: |config| Shown::One(show_log_format(config.log_format).to_owned()),
    },
    ConfigOption {
        name: SELF_SCRAPE_INTERVAL,
        value_name: "DURATION",
        heading: LOG,
        help: "How often the node stores its own metrics as samples. 0: not at all",
        set: Set::One(|config, text| set_self_scrape(text).map(|i| config.self_scrape_interval = i)),
        show: |config| Shown::One(config.self_scrape_interval.map_or("0".to_owned(), show_duration)),
    },
];

/// Named by the flag that turns it off, too.
pub(super) const SELF_SCRAPE_INTERVAL: &str = "self-scrape-interval";

fn set_listen(texts: &[String]) -> Result<Vec<SocketAddr>, Problem> {
    const ALLOWED: &str = "allowed: IP:PORT, such as 127.0.0.1:9009, [::1]:9009, 0.0.0.0:9009 or :9009";
    if texts.is_empty() {
        return Err(Problem::new("the list is empty", ALLOWED));
    }
    let mut addresses = Vec::with_capacity(texts.len());
    for text in texts {
        let address = parse_listen(text)
            .ok_or_else(|| Problem::new(format!("{text:?} is not an address to listen on"), ALLOWED))?;
        // Port 0 asks the system for a free one: each time another.
        if addresses.contains(&address) && address.port() != 0 {
            return Err(Problem::new(format!("{address} stands twice"), "allowed: each address once"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn parse_listen(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix(':') {
        Some(port) => Some(SocketAddr::from(([0, 0, 0, 0], port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

fn set_data_dir(text: &str) -> Result<PathBuf, Problem> {
    if text.is_empty() {
        return Err(Problem::new("the path is empty", "allowed: a directory, such as /var/lib/silverback"));
    }
    Ok(PathBuf::from(text))
}

fn set_shards(text: &str) -> Result<ShardCount, Problem> {
    let allowed = || format!("allowed: auto, or a whole number from 1 to {SHARDS_MAX}");
    if text == "auto" {
        return Ok(ShardCount::PerCore);
    }
    let shards = count(text, 1..=SHARDS_MAX as u64).map_err(|p| Problem::new(p.wrong, allowed()))?;
    NonZeroUsize::new(shards as usize)
        .map(ShardCount::Fixed)
        .ok_or_else(|| Problem::new("no shard at all", allowed()))
}

fn show_shards(shards: ShardCount) -> String {
    match shards {
        ShardCount::PerCore => "auto".to_owned(),
        ShardCount::Fixed(shards) => shards.to_string(),
    }
}

fn set_admin_api(text: &str) -> Result<AdminAccess, Problem> {
    match text {
        "read-only" => Ok(AdminAccess::ReadOnly),
        "full" => Ok(AdminAccess::Full),
        _ => Err(Problem::new(format!("{text:?} is no access"), "allowed: read-only, full")),
    }
}

fn show_admin_api(access: AdminAccess) -> &'static str {
    match access {
        AdminAccess::ReadOnly => "read-only",
        AdminAccess::Full => "full",
    }
}

fn set_rebalance(text: &str) -> Result<RebalanceMode, Problem> {
    match text {
        "on" => Ok(RebalanceMode::On),
        "off" => Ok(RebalanceMode::Off),
        _ => Err(Problem::new(format!("{text:?} is neither on nor off"), "allowed: on, off")),
    }
}

fn show_rebalance(mode: RebalanceMode) -> &'static str {
    match mode {
        RebalanceMode::On => "on",
        RebalanceMode::Off => "off",
    }
}

fn set_otlp_delta(text: &str) -> Result<OtlpDelta, Problem> {
    match text {
        "cumulative" => Ok(OtlpDelta::Cumulative),
        "refuse" => Ok(OtlpDelta::Refuse),
        _ => Err(Problem::new(format!("{text:?} is no way to take deltas"), "allowed: cumulative, refuse")),
    }
}

fn show_otlp_delta(delta: OtlpDelta) -> &'static str {
    match delta {
        OtlpDelta::Cumulative => "cumulative",
        OtlpDelta::Refuse => "refuse",
    }
}

fn set_ack(text: &str) -> Result<AckMode, Problem> {
    match text {
        "durable" => Ok(AckMode::Durable),
        "memory" => Ok(AckMode::Memory),
        _ => Err(Problem::new(format!("{text:?} is no time to acknowledge"), "allowed: durable, memory")),
    }
}

fn show_ack(ack: AckMode) -> &'static str {
    match ack {
        AckMode::Durable => "durable",
        AckMode::Memory => "memory",
    }
}

fn set_wal_recovery(text: &str) -> Result<WalRecovery, Problem> {
    match text {
        "strict" => Ok(WalRecovery::Strict),
        "salvage" => Ok(WalRecovery::Salvage),
        _ => Err(Problem::new(format!("{text:?} is no way to recover"), "allowed: strict, salvage")),
    }
}

fn show_wal_recovery(recovery: WalRecovery) -> &'static str {
    match recovery {
        WalRecovery::Strict => "strict",
        WalRecovery::Salvage => "salvage",
    }
}

// The help says it in digits.
const _: () = assert!(AUTO_LIMIT_PERCENT == 85);

fn set_memory_limit(text: &str) -> Result<MemoryLimit, Problem> {
    if text == "auto" {
        return Ok(MemoryLimit::Auto);
    }
    size(text, MEMORY_ALLOWED)
        .map(MemoryLimit::Fixed)
        .map_err(|p| Problem::new(p.wrong, p.allowed.replacen("allowed: ", "allowed: auto, or ", 1)))
}

fn show_memory_limit(limit: MemoryLimit) -> String {
    match limit {
        MemoryLimit::Auto => "auto".to_owned(),
        MemoryLimit::Fixed(bytes) => show_size(bytes),
    }
}

fn set_max_series(text: &str) -> Result<Option<NonZeroU64>, Problem> {
    if text == "unlimited" {
        return Ok(None);
    }
    let allowed = "allowed: unlimited, or a whole number from 1 to 1e12, such as 2e6";
    let series = count(text, 1..=1_000_000_000_000).map_err(|p| Problem::new(p.wrong, allowed))?;
    Ok(NonZeroU64::new(series))
}

const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

fn set_log_level(text: &str) -> Result<String, Problem> {
    let allowed = || {
        let nearest =
            LOG_LEVELS.into_iter().filter(|level| strsim::jaro_winkler(&text.to_lowercase(), level) > 0.8);
        let meant = nearest.map(|level| format!("did you mean {level}? ")).next().unwrap_or_default();
        format!(
            "{meant}allowed: error, warn, info, debug, trace, off, or directives such as \
             info,silverback_storage::wal=debug"
        )
    };
    match EnvFilter::builder().parse(text) {
        Ok(_) if !text.split(',').any(names_no_level) => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(Problem::new(format!("{text:?} is neither a level nor directives"), allowed())),
    }
}

/// Whether a directive is a word that is no level. To the filter it is a module's name, of which all is logged,
/// and nothing of any other: `warning` would switch all logging off.
fn names_no_level(directive: &str) -> bool {
    let directive = directive.trim();
    // Parts of a span's fields have commas between them, too.
    let has_more = directive.contains(['=', '[', ']', '{', '}']);
    !has_more && !LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(directive))
}

fn set_log_format(text: &str) -> Result<LogFormat, Problem> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(Problem::new(format!("{text:?} is not a log format"), "allowed: text, json")),
    }
}

fn show_log_format(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    }
}

fn set_self_scrape(text: &str) -> Result<Option<Duration>, Problem> {
    match duration(text, Duration::ZERO..=*SCRAPE_ALLOWED.end()) {
        Ok(Duration::ZERO) => Ok(None),
        _ => duration(text, SCRAPE_ALLOWED)
            .map(Some)
            .map_err(|p| Problem::new(p.wrong, format!("{}; 0 turns it off", p.allowed))),
    }
}
