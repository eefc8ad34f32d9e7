//! The options, declared once each: what configures it, its default, its help, how its text is taken and shown.
//! Flags, environment, file, help and `check-config` all read this table, so they can't disagree.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::error::ValueError;
use super::external_labels::parse_name;
use super::value::{
    DAY, HOUR, Own, SECOND, count, duration, show_count, show_duration, show_size, size, words,
};
use super::{
    AdminAccess, AllowedHosts, BlocksMode, ExternalLabels, LogFormat, MemoryLimit, OtlpDelta, OtlpHistograms,
    RebalanceMode, ShardCount, ShipOnShutdown, ThanosQueryApi,
};
use silverback_model::gorilla::FloatEncoding;
use silverback_model::limits::memory::AUTO_LIMIT_PERCENT;
use silverback_model::limits::{self, MemoryPlan, SHARDS_MAX};
use silverback_storage::wal::{AckMode, WalRecovery};

/// One thing that can be set.
pub(super) struct ConfigOption {
    /// As a flag `--name`, in the file `name:`, in the environment `SILVERBACK_NAME`.
    pub name: &'static str,
    /// What its value is called in the help.
    pub value_name: &'static str,
    /// The heading that it is under in the help.
    pub(crate) heading: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Takes text into the configuration.
    pub set: Set,
    /// The configuration's value, so that `set` would take it again.
    pub show: fn(&Config) -> ShownValue,
}

/// How an option takes its text.
pub(super) enum Set {
    /// One value.
    One(fn(&mut Config, &str) -> Result<(), ValueError>),
    /// A list; a later origin replaces the former's whole list.
    Many(fn(&mut Config, &[String]) -> Result<(), ValueError>),
}

/// A value as text.
pub(super) enum ShownValue {
    /// One value.
    One(String),
    /// A list.
    Many(Vec<String>),
}

/// Makes [`Config`], its defaults and [`OPTIONS`] of headings with options below them. An option's documentation is
/// its help; the line after it is its field and default, its name, its value's name, and how that is read and shown.
macro_rules! options {
    ($($heading:literal { $(
        $(#[doc = $help:literal])+
        $field:ident: $type:ty = $default:expr, $name:tt $value_name:ident $arity:ident($kind:expr);
    )+ })+) => {
        /// Everything that can be set at a node's start.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $($($(#[doc = $help])+ pub $field: $type,)+)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($($field: $default,)+)+ }
            }
        }

        /// All of them, in the order of the help.
        pub(super) static OPTIONS: &[ConfigOption] = &[$($(ConfigOption {
            name: $name,
            value_name: stringify!($value_name),
            heading: $heading,
            help: concat!($($help),+).trim_ascii_start(),
            set: Set::$arity(|config, text| $kind.read(text).map(|value| config.$field = value)),
            show: |config| ShownValue::$arity($kind.show(&config.$field)),
        },)+)+];
    };
}

/// The label spans of a request keep offsets in 30 bits.
const BODY_BYTES_ALLOWED: RangeInclusive<usize> = 1 << 10..=512 << 20;
const _: () = assert!(*BODY_BYTES_ALLOWED.end() < 1 << 30);
/// Characters of a tenant's name.
const TENANT_CHARS_MAX: usize = 256;
/// What one shard needs, up to 64 TiB.
const MEMORY_ALLOWED: RangeInclusive<usize> = MemoryPlan::floor_bytes(1)..=1 << 46;

