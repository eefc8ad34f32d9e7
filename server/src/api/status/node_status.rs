//! The status page at `/`, and what it polls at `/api/v1/status/node`.
//!
//! Counters are given as totals since the start: the page makes rates of two answers, so that any
//! number of people may look at any interval and the node keeps no state for them. Who gathers the
//! numbers from the shards is the router's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::ingest::write_status::WriteStatus;
use silverback_host::disk::room::FileSystemRoom;
use silverback_model::RefusedCounts;
use silverback_model::limits::MemoryPlan;
use silverback_storage::message::{CoreStats, MemoryPressure, ShardStats};
use silverback_storage::wal::LogCounts;

/// The page: one file that asks for nothing but the node's own status.
pub const PAGE: &str = include_str!("status.html");

/// The page's `Content-Type`.
pub(crate) const PAGE_CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The page's `Content-Security-Policy`: its own style and script, its own node, nothing else.
pub(crate) const PAGE_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// A node at one moment: sizes as they are, counters (`…_total`) since its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    /// The machine's or the pod's name.
    pub name: String,
    /// The version that runs.
    pub version: String,
    /// Its wall clock, in ms since the Unix epoch.
    pub time_ms: i64,
    /// Seconds since the start, with ms: the time base of all rates.
    pub uptime_s: f64,
    /// Whether it takes writes.
    pub ready: bool,
    /// Why it doesn't, for people; empty when it does.
    pub(crate) not_ready: String,
    /// The addresses that it listens on.
    pub listen: Vec<String>,
    /// How long samples are kept, in seconds.
    pub(crate) retention_s: u64,
    /// Active series.
    pub series: u64,
    /// Samples stored.
    pub(crate) samples_total: u64,
    /// Write requests, and how long their answers took.
    pub writes: WriteStatus,
    /// Bytes of their bodies as they arrived.
    pub(crate) received_bytes_total: u64,
    /// Reads begun.
    pub(crate) reads_total: u64,
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// What of the memory limit is used for what.
    pub memory: MemoryStatus,
    /// The write-ahead logs of all shards.
    pub log: LogStatus,
    /// The file system that these are on; `None` where it doesn't say.
    pub disk: Option<FileSystemRoom>,
    /// Where the node's own metrics are found among what it stores; `None` where it stores none.
    pub own_metrics: Option<OwnMetrics>,
    /// Open connections.
    pub connections: u64,
    /// Samples refused, by reason; a reason that never came up is left out.
    pub refused: BTreeMap<String, u64>,
    /// The shards, in the order of their number.
    pub shards: Vec<ShardStatus>,
}

/// The node's metrics that it stores itself, under `job="silverback"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OwnMetrics {
    /// Their `instance` label.
    pub instance: String,
    /// Seconds from one sample to the next.
    pub interval_s: f64,
}

/// The memory limit, and what stands against it by the node's own accounting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryStatus {
    /// Resident memory that the process may have.
    pub limit_bytes: u64,
    /// Series, chunks and indices of all shards.
    pub(crate) shards_bytes: u64,
    /// What these may have now.
    pub(crate) shards_budget_bytes: u64,
    /// Write requests in flight, and buffers kept for them.
    pub(crate) requests_bytes: u64,
    /// The most that any shard refuses: nothing, new series, or writes.
    pub refuses: Refuses,
}

/// The write-ahead logs of a node's shards, together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogStatus {
    /// Groups made durable.
    pub(crate) commits_total: u64,
    /// Time that this took, in µs.
    pub(crate) commit_us_total: u64,
    /// Disk space of segments, spares and checkpoints.
    pub disk_bytes: u64,
    /// Checkpoints written.
    pub(crate) checkpoints_total: u64,
    /// Why logs accept nothing, in words; empty when all of them do.
    pub faults: Vec<String>,
}

impl LogStatus {
    /// From what the cores report.
    pub(crate) fn new(cores: &[CoreStats]) -> Self {
        let sum = |of: fn(&LogCounts) -> u64| cores.iter().map(|core| of(&core.shard.log.counts)).sum();
        let fault = |core: &CoreStats| {
            core.shard.log.fault.as_ref().map(|fault| format!("shard {}: {fault}", core.shard.shard.0))
        };
        Self {
            commits_total: sum(|c| c.commits),
            commit_us_total: sum(|c| c.commit_durations.sum_us()),
            disk_bytes: sum(|c| c.segment_bytes + c.checkpoint_bytes),
            checkpoints_total: sum(|c| c.checkpoints),
            faults: cores.iter().filter_map(fault).collect(),
        }
    }
}

