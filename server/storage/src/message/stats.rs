//! What a shard tells of itself: counters, sizes, and its top cardinalities.

use crate::wal::LogReport;
use silverback_host::Counts;
use silverback_host::metrics::Durations;
use silverback_model::{CellId, RefusedCounts, ShardId};

/// One core: its shard, its acceptor, its executor.
#[derive(Debug, Clone)]
pub struct CoreStats {
    /// The shard's counters and sizes.
    pub shard: ShardStats,
    /// What the acceptor's handlers counted.
    pub acceptor: AcceptorCounts,
    /// Connections, requests, panics.
    pub executor: Counts,
}

/// What the handlers of one core's acceptor counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptorCounts {
    /// Remote write 1 requests.
    pub writes_v1: u64,
    /// Remote write 2 requests.
    pub writes_v2: u64,
    /// OTLP requests, over gRPC and HTTP.
    pub writes_otlp: u64,
    /// Requests with lines in Prometheus' text format.
    pub writes_prometheus_text: u64,
    /// Requests with lines in InfluxDB's line protocol.
    pub writes_influx: u64,
    /// Times from the head of a write to its answer; of a gRPC stream's batch, from its arrival to its
    /// acknowledgement.
    pub write_durations: Durations,
    /// gRPC `Ingest.Write` requests.
    pub writes_grpc: u64,
    /// gRPC requests given up before their message was whole: it was too slow, or there was no room.
    pub grpc_requests_unread: u64,
    /// gRPC streams that are open now.
    pub streams_open: u64,
    /// gRPC streams since the start.
    pub streams: u64,
    /// gRPC streams that ended with an error.
    pub streams_failed: u64,
    /// Batches that came over gRPC streams.
    pub stream_batches: u64,
    /// Times that a batch of a gRPC stream waited for room.
    pub stream_waits: u64,
    /// Series that gRPC streams and requests defined.
    pub series_defined: u64,
    /// Write requests refused whole: not decodable, too large, of a type that isn't spoken.
    pub writes_malformed: u64,
    /// Write requests refused because something was full.
    pub writes_overloaded: u64,
    /// Parts that were sent again because a cell of theirs moved.
    pub parts_sent_again: u64,
    /// Write requests refused because a shard's memory was full.
    pub writes_memory_full: u64,
    /// Write requests that a failed log kept from being acknowledged.
    pub writes_not_durable: u64,
    /// Bytes of write requests as they arrived.
    pub write_bytes: u64,
    /// Samples that the decoder refused, by reason.
    pub refused: RefusedCounts,
    /// Samples of the node's own that were stored.
    pub own_samples: u64,
    /// Series that the decoder refused whole, those without samples among them.
    pub series_refused: u64,
    /// Exemplars that were skipped.
    pub exemplars_ignored: u64,
    /// Metadata entries that were skipped.
    pub metadata_ignored: u64,
    /// Fields of InfluxDB's line protocol that are strings, which were skipped.
    pub strings_ignored: u64,
    /// Requests refused for the host that they named, or named none.
    pub refused_by_host: u64,
    /// Requests refused because a web page of another site sent them.
    pub refused_by_origin: u64,
    /// Deletions that were asked for.
    pub deletions: u64,
    /// Of these, those that were refused, or not done to their end.
    pub deletions_failed: u64,
    /// Reads of every kind.
    pub reads: u64,
    /// Reads that failed, for whatever reason.
    pub reads_failed: u64,
    /// Reads that were cut off, for their client was slow while others waited.
    pub reads_slow: u64,
    /// Bytes of write requests in flight now, as they arrive and decompressed.
    pub in_flight_bytes: u64,
    /// Bytes of buffers that are kept for later requests.
    pub pool_bytes: u64,
    /// Bytes of the series that open gRPC streams have defined.
    pub definition_bytes: u64,
    /// Reads in flight now.
    pub reads_in_flight: u64,
    /// Reads that wait for others to end.
    pub reads_waiting: u64,
    /// Bytes of reads in flight: their requests, and answers that are made whole.
    pub read_bytes: u64,
}