options! {
    "Node" {
        /// Where to listen for HTTP and gRPC, both on one port; may be given more than once. `:9009` means
        /// every address of the machine
        listen: Vec<SocketAddr> = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 9009))], "listen" ADDRESS Many(LISTEN);
        /// Where the node keeps its files; made if it isn't there
        data_dir: PathBuf = PathBuf::from("./silverback-data"), "data-dir" DIR One(DATA_DIR);
        /// How many shards, each on a core of its own. `auto`: one for each physical core that the process
        /// may use, and no more than its CPU quota has whole CPUs
        shards: ShardCount = ShardCount::PerCore, "shards" COUNT One(SHARDS);
        /// How long samples are kept. A sample older than this is refused
        retention: Duration = 26 * HOUR, "retention" DURATION One(duration(HOUR..=3650 * DAY));
        /// How much older than the newest sample of its series a late sample may be. 0s: none that is older is
        /// accepted. At most as long as samples are kept
        out_of_order_window: Duration = HOUR, "out-of-order-window" DURATION One(duration(Duration::ZERO..=3650 * DAY));
        /// What gRPC's admin service and /api/v1/admin take from whoever reaches the port. `read-only`:
        /// questions. `full`: changes too, such as series deleted, a cell moved by hand or a shard drained
        admin_api: AdminAccess = AdminAccess::ReadOnly, "admin-api" ACCESS One(
            words!("isn't an access": AdminAccess { ReadOnly = "read-only", Full = "full" })
        );
        /// A host name that clients reach the node by; may be given more than once. Requests to other names
        /// are refused, so that no web page can reach the node by a name of its own. Addresses and localhost
        /// itself are always allowed. `*.example.com`: every name below it. `*`: every name
        allowed_hosts: AllowedHosts = AllowedHosts::default(), "allowed-hosts" NAME Many(HOSTS);
        /// What becomes of OTLP's delta temporality. `cumulative`: each data point is added to the newest
        /// sample of its series. `refuse`: it is refused
        otlp_delta: OtlpDelta = OtlpDelta::Cumulative, "otlp-delta" MODE One(
            words!("isn't a way to take deltas": OtlpDelta { Cumulative = "cumulative", Refuse = "refuse" })
        );
        /// `on`: OTLP's histograms with explicit bounds become native ones with custom buckets, and deltas of them are
        /// refused. `off`: they become classic ones, a series for each bucket
        otlp_histograms: OtlpHistograms = OtlpHistograms::Classic, "otlp-convert-histograms" MODE One(
            words!("is neither on nor off": OtlpHistograms { Custom = "on", Classic = "off" })
        );
        /// Whose samples the node takes from Thanos' routers; those of other tenants are refused
        tenant: String = "default-tenant".to_owned(), "tenant" NAME One(TENANT);
    }
    "Access" {
        /// Prometheus' web configuration file: TLS, client certificates, users and their passwords, headers of
        /// answers. It is read again when it changes, and on SIGHUP. `none`: no TLS, and no credentials are asked for
        web_config_file: Option<PathBuf> = None, "web-config-file" FILE One(FILE);
        /// Bearer tokens, and the scopes of tokens and users: write, read, admin, metrics. Read again like the web
        /// configuration file. `none`: no tokens, and every user may do everything
        access_file: Option<PathBuf> = None, "access-file" FILE One(FILE);
        /// Where to listen for the admin service and /api/v1/admin, which are answered nowhere else then; may be
        /// given more than once
        admin_listen: Vec<SocketAddr> = Vec::new(), "admin-listen" ADDRESS Many(OTHER_LISTEN);
        /// Where to listen for probes: /-/healthy, /-/ready, /-/replayed and gRPC's health service, without TLS and
        /// credentials, and nothing else; may be given more than once
        probe_listen: Vec<SocketAddr> = Vec::new(), "probe-listen" ADDRESS Many(OTHER_LISTEN);
    }
    "Rebalancing" {
        /// `on`: cells of a hot shard move to idle ones, while traffic flows. `off`: a cell moves only when
        /// the admin service is asked to move it
        rebalance: RebalanceMode = RebalanceMode::On, "rebalance" MODE One(
            words!("is neither on nor off": RebalanceMode { On = "on", Off = "off" })
        );
        /// How far above the mean the busiest shard must be, at some looks in a row, before cells move
        rebalance_threshold_percent: u64 = 10, "rebalance-threshold" PERCENT One(count(1..=1000));
        /// Between two looks at the loads
        rebalance_interval: Duration = SECOND, "rebalance-interval" DURATION One(duration(SECOND / 10..=HOUR));
    }
    "Durability" {
        /// When a write is acknowledged. `durable`: once it is on disk and synced. `memory`: once it is in
        /// memory; a crash then loses up to a second of acknowledged samples, or more where the disk doesn't
        /// keep up
        ack: AckMode = AckMode::Durable, "ack" WHEN One(
            words!("isn't a time to acknowledge": AckMode { Durable = "durable", Memory = "memory" })
        );
        /// What a damaged write-ahead log does to a start. `strict`: the node reports the damage and doesn't
        /// start. `salvage`: it starts with what can be read. (A group at the log's end that may be
        /// a write that was cut short is no damage)
        wal_recovery: WalRecovery = WalRecovery::Strict, "wal-recovery" HOW One(
            words!("isn't a way to recover": WalRecovery { Strict = "strict", Salvage = "salvage" })
        );
        /// A segment of a shard's write-ahead log; it is filled with zeros before it is used
        wal_segment_bytes: usize = 16 << 20, "wal-segment-bytes" SIZE One(size(1 << 20..=1 << 30));
        /// A shard's state is written out, and its log starts over, when the log is as large as the state,
        /// and not before it is as large as this. Smaller: quicker restarts, more writing
        checkpoint_bytes: usize = 64 << 20, "checkpoint-bytes" SIZE One(size(1 << 20..=1 << 40));
    }
    "Blocks" {
        /// `on`: each range of two hours is cut to a Prometheus TSDB block below the data directory, once it is over.
        /// `off`: none is
        blocks: BlocksMode = BlocksMode::Off, "blocks" MODE One(
            words!("is neither on nor off": BlocksMode { On = "on", Off = "off" })
        );
        /// How long after its end a range is cut, up to five minutes more by the node: time for samples that come late.
        /// What comes later still has a block of its own
        blocks_delay: Duration = HOUR, "blocks-delay" DURATION One(duration(Duration::ZERO..=DAY));
        /// How long blocks are kept. At least as long as samples are
        blocks_retention: Duration = 15 * DAY, "blocks-retention" DURATION One(duration(HOUR..=3650 * DAY));
        /// What all blocks may take on disk: the oldest go first, and none that is still in memory. 0: no such limit
        blocks_retention_bytes: usize = 0, "blocks-retention-size" SIZE One(size(0..=1 << 50));
        /// How floats are encoded in blocks and snapshots. `xor`: as every reader of Prometheus' blocks knows it. `xor2`:
        /// smaller; read by Prometheus since 3.12, not yet by Thanos
        float_chunks: FloatEncoding = FloatEncoding::Xor, "float-chunks" ENCODING One(
            words!("isn't an encoding of floats": FloatEncoding { Xor = "xor", Xor2 = "xor2" })
        );
    }
    "Limits" {
        /// Resident memory of the process. Near it, new series are refused first, then writes. `auto`: 85 %
        /// of what the cgroup or the machine has
        memory_limit: MemoryLimit = MemoryLimit::Auto, "memory-limit" SIZE One(MEMORY);
        /// Active series of the node, dealt out to its shards by their cells. Samples of further new series
        /// are refused; the known ones go on. `unlimited`: no such limit
        max_series: Option<NonZeroU64> = None, "max-series" COUNT One(MAX_SERIES);
        /// Exemplars that the node keeps, dealt out to its shards alike: the newest that came, up to a sixteenth of what
        /// memory there is for series. 0: none
        max_exemplars: usize = limits::EXEMPLARS_DEFAULT, "max-exemplars" COUNT One(count(0..=100_000_000));
        /// Open connections of the whole node. One more takes the place of the one that has waited longest for a
        /// request; where none has for a second, it is closed at once
        max_connections: usize = 10_000, "max-connections" COUNT One(
            Own(|text: &str| count(1..=1_000_000).read(text), usize::to_string)
        );
        /// A request body as it arrives. A larger one is refused with 413
        max_body_bytes: usize = limits::BODY_BYTES_MAX, "max-body-bytes" SIZE One(size(BODY_BYTES_ALLOWED));
        /// A request body after decompression. A larger one is refused before it is decompressed
        max_decoded_bytes: usize = limits::DECODED_BYTES_MAX, "max-decoded-bytes" SIZE One(size(BODY_BYTES_ALLOWED));
    }
    "Reads" {
        /// Reads at the same time, shared out to the shards' cores, one each at least. One more waits for
        /// its turn within the request timeout
        max_reads: usize = 10, "max-reads" COUNT One(count(1..=10_000));
        /// Samples that one remote read of type SAMPLES may return. A larger one is refused with the reason;
        /// answers that are streamed have no such limit
        max_read_samples: u64 = 50_000_000, "max-read-samples" COUNT One(count(1..=1_000_000_000_000));
        /// PromQL queries that are evaluated at the same time, shared out to the shards' cores, one each at least.
        /// They take reads' turns, too: fewer than these leave label lookups a turn beside long queries. Of further
        /// ones 64 a core wait within the query timeout
        max_queries: usize = 8, "max-queries" COUNT One(count(1..=10_000));
        /// How long a query may take, its wait for a turn included. Its `timeout` parameter lowers that
        query_timeout: Duration = 120 * SECOND, "query-timeout" DURATION One(duration(SECOND / 10..=HOUR));
        /// Samples that one query may hold at a time, on each core that works on it. A larger one is refused
        query_max_samples: usize = limits::QUERY_SAMPLES_DEFAULT, "query-max-samples" COUNT One(count(1..=1_000_000_000_000));
        /// Memory for what queries hold and for answers that are made whole, shared out to the cores: one query has no
        /// more than its core's part. At most a quarter of the memory limit; what it is more than auto, series have
        /// less. `auto`: a 64th of the memory limit, and no more than 128 MiB a core
        query_memory: Option<usize> = None, "query-memory" SIZE One(QUERY_MEMORY);
    }
    "Thanos" {
        /// A label NAME=VALUE that the node's series have for Thanos Query, in place of one of their own; may be given
        /// more than once
        external_labels: ExternalLabels = ExternalLabels::default(), "external-labels" LABEL Many(EXTERNAL_LABELS);
        /// A label that they have besides, whose value is the host's name: what tells replicas apart, as Thanos Query's
        /// --query.replica-label takes it. `none`: no such label
        replica_label: Option<String> = None, "replica-label" NAME One(REPLICA_LABEL);
        /// The label that says whose they are, as Thanos Receive has it
        tenant_label_name: String = "tenant_id".to_owned(), "tenant-label-name" NAME One(Own(parse_name, String::clone));
        /// `on`: Thanos Query in distributed mode learns that the node evaluates expressions, and has it do so. Only
        /// where no other node has the same series. `off`: a Query in local mode reads its series; one in distributed
        /// mode leaves the node out: switch it on on every node before Query's mode
        thanos_query_api: ThanosQueryApi = ThanosQueryApi::Hidden, "thanos-query-api" MODE One(
            words!("is neither on nor off": ThanosQueryApi { Announced = "on", Hidden = "off" })
        );
    }
    "Shipping" {
        /// Thanos' --objstore.config-file: the bucket that blocks are uploaded to, of type S3, GCS, AZURE or FILESYSTEM.
        /// Takes external labels or a replica label. `none`: blocks are not uploaded
        objstore_config_file: Option<PathBuf> = None, "objstore-config-file" FILE One(FILE);
        /// Bytes a second that are uploaded at most, on the mean. `unlimited`: no such limit
        ship_bandwidth: Option<NonZeroU64> = None, "ship-bandwidth" SIZE One(BANDWIDTH);
        /// Before the node ends after SIGTERM, what is in memory is cut to blocks and all blocks are uploaded, for as long
        /// as the shutdown timeout again. What that is too short for is left to the next start. Takes blocks=on and a
        /// bucket
        ship_on_shutdown: ShipOnShutdown = ShipOnShutdown::Off, "ship-on-shutdown" MODE One(
            words!("is neither on nor off": ShipOnShutdown { On = "on", Off = "off" })
        );
    }
    "Timeouts" {
        /// How long the body of a write may take to arrive, and a read to begin its answer
        request_timeout: Duration = 30 * SECOND, "request-timeout" DURATION One(duration(SECOND / 10..=HOUR));
        /// How long a gRPC stream may send nothing before it is ended
        stream_idle_timeout: Duration = 300 * SECOND, "stream-idle-timeout" DURATION One(duration(SECOND / 10..=HOUR));
        /// From a request's first byte to the end of its head; at most the request timeout
        header_timeout: Duration = 10 * SECOND, "header-timeout" DURATION One(duration(SECOND / 10..=HOUR));
        /// How long a connection may be idle between requests
        idle_timeout: Duration = 300 * SECOND, "idle-timeout" DURATION One(duration(SECOND..=DAY));
        /// How long requests in flight may take to end after SIGTERM. Keep it below Kubernetes'
        /// terminationGracePeriodSeconds
        shutdown_timeout: Duration = 30 * SECOND, "shutdown-timeout" DURATION One(duration(SECOND..=HOUR));
        /// A shard that doesn't answer for so long makes /-/healthy fail; not while its disk hangs
        stall_limit: Duration = 30 * SECOND, "stall-limit" DURATION One(duration(5 * SECOND..=HOUR));
    }
    "Log and metrics" {
        /// error, warn, info, debug or trace; or directives such as `info,silverback_storage::wal=debug`
        log_level: String = "info".to_owned(), "log-level" LEVEL One(LOG_LEVEL);
        /// text for people, json for machines
        log_format: LogFormat = LogFormat::Text, "log-format" FORMAT One(
            words!("is not a log format": LogFormat { Text = "text", Json = "json" })
        );
        /// A PromQL query that takes longer, its wait for a turn included, is logged when it ends, with what it took.
        /// 0: none is
        log_queries_longer_than: Option<Duration> = Some(5 * SECOND), "log-queries-longer-than" DURATION One(LONG_QUERIES);
        /// How often the node stores its own metrics as samples. 0: not at all
        self_scrape_interval: Option<Duration> = Some(15 * SECOND), SELF_SCRAPE_INTERVAL DURATION One(SELF_SCRAPE);
    }
}