/// What is refused for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refuses {
    /// There is room.
    Nothing,
    /// Samples of series that aren't known.
    NewSeries,
    /// Write requests.
    Writes,
}

impl MemoryStatus {
    /// From what the node planned and what its cores report.
    pub(crate) fn new(plan: &MemoryPlan, cores: &[CoreStats]) -> Self {
        let sum = |of: fn(&CoreStats) -> u64| cores.iter().map(of).sum();
        let most = cores.iter().map(|core| core.shard.memory_pressure).max().unwrap_or_default();
        Self {
            limit_bytes: plan.limit_bytes as u64,
            shards_bytes: sum(|c| c.shard.memory.total() as u64),
            shards_budget_bytes: sum(|c| c.shard.memory_budget_bytes as u64),
            requests_bytes: sum(|c| {
                let of_writes =
                    c.acceptor.in_flight_bytes + c.acceptor.pool_bytes + c.acceptor.definition_bytes;
                of_writes + c.acceptor.read_bytes + c.shard.select_bytes as u64
            }),
            refuses: match most {
                MemoryPressure::Ample => Refuses::Nothing,
                MemoryPressure::NoNewSeries => Refuses::NewSeries,
                MemoryPressure::Full => Refuses::Writes,
            },
        }
    }
}

/// A shard at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    /// Its number.
    pub shard: u16,
    /// The logical CPU that it is pinned to; `None` when it isn't.
    pub core: Option<u32>,
    /// Active series.
    pub series: u64,
    /// Open and sealed chunks.
    pub chunks: u64,
    /// Samples stored.
    pub(crate) samples_total: u64,
    /// Requests that wait.
    pub(crate) queue_depth: u64,
    /// Time spent on writes, in µs: against the uptime it is how busy the shard is.
    pub(crate) busy_us_total: u64,
    /// How busy its core is with traffic, in millionths, decayed over seconds.
    pub core_busy_us_per_s: u64,
    /// Commits of its log.
    pub(crate) commits_total: u64,
    /// Bytes of its series, chunks and index.
    pub held_bytes: u64,
}

impl ShardStatus {
    /// From what the shard reports of itself, and the CPU that it was given.
    pub(crate) fn new(stats: &ShardStats, core: Option<u32>) -> Self {
        Self {
            shard: stats.shard.0,
            core,
            series: stats.series as u64,
            // Each series has an open chunk.
            chunks: (stats.sealed_chunks + stats.series) as u64,
            samples_total: stats.samples,
            queue_depth: stats.queued as u64,
            busy_us_total: stats.busy_us,
            core_busy_us_per_s: stats.core_busy_us_per_s,
            commits_total: stats.commits,
            held_bytes: stats.memory.total() as u64,
        }
    }
}