/// A shard's counters since the start, and its sizes now.
#[derive(Debug, Clone)]
pub struct ShardStats {
    /// Which shard.
    pub shard: ShardId,
    /// Samples stored, retries of stored ones among them.
    pub samples: u64,
    /// Samples that were stored already: retries.
    pub already: u64,
    /// Samples that this shard refused. What the decoder refuses is counted by the acceptor.
    pub refused: RefusedCounts,
    /// Series made.
    pub series_created: u64,
    /// Series that retention dropped.
    pub series_expired: u64,
    /// How far retention's time is behind the wall clock, in ms.
    pub retention_behind_ms: u64,
    /// How often the wall clock was found far ahead of the samples.
    pub clock_jumps: u64,
    /// Series with one sample that were dropped for want of room.
    pub series_evicted: u64,
    /// Series that were deleted whole.
    pub series_deleted: u64,
    /// Samples that were deleted.
    pub samples_deleted: u64,
    /// Parts of write requests.
    pub parts: u64,
    /// Parts refused whole because the shard's memory was full.
    pub parts_refused: u64,
    /// Commits of the log.
    pub commits: u64,
    /// Reads.
    pub reads: u64,
    /// Time spent on writes, in µs.
    pub busy_us: u64,
    /// How busy the shard's core is with traffic, the acceptor's part of it too.
    pub core_busy_us_per_s: u64,
    /// How much of that is beside taking samples in: it stays where cells move.
    pub other_busy_us_per_s: u64,
    /// Series now.
    pub series: usize,
    /// The most that it takes in, as long as it has these cells; `None`: no such limit.
    pub series_max: Option<usize>,
    /// Sealed chunks now; each series has an open one besides.
    pub sealed_chunks: usize,
    /// Label names now.
    pub label_names: usize,
    /// Label pairs now.
    pub label_pairs: usize,
    /// Memory held now.
    pub memory: ShardMemory,
    /// What it may hold.
    pub memory_budget_bytes: usize,
    /// What it refuses for want of memory.
    pub memory_pressure: MemoryPressure,
    /// Requests that wait for the shard now.
    pub queued: usize,
    /// Selects open now.
    pub open_selects: usize,
    /// Bytes of the series that they have found.
    pub select_bytes: usize,
    /// The shard's log.
    pub log: LogReport,
}

/// A cell's counters since the start, its size and its load now, as one shard knows it. Of a cell that
/// it gave away, it knows what is left of the load that it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellStats {
    /// Which cell.
    pub cell: CellId,
    /// Series now.
    pub series: usize,
    /// Samples that were sent to it.
    pub samples: u64,
    /// Memory that its series take, by the shard's average.
    pub bytes: usize,
    /// Samples that are sent to it.
    pub samples_per_s: u64,
    /// Its part of the time that its shard spends on writes.
    pub busy_us_per_s: u64,
}

/// The resident memory that a shard's data takes, by the shard's own accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardMemory {
    /// The series' lines, histories and label references.
    pub series_bytes: usize,
    /// Open and sealed chunks.
    pub chunk_bytes: usize,
    /// The label index and the cells' tables.
    pub index_bytes: usize,
}

impl ShardMemory {
    /// All of it.
    #[inline]
    pub fn total(&self) -> usize {
        self.series_bytes + self.chunk_bytes + self.index_bytes
    }
}

/// What a shard refuses for want of memory: each level refuses what the former does, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MemoryPressure {
    /// Nothing.
    #[default]
    Ample,
    /// New series.
    NoNewSeries,
    /// Writes.
    Full,
}

/// A name and how many it stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameCount {
    /// Label name, metric name, or `name=value`.
    pub name: Box<str>,
    /// Series, values or bytes.
    pub count: u64,
}

/// What makes the index large: each list unordered and cut at the limit that was asked for, but
/// for `values_by_name`, which the asker cuts after it has merged the shards' lists.
#[derive(Debug, Clone, Default)]
pub struct Cardinality {
    /// Series.
    pub series: u64,
    /// Label pairs.
    pub pairs: u64,
    /// Sealed and open chunks.
    pub chunks: u64,
    /// The oldest and the newest sample, in ms; `None` without series.
    pub range_ms: Option<(i64, i64)>,
    /// Metric names by series.
    pub series_by_metric: Vec<NameCount>,
    /// Label names by values.
    pub values_by_name: Vec<NameCount>,
    /// Label names by the bytes of their values.
    pub bytes_by_name: Vec<NameCount>,
    /// Label pairs by series.
    pub series_by_pair: Vec<NameCount>,
}