/// Named by the flag that turns it off, too.
pub(super) const SELF_SCRAPE_INTERVAL: &str = "self-scrape-interval";

type List<T> = Own<[String], T, Vec<String>>;
type One<T> = Own<str, T, String>;

const LISTEN: List<Vec<SocketAddr>> =
    Own(read_listen, |addresses| addresses.iter().map(SocketAddr::to_string).collect());
const OTHER_LISTEN: List<Vec<SocketAddr>> = Own(
    |texts| if texts.is_empty() { Ok(Vec::new()) } else { read_listen(texts) },
    |addresses| addresses.iter().map(SocketAddr::to_string).collect(),
);
const EXTERNAL_LABELS: List<ExternalLabels> = Own(ExternalLabels::parse, ExternalLabels::show);
const REPLICA_LABEL: One<Option<String>> = Own(
    |text| match text {
        "none" => Ok(None),
        name => parse_name(name).map(Some),
    },
    |name| name.clone().unwrap_or_else(|| "none".to_owned()),
);
const HOSTS: List<AllowedHosts> = Own(AllowedHosts::parse, AllowedHosts::show);
const DATA_DIR: One<PathBuf> = Own(read_data_dir, |dir| dir.display().to_string());
const FILE: One<Option<PathBuf>> = Own(
    |text| match text {
        "" => {
            Err(ValueError::new("the path is empty", "allowed: a file that this process may read, or none"))
        }
        "none" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    },
    |file| file.as_ref().map_or("none".to_owned(), |file| file.display().to_string()),
);
const TENANT: One<String> = Own(read_tenant, String::clone);
const LOG_LEVEL: One<String> = Own(read_log_level, String::clone);