/// Refused samples under the names that the metrics use.
pub(crate) fn refused_by_reason(counts: &RefusedCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(reason, samples)| (reason.as_str().to_owned(), samples)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::ingest::write_status::requests_by_protocol;
    use crate::api::status::cells_status::{CellsStatus, RebalanceStatus};
    use crate::routing::ActiveQuery;
    use silverback_model::{RefusedReason, ShardId};
    use silverback_storage::message::ShardMemory;

    fn stats() -> ShardStats {
        ShardStats {
            shard: ShardId(3),
            samples: 100,
            commits: 4,
            busy_us: 2500,
            core_busy_us_per_s: 40_000,
            series: 10,
            sealed_chunks: 7,
            memory: ShardMemory {
                series_bytes: 1000,
                chunk_bytes: 200,
                index_bytes: 30,
                ..ShardMemory::default()
            },
            queued: 2,
            ..ShardStats::default()
        }
    }

    #[test]
    fn a_shard_s_status_counts_open_chunks_and_all_that_it_holds() {
        let status = ShardStatus::new(&stats(), Some(6));
        assert_eq!((status.shard, status.core), (3, Some(6)));
        assert_eq!((status.chunks, status.held_bytes), (17, 1230));
        assert_eq!((status.queue_depth, status.busy_us_total), (2, 2500));
    }

    #[test]
    fn refused_samples_stand_under_their_metric_s_names() {
        let mut counts = RefusedCounts::default();
        counts.add(RefusedReason::TooOld, 4);
        assert_eq!(refused_by_reason(&counts), BTreeMap::from([("too_old".to_owned(), 4)]));
    }

    fn memory() -> MemoryStatus {
        MemoryStatus::new(&MemoryPlan::new(1 << 30, 1).unwrap(), &[])
    }

    /// The fields that the page reads: a renamed one would leave a hole in it.
    #[test]
    fn the_page_reads_only_fields_that_the_status_has() {
        let node = NodeStatus {
            name: String::new(),
            version: String::new(),
            time_ms: 0,
            uptime_s: 0.0,
            ready: true,
            not_ready: String::new(),
            listen: Vec::new(),
            retention_s: 0,
            series: 0,
            samples_total: 0,
            writes: WriteStatus::new(&[]),
            received_bytes_total: 0,
            reads_total: 0,
            resident_bytes: 0,
            memory: memory(),
            log: LogStatus::new(&[]),
            disk: None,
            own_metrics: None,
            connections: 0,
            refused: BTreeMap::new(),
            shards: Vec::new(),
        };
        check_fields_read("node", &serde_json::to_value(node).unwrap());
        check_fields_read("memory", &serde_json::to_value(memory()).unwrap());
        let rebalance = RebalanceStatus::Running;
        let cells = CellsStatus {
            owners: Vec::new(),
            series: Vec::new(),
            samples_per_s: Vec::new(),
            busy_us_per_s: Vec::new(),
            pinned: Vec::new(),
            rebalance,
            moves_total: 0,
        };
        check_fields_read("cells", &serde_json::to_value(cells).unwrap());
        check_fields_read("asked", &serde_json::to_value(ActiveQuery::example()).unwrap());
        check_fields_read("writes", &serde_json::to_value(WriteStatus::new(&[])).unwrap());
        check_fields_read("disk", &serde_json::to_value(FileSystemRoom::default()).unwrap());
        let own = OwnMetrics { instance: String::new(), interval_s: 15.0 };
        check_fields_read("own", &serde_json::to_value(own).unwrap());
        check_fields_read("log", &serde_json::to_value(LogStatus::new(&[])).unwrap());
        check_fields_read("shard", &serde_json::to_value(ShardStatus::new(&stats(), None)).unwrap());
    }

    /// The names that an object of the page has words for.
    fn words_of(object: &str) -> BTreeMap<&'static str, &'static str> {
        let begin = format!("const {object} = {{");
        let (_, rest) = PAGE.split_once(&begin).unwrap_or_else(|| panic!("the page has no {object}"));
        let (entries, _) = rest.split_once("\n};").expect("it ends");
        let lines = entries.lines().map(str::trim).filter(|line| !line.is_empty());
        let entry = |line: &'static str| {
            let (name, words) = line.split_once(": ").unwrap_or_else(|| panic!("{object}: {line}"));
            (name, words.trim_end_matches(',').trim_matches('\''))
        };
        lines.map(entry).collect()
    }

    /// A name without words would be shown as it is.
    fn check_has_words(object: &str, names: impl IntoIterator<Item = &'static str>) {
        let words = words_of(object);
        let names: BTreeSet<_> = names.into_iter().collect();
        assert_eq!(words.keys().copied().collect::<BTreeSet<_>>(), names, "{object}");
        let said: BTreeSet<_> = words.values().collect();
        assert_eq!(said.len(), words.len(), "{object}: each has words of its own");
        for (name, words) in words {
            assert!(!words.is_empty() && words != name, "{object}: {name}");
        }
    }

    #[test]
    fn the_page_has_words_for_each_reason_and_each_protocol() {
        check_has_words("REASONS", RefusedReason::ALL.map(RefusedReason::as_str));
        check_has_words("PROTOCOLS", requests_by_protocol(&[]).map(|(protocol, _)| protocol));
        let short = [Refuses::NewSeries, Refuses::Writes].map(|refuses| match refuses {
            Refuses::Nothing => "nothing",
            Refuses::NewSeries => "new_series",
            Refuses::Writes => "writes",
        });
        check_has_words("SHORT_OF_MEMORY", short);
    }

    fn check_fields_read(variable: &str, status: &serde_json::Value) {
        let pattern = regex::Regex::new(&format!(r"\b{variable}\.(\w+)")).unwrap();
        let read: Vec<_> = pattern.captures_iter(PAGE).map(|found| found[1].to_owned()).collect();
        assert!(!read.is_empty(), "the page reads {variable}");
        for field in read {
            assert!(status.get(&field).is_some(), "{variable}.{field}");
        }
    }

    #[test]
    fn the_page_asks_for_nothing_outside_and_writes_text_only() {
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "src=", "@import"]
        {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
        let outside = PAGE.match_indices("://").filter(|(at, _)| !PAGE[..*at].ends_with("data"));
        // The one is SVG's own name.
        assert_eq!(outside.count(), 1);
    }
}
