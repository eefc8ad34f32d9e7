//! What a shard reports of itself: counters, sizes, and its top cardinalities.

use crate::message::UncutRange;
use crate::wal::LogReport;
use silverback_host::metrics::{Durations, MetricReading};
use silverback_host::{Counts, counters};
use silverback_model::{CellId, ExemplarRejectedCounts, MetadataRejectedCounts, RefusedCounts, ShardId};

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

counters! {
    /// What the handlers of one core's acceptor counted since the start.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct AcceptorCounts {
        /// gRPC `Ingest.Write` requests.
        writes_grpc: u64 => Counter "silverback_grpc_writes_total",
        /// gRPC requests given up before their message was whole: it was too slow, or there was no room.
        grpc_requests_unread: u64 => Counter "silverback_grpc_requests_unread_total",
        /// gRPC streams that are open.
        streams_open: u64 => Gauge "silverback_grpc_streams",
        /// gRPC streams since the start.
        streams: u64 => Counter "silverback_grpc_streams_total",
        /// gRPC streams that ended with an error.
        streams_failed: u64 => Counter "silverback_grpc_streams_failed_total",
        /// Batches that came over gRPC streams.
        stream_batches: u64 => Counter "silverback_grpc_stream_batches_total",
        /// Times that a batch of a gRPC stream waited for room.
        stream_waits: u64 => Counter "silverback_grpc_stream_waits_total",
        /// Where shards have series, sent to gRPC streams that did not know it or had it otherwise.
        stream_refs: u64 => Counter "silverback_grpc_stream_refs_total",
        /// Series that gRPC senders defined.
        series_defined: u64 => Counter "silverback_grpc_series_defined_total",
        /// Memory of the series that open gRPC streams have defined.
        definition_bytes: u64 => Gauge "silverback_grpc_definition_bytes",
        /// Write requests refused whole.
        writes_malformed: u64 => Counter "silverback_write_requests_malformed_total",
        /// Write requests refused because something was full.
        writes_overloaded: u64 => Counter "silverback_write_requests_overloaded_total",
        /// Write requests refused because memory was full.
        writes_memory_full: u64 => Counter "silverback_write_requests_memory_full_total",
        /// Write requests that waited for room in a shard's queue.
        write_waits: u64 => Counter "silverback_write_request_waits_total",
        /// Write requests that a failed log kept from being acknowledged.
        writes_not_durable: u64 => Counter "silverback_write_requests_not_durable_total",
        /// Time from the head of a write request to its answer, refused ones among them; of a gRPC stream's
        /// batch, from its arrival to its acknowledgement.
        write_durations: Durations => Histogram "silverback_write_request_seconds",
        /// Bytes of write requests as they arrived.
        write_bytes: u64 => Counter "silverback_write_bytes_total",
        /// Bytes of writes in flight, as they arrive and decompressed.
        in_flight_bytes: u64 => Gauge "silverback_write_in_flight_bytes",
        /// Series in write requests refused whole, with samples or without.
        series_refused: u64 => Counter "silverback_series_refused_total",
        /// String fields of InfluxDB's line protocol, which aren't samples.
        strings_ignored: u64 => Counter "silverback_string_fields_ignored_total",
        /// PromQL queries that came to their turn, or to a refusal.
        queries: u64 => Counter "silverback_queries_total",
        /// Of the PromQL queries those that a Thanos Query asked by thanos.Query.
        thanos_queries: u64 => Counter "silverback_thanos_queries_total",
        /// PromQL queries that are evaluated now.
        queries_active: u64 => Gauge "silverback_queries_active",
        /// PromQL queries that wait for their turn.
        queries_waiting: u64 => Gauge "silverback_queries_waiting",
        /// PromQL queries that took longer than --log-queries-longer-than.
        queries_slow: u64 => Counter "silverback_queries_slow_total",
        /// Parts of other cores' queries that were evaluated here.
        query_parts: u64 => Counter "silverback_query_parts_total",
        /// Deletions that were asked for.
        deletions: u64 => Counter "silverback_delete_requests_total",
        /// Deletions that were refused, or not done to their end.
        deletions_failed: u64 => Counter "silverback_delete_requests_failed_total",
        /// Snapshots that were written.
        snapshots: u64 => Counter "silverback_snapshots_total",
        /// Snapshots that were refused, or not written to their end.
        snapshots_failed: u64 => Counter "silverback_snapshots_failed_total",
        /// Snapshots whose client went away before their end.
        snapshots_cancelled: u64 => Counter "silverback_snapshots_cancelled_total",
        /// Time that snapshots took, those that failed among them.
        snapshot_us: u64 => Counter "silverback_snapshot_seconds_total" / 1e6,
        /// Bytes of the snapshots that were written.
        snapshot_bytes: u64 => Counter "silverback_snapshot_bytes_total",
        /// Reads by clients.
        reads: u64 => Counter "silverback_reads_total",
        /// Reads cut off because their client took too little while others waited.
        reads_slow: u64 => Counter "silverback_reads_slow_total",
        /// Reads by clients that failed.
        reads_failed: u64 => Counter "silverback_reads_failed_total",
        /// Reads by clients in flight.
        reads_in_flight: u64 => Gauge "silverback_reads_in_flight",
        /// Reads by clients that wait for others to end.
        reads_waiting: u64 => Gauge "silverback_reads_waiting",
    } {
        /// Remote write 1 requests.
        writes_v1: u64,
        /// Remote write 2 requests.
        writes_v2: u64,
        /// OTLP requests, over gRPC and HTTP.
        writes_otlp: u64,
        /// Requests of Thanos' routers.
        writes_thanos: u64,
        /// Requests with lines in Prometheus' text format.
        writes_prometheus_text: u64,
        /// Requests with lines in InfluxDB's line protocol.
        writes_influx: u64,
        /// Queries refused because as many waited as may.
        queries_without_turn: u64,
        /// Queries whose time was over before their end.
        queries_timed_out: u64,
        /// Queries that were cancelled on demand.
        queries_canceled: u64,
        /// Queries refused for the samples that they would have held.
        queries_of_too_many_samples: u64,
        /// Queries refused for the memory that they would have held, however often they are asked.
        queries_of_too_much_memory: u64,
        /// Queries refused because others had the memory.
        queries_without_room: u64,
        /// Parts that were sent again because a cell of theirs moved.
        parts_sent_again: u64,
        /// Samples that the decoder refused, by reason.
        refused: RefusedCounts,
        /// Exemplars that the decoder refused, by reason.
        exemplars_refused: ExemplarRejectedCounts,
        /// Metadata that the decoder refused, by reason.
        metadata_refused: MetadataRejectedCounts,
        /// Samples of the node's own that were stored.
        own_samples: u64,
        /// Requests refused for the host that they named, or named none.
        refused_by_host: u64,
        /// Requests refused because a web page of another site sent them.
        refused_by_origin: u64,
        /// Requests refused because they had no credentials.
        refused_without_credentials: u64,
        /// Requests refused because nobody has their credentials.
        refused_by_credentials: u64,
        /// Requests refused because their user or token may do other things.
        refused_by_scope: u64,
        /// Requests refused because their password could not be checked now.
        refused_unchecked: u64,
        /// Requests refused at an address that is for others.
        refused_by_address: u64,
        /// Bytes of buffers that are kept for later requests.
        pool_bytes: u64,
        /// Bytes of reads in flight: their requests, and answers that are made whole.
        read_bytes: u64,
    }
}