const SHARDS: One<ShardCount> = Own(
    |text| {
        let fixed = count(1..=SHARDS_MAX).read_unless("auto", text)?.and_then(NonZeroUsize::new);
        Ok(fixed.map_or(ShardCount::PerCore, ShardCount::Fixed))
    },
    |shards| match shards {
        ShardCount::PerCore => "auto".to_owned(),
        ShardCount::Fixed(shards) => shards.to_string(),
    },
);

// The help says it in digits.
const _: () = assert!(AUTO_LIMIT_PERCENT == 85);

const MEMORY: One<MemoryLimit> = Own(
    |text| {
        let fixed = size(MEMORY_ALLOWED).read_unless("auto", text)?;
        Ok(fixed.map_or(MemoryLimit::Auto, MemoryLimit::Fixed))
    },
    |limit| match limit {
        MemoryLimit::Auto => "auto".to_owned(),
        MemoryLimit::Fixed(bytes) => show_size(bytes),
    },
);

const QUERY_MEMORY: One<Option<usize>> = Own(
    |text| size(1 << 20..=1 << 46).read_unless("auto", text),
    |bytes| bytes.as_ref().map_or("auto".to_owned(), show_size),
);

const MAX_SERIES: One<Option<NonZeroU64>> = Own(
    |text| {
        let mut allowed = count(1..=1_000_000_000_000);
        allowed.examples = ", such as 2e6";
        Ok(allowed.read_unless("unlimited", text)?.and_then(NonZeroU64::new))
    },
    |series| series.as_ref().map_or("unlimited".to_owned(), show_count),
);

const BANDWIDTH: One<Option<NonZeroU64>> = Own(
    |text| {
        let bytes = size(64 << 10..=1 << 46).read_unless("unlimited", text)?;
        Ok(bytes.and_then(|bytes| NonZeroU64::new(bytes as u64)))
    },
    |bytes| bytes.map_or("unlimited".to_owned(), |bytes| show_size(&(bytes.get() as usize))),
);

const SELF_SCRAPE: One<Option<Duration>> = Own(
    |text| read_unless_off(text, SECOND..=HOUR),
    |interval| interval.as_ref().map_or("0".to_owned(), show_duration),
);

const LONG_QUERIES: One<Option<Duration>> = Own(
    |text| read_unless_off(text, SECOND / 1000..=HOUR),
    |longer_than| longer_than.as_ref().map_or("0".to_owned(), show_duration),
);

fn read_unless_off(text: &str, allowed: RangeInclusive<Duration>) -> Result<Option<Duration>, ValueError> {
    match duration(Duration::ZERO..=HOUR).read(text) {
        Ok(Duration::ZERO) => Ok(None),
        _ => duration(allowed)
            .read(text)
            .map(Some)
            .map_err(|p| ValueError::new(p.wrong, format!("{}; 0 turns it off", p.allowed))),
    }
}