counters! {
    /// A shard's counters since the start, and its sizes now.
    #[derive(Debug, Clone, Default)]
    pub struct ShardStats {
        /// Samples stored, retries of stored ones among them.
        samples: u64 => Counter "silverback_samples_total",
        /// Samples that were stored already: retries.
        already: u64 => Counter "silverback_samples_already_stored_total",
        /// Samples stored that were older than the newest of their series.
        late: u64 => Counter "silverback_out_of_order_samples_total",
        /// Start timestamps that went to the log with samples that were stored.
        start_timestamps: u64 => Counter "silverback_start_timestamps_appended_total",
        /// Start timestamps of stored samples that were ignored: they aren't before their samples.
        start_timestamps_ignored: u64 => Counter "silverback_start_timestamps_ignored_total",
        /// Series with late samples that aren't folded into their chunks yet.
        late_chunks: usize => Gauge "silverback_out_of_order_chunks",
        /// Series in memory.
        series: usize => Gauge "silverback_series",
        /// Series that the shard accepts at most: its cells' part of --max-series.
        series_max: Option<usize> => Gauge "silverback_series_limit",
        /// Series made.
        series_created: u64 => Counter "silverback_series_created_total",
        /// Series that retention dropped.
        series_expired: u64 => Counter "silverback_series_expired_total",
        /// How far the time that retention goes by is behind the wall clock.
        retention_behind_ms: u64 => Gauge "silverback_retention_behind_seconds" / 1e3,
        /// Times that the wall clock was found far ahead of the samples.
        clock_jumps: u64 => Counter "silverback_clock_jumps_total",
        /// Series with one sample and no second within two hours that were dropped for want of room.
        series_evicted: u64 => Counter "silverback_series_evicted_total",
        /// Series that were deleted on demand, whole.
        series_deleted: u64 => Counter "silverback_series_deleted_total",
        /// Samples that were deleted on demand.
        samples_deleted: u64 => Counter "silverback_samples_deleted_total",
        /// Exemplars accepted, retries of kept ones among them.
        exemplars: u64 => Counter "silverback_exemplars_appended_total",
        /// Exemplars that were kept already: retries.
        exemplars_already: u64 => Counter "silverback_exemplars_already_stored_total",
        /// Exemplars that made room for others.
        exemplars_evicted: u64 => Counter "silverback_exemplars_evicted_total",
        /// Exemplars that are kept.
        exemplars_kept: usize => Gauge "silverback_exemplars_in_storage",
        /// Series that have an exemplar.
        exemplar_series: usize => Gauge "silverback_exemplars_series_in_storage",
        /// Exemplars that the shard keeps at most: its part of --max-exemplars.
        exemplars_max: usize => Gauge "silverback_exemplars_limit",
        /// Metrics of which metadata is kept.
        metadata_metrics: usize => Gauge "silverback_metadata_metrics",
        /// Label names in the index.
        label_names: usize => Gauge "silverback_label_names",
        /// Label pairs in the index.
        label_pairs: usize => Gauge "silverback_label_pairs",
        /// Parts of write requests.
        parts: u64 => Counter "silverback_shard_parts_total",
        /// Parts refused because memory was full.
        parts_refused: u64 => Counter "silverback_shard_parts_refused_total",
        /// Times that a part was set aside because it takes long, and others had their turn.
        parts_set_aside: u64 => Counter "silverback_shard_parts_set_aside_total",
        /// Commits of the log.
        commits: u64 => Counter "silverback_shard_commits_total",
        /// Reads asked of the shard.
        reads: u64 => Counter "silverback_shard_reads_total",
        /// Time spent on writes.
        busy_us: u64 => Counter "silverback_shard_busy_seconds_total" / 1e6,
        /// How busy the shard's core is with traffic, decayed over seconds.
        core_busy_us_per_s: u64 => Gauge "silverback_shard_core_busy_ratio" / 1e6,
        /// Requests that wait for the shard.
        queued: usize => Gauge "silverback_shard_queued",
        /// Reads that are being fetched.
        open_selects: usize => Gauge "silverback_shard_open_selects",
        /// What the shard's series, chunks and index may take; samples of known series may go beyond.
        memory_budget_bytes: usize => Gauge "silverback_memory_budget_bytes",
        /// What the shard refuses for want of memory: 0 nothing, 1 new series, 2 writes.
        memory_pressure: MemoryPressure => Gauge "silverback_memory_pressure",
    } {
        /// Which shard.
        shard: ShardId,
        /// Samples that this shard refused. What the decoder refuses is counted by the acceptor.
        refused: RefusedCounts,
        /// Exemplars that this shard refused. What the decoder refuses is counted by the acceptor.
        exemplars_refused: ExemplarRejectedCounts,
        /// Metadata that this shard refused.
        metadata_refused: MetadataRejectedCounts,
        /// How busy the core is with other traffic than taking samples in: that stays where cells move.
        other_busy_us_per_s: u64,
        /// Sealed chunks now; each series has an open one besides.
        sealed_chunks: usize,
        /// Memory held now.
        memory: ShardMemory,
        /// Bytes of the series that open reads have found.
        select_bytes: usize,
        /// The oldest and the newest sample's time, in ms; `None` without samples.
        range_ms: Option<(i64, i64)>,
        /// Ranges of which samples came after they were cut, oldest first.
        uncut: Vec<UncutRange>,
        /// The shard's log.
        log: LogReport,
    }
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
    /// Exemplars.
    pub exemplar_bytes: usize,
    /// Metadata.
    pub metadata_bytes: usize,
}

impl ShardMemory {
    /// All of it.
    #[inline]
    pub fn total(&self) -> usize {
        self.series_bytes + self.chunk_bytes + self.index_bytes + self.exemplar_bytes + self.metadata_bytes
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

impl From<&MemoryPressure> for MetricReading {
    fn from(pressure: &MemoryPressure) -> Self {
        Self::from(&(*pressure as u64))
    }
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