fn read_tenant(text: &str) -> Result<String, ValueError> {
    let is_good = |c: char| !c.is_ascii_whitespace() && !c.is_ascii_control();
    if (1..=TENANT_CHARS_MAX).contains(&text.chars().count()) && text.chars().all(is_good) {
        return Ok(text.to_owned());
    }
    Err(ValueError::new(
        format!("{text:?} isn't a tenant"),
        format!(
            "allowed: 1 to {TENANT_CHARS_MAX} characters, none of them white space, such as default-tenant"
        ),
    ))
}

fn read_listen(texts: &[String]) -> Result<Vec<SocketAddr>, ValueError> {
    const ALLOWED: &str = "allowed: IP:PORT, such as 127.0.0.1:9009, [::1]:9009, 0.0.0.0:9009 or :9009";
    if texts.is_empty() {
        return Err(ValueError::new("the list is empty", ALLOWED));
    }
    let mut addresses = Vec::with_capacity(texts.len());
    for text in texts {
        let address = parse_listen(text)
            .ok_or_else(|| ValueError::new(format!("{text:?} is not an address to listen on"), ALLOWED))?;
        // Port 0 asks the system for a free one: each time another.
        if addresses.contains(&address) && address.port() != 0 {
            return Err(ValueError::new(format!("{address} occurs twice"), "allowed: each address once"));
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

fn read_data_dir(text: &str) -> Result<PathBuf, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new(
            "the path is empty",
            "allowed: a directory, such as /var/lib/silverback",
        ));
    }
    Ok(PathBuf::from(text))
}

const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

fn read_log_level(text: &str) -> Result<String, ValueError> {
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
        Ok(_) | Err(_) => {
            Err(ValueError::new(format!("{text:?} is neither a level nor directives"), allowed()))
        }
    }
}

/// Whether a directive is a word that isn't a level. To the filter it is a module's name, of which all is logged,
/// and nothing of any other: `warning` would switch all logging off.
fn names_no_level(directive: &str) -> bool {
    let directive = directive.trim();
    // Parts of a span's fields have commas between them, too.
    let has_more = directive.contains(['=', '[', ']', '{', '}']);
    !has_more && !LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(directive))
}
