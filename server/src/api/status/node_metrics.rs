//! The node's metric families, made of what its cores told.

use crate::api::ingest::refusal_log::Entry;
use crate::api::ingest::write_status::requests_by_protocol;
use crate::api::status::pages::refused;
use crate::placement::NodeId;
use silverback_host::Counts;
use silverback_host::metrics::{Durations, Family, Kind, seconds};
use silverback_model::RefusedReason;
use silverback_storage::message::{AcceptorCounts, CoreStats, ShardStats};

/// All families of the node itself.
pub(crate) fn families(cores: &[CoreStats], ready: bool) -> Vec<Family> {
    let mut families = vec![Family::single(
        "silverback_ready",
        Kind::Gauge,
        "Whether the node takes writes.",
        f64::from(u8::from(ready)),
    )];
    families.push(refused_samples(cores));
    families.push(write_requests(cores));
    families.push(refused_requests(cores));
    families.push(series_limit(cores));
    families.extend(SHARD.iter().map(|row| row.family(cores)));
    families.extend(ACCEPTOR.iter().map(|row| row.family(cores)));
    families.extend(EXECUTOR.iter().map(|row| row.family(cores)));
    families
}

/// Where each shard runs.
pub(crate) fn placement(cpus: &[usize], nodes: &[NodeId]) -> Family {
    let help = "The CPU that a shard is pinned to, and its NUMA node: always 1.";
    let mut family = Family::new("silverback_shard_cpu", Kind::Gauge, help);
    for (shard, (cpu, node)) in cpus.iter().zip(nodes).enumerate() {
        let labels = [("shard", shard.to_string()), ("cpu", cpu.to_string()), ("node", node.to_string())];
        family.push(labels, 1.0);
    }
    family
}

/// Every reason, also those that never came up: an alert on one needs its zero.
fn refused_samples(cores: &[CoreStats]) -> Family {
    let name = "silverback_samples_refused_total";
    let mut family =
        Family::new(name, Kind::Counter, "Samples, and OTLP data points, that were not stored, by reason.");
    let counts = refused(cores);
    for reason in RefusedReason::ALL {
        family.push([("reason", reason.as_str().to_owned())], counts.get(reason) as f64);
    }
    family
}

/// The last refusals, by sender: a gauge, for who was refused long ago is forgotten.
pub(crate) fn refusals(entries: &[Entry]) -> Family {
    let help = "Samples, or requests as a whole, that were refused lately, by sender, job and reason.";
    let mut family = Family::new("silverback_recent_refusals", Kind::Gauge, help);
    for Entry { peer, job, reason, unit, count, .. } in entries {
        let labels = [
            ("peer", peer.clone()),
            ("sender_job", job.clone()),
            ("reason", (*reason).to_owned()),
            ("unit", unit.as_str().to_owned()),
        ];
        family.push(labels, *count as f64);
    }
    family
}

fn write_requests(cores: &[CoreStats]) -> Family {
    let name = "silverback_write_requests_total";
    let help = "Write requests whose body arrived, by protocol; of gRPC streams, their batches.";
    let mut family = Family::new(name, Kind::Counter, help);
    for (protocol, requests) in requests_by_protocol(cores) {
        family.push([("protocol", protocol.to_owned())], requests as f64);
    }
    family
}

/// The series that each shard may take in, where there is a limit to them.
fn series_limit(cores: &[CoreStats]) -> Family {
    let help = "Series that the shard takes in at the most: its cells' part of --max-series.";
    let mut family = Family::new("silverback_series_limit", Kind::Gauge, help);
    for shard in cores.iter().map(|core| &core.shard) {
        if let Some(series) = shard.series_max {
            family.push([("shard", shard.shard.0.to_string())], series as f64);
        }
    }
    family
}

/// What was refused before an endpoint saw it.
fn refused_requests(cores: &[CoreStats]) -> Family {
    let name = "silverback_http_requests_refused_total";
    let help = "HTTP and gRPC requests refused for where they came from: to a host that isn't the node's, or \
                from a web page of another site.";
    let mut family = Family::new(name, Kind::Counter, help);
    let sum = |of: fn(&AcceptorCounts) -> u64| cores.iter().map(|core| of(&core.acceptor)).sum::<u64>();
    for (reason, requests) in [("host", sum(|a| a.refused_by_host)), ("origin", sum(|a| a.refused_by_origin))]
    {
        family.push([("reason", reason.to_owned())], requests as f64);
    }
    family
}

/// A family with one number, or one histogram, of each core.
struct Row {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: Value,
}

enum Value {
    Shard(fn(&ShardStats) -> u64),
    /// In µs, told in seconds.
    ShardMicros(fn(&ShardStats) -> u64),
    ShardDurations(fn(&ShardStats) -> &Durations),
    Acceptor(fn(&AcceptorCounts) -> u64),
    AcceptorDurations(fn(&AcceptorCounts) -> &Durations),
    Executor(fn(&Counts) -> u64),
}

impl Row {
    fn family(&self, cores: &[CoreStats]) -> Family {
        let mut family = Family::new(self.name, self.kind, self.help);
        for core in cores {
            let labels = [("shard", core.shard.shard.0.to_string())];
            match self.value {
                Value::Shard(of) => family.push(labels, of(&core.shard) as f64),
                Value::ShardMicros(of) => family.push(labels, seconds(of(&core.shard))),
                Value::ShardDurations(of) => family.push_durations(labels, of(&core.shard)),
                Value::Acceptor(of) => family.push(labels, of(&core.acceptor) as f64),
                Value::AcceptorDurations(of) => family.push_durations(labels, of(&core.acceptor)),
                Value::Executor(of) => family.push(labels, of(&core.executor) as f64),
            }
        }
        family
    }
}

const fn row(name: &'static str, kind: Kind, help: &'static str, value: Value) -> Row {
    Row { name, kind, help, value }
}

const SHARD: &[Row] = &[
    row(
        "silverback_samples_total",
        Kind::Counter,
        "Samples stored, retries of stored ones among them.",
        Value::Shard(|s| s.samples),
    ),
    row(
        "silverback_samples_already_stored_total",
        Kind::Counter,
        "Samples that were stored already: retries.",
        Value::Shard(|s| s.already),
    ),
    row("silverback_series", Kind::Gauge, "Series in memory.", Value::Shard(|s| s.series as u64)),
    row("silverback_series_created_total", Kind::Counter, "Series made.", Value::Shard(|s| s.series_created)),
    row(
        "silverback_series_expired_total",
        Kind::Counter,
        "Series that retention dropped.",
        Value::Shard(|s| s.series_expired),
    ),
    row(
        "silverback_retention_behind_seconds",
        Kind::Gauge,
        "How far the time that retention goes by is behind the wall clock.",
        Value::ShardMicros(|s| s.retention_behind_ms.saturating_mul(1000)),
    ),
    row(
        "silverback_clock_jumps_total",
        Kind::Counter,
        "Times that the wall clock was found far ahead of the samples.",
        Value::Shard(|s| s.clock_jumps),
    ),
    row(
        "silverback_series_evicted_total",
        Kind::Counter,
        "Series with one sample and no second within two hours that were dropped for want of room.",
        Value::Shard(|s| s.series_evicted),
    ),
    row("silverback_series_deleted_total", Kind::Counter, "Series that were deleted on demand, whole.", {
        Value::Shard(|s| s.series_deleted)
    }),
    row("silverback_samples_deleted_total", Kind::Counter, "Samples that were deleted on demand.", {
        Value::Shard(|s| s.samples_deleted)
    }),
    row("silverback_chunks", Kind::Gauge, "Chunks in memory, open and sealed.", {
        Value::Shard(|s| (s.series + s.sealed_chunks) as u64)
    }),
    row("silverback_label_names", Kind::Gauge, "Label names in the index.", {
        Value::Shard(|s| s.label_names as u64)
    }),
    row("silverback_label_pairs", Kind::Gauge, "Label pairs in the index.", {
        Value::Shard(|s| s.label_pairs as u64)
    }),
    row("silverback_shard_parts_total", Kind::Counter, "Parts of write requests.", Value::Shard(|s| s.parts)),
    row("silverback_shard_parts_refused_total", Kind::Counter, "Parts refused because memory was full.", {
        Value::Shard(|s| s.parts_refused)
    }),
    row("silverback_shard_commits_total", Kind::Counter, "Commits of the log.", Value::Shard(|s| s.commits)),
    row(
        "silverback_shard_reads_total",
        Kind::Counter,
        "Reads asked of the shard.",
        Value::Shard(|s| s.reads),
    ),
    row("silverback_shard_busy_seconds_total", Kind::Counter, "Time spent on writes.", {
        Value::ShardMicros(|s| s.busy_us)
    }),
    row("silverback_shard_queued", Kind::Gauge, "Requests that wait for the shard.", {
        Value::Shard(|s| s.queued as u64)
    }),
    row("silverback_wal_commits_total", Kind::Counter, "Groups of the write-ahead log made durable.", {
        Value::Shard(|s| s.log.counts.commits)
    }),
    row(
        "silverback_wal_commit_seconds",
        Kind::Histogram,
        "Time from a group's leaving memory to durable.",
        Value::ShardDurations(|s| &s.log.counts.commit_durations),
    ),
    row(
        "silverback_wal_commit_in_flight_seconds",
        Kind::Gauge,
        "For how long the group that is on its way to the disk has been so; 0 where none is.",
        Value::ShardMicros(|s| s.log.commit_in_flight_us),
    ),
    row("silverback_wal_samples_total", Kind::Counter, "Samples in the write-ahead log's groups.", {
        Value::Shard(|s| s.log.counts.samples)
    }),
    row("silverback_wal_written_bytes_total", Kind::Counter, "Bytes of the log, padding included.", {
        Value::Shard(|s| s.log.counts.written_bytes)
    }),
    row(
        "silverback_wal_since_checkpoint_bytes",
        Kind::Gauge,
        "Bytes of the log that a restart would replay behind the checkpoint.",
        Value::Shard(|s| s.log.counts.since_checkpoint_bytes),
    ),
    row("silverback_wal_segment_bytes", Kind::Gauge, "Disk space of segments and spares.", {
        Value::Shard(|s| s.log.counts.segment_bytes)
    }),
    row(
        "silverback_wal_unavailable",
        Kind::Gauge,
        "1: the disk is full, hangs or failed, or no checkpoint could be written: the log takes nothing in.",
        Value::Shard(|s| u64::from(s.log.is_shut())),
    ),
    row("silverback_wal_shut", Kind::Gauge, "The former name of silverback_wal_unavailable, until 0.2.", {
        Value::Shard(|s| u64::from(s.log.is_shut()))
    }),
    row("silverback_wal_disk_full_total", Kind::Counter, "Attempts to write that found the disk full.", {
        Value::Shard(|s| s.log.counts.full_disk)
    }),
    row("silverback_checkpoints_total", Kind::Counter, "Checkpoints written.", {
        Value::Shard(|s| s.log.counts.checkpoints)
    }),
    row("silverback_checkpoints_failed_total", Kind::Counter, "Checkpoints that failed.", {
        Value::Shard(|s| s.log.counts.checkpoints_failed)
    }),
    row("silverback_checkpoint_bytes", Kind::Gauge, "Disk space of the newest checkpoint.", {
        Value::Shard(|s| s.log.counts.checkpoint_bytes)
    }),
    row("silverback_shard_open_selects", Kind::Gauge, "Reads that are being fetched.", {
        Value::Shard(|s| s.open_selects as u64)
    }),
];

const ACCEPTOR: &[Row] = &[
    row("silverback_grpc_writes_total", Kind::Counter, "gRPC `Ingest.Write` requests.", {
        Value::Acceptor(|a| a.writes_grpc)
    }),
    row(
        "silverback_grpc_requests_unread_total",
        Kind::Counter,
        "gRPC requests given up before their message was whole: it was too slow, or there was no room.",
        Value::Acceptor(|a| a.grpc_requests_unread),
    ),
    row("silverback_grpc_streams", Kind::Gauge, "gRPC streams that are open.", {
        Value::Acceptor(|a| a.streams_open)
    }),
    row("silverback_grpc_streams_total", Kind::Counter, "gRPC streams since the start.", {
        Value::Acceptor(|a| a.streams)
    }),
    row("silverback_grpc_streams_failed_total", Kind::Counter, "gRPC streams that ended with an error.", {
        Value::Acceptor(|a| a.streams_failed)
    }),
    row("silverback_grpc_stream_batches_total", Kind::Counter, "Batches that came over gRPC streams.", {
        Value::Acceptor(|a| a.stream_batches)
    }),
    row(
        "silverback_grpc_stream_waits_total",
        Kind::Counter,
        "Times that a batch of a gRPC stream waited for room.",
        Value::Acceptor(|a| a.stream_waits),
    ),
    row("silverback_grpc_series_defined_total", Kind::Counter, "Series that gRPC senders defined.", {
        Value::Acceptor(|a| a.series_defined)
    }),
    row(
        "silverback_grpc_definition_bytes",
        Kind::Gauge,
        "Memory of the series that open gRPC streams have defined.",
        Value::Acceptor(|a| a.definition_bytes),
    ),
    row("silverback_write_requests_malformed_total", Kind::Counter, "Write requests refused whole.", {
        Value::Acceptor(|a| a.writes_malformed)
    }),
    row(
        "silverback_write_requests_overloaded_total",
        Kind::Counter,
        "Write requests refused because something was full.",
        Value::Acceptor(|a| a.writes_overloaded),
    ),
    row(
        "silverback_write_requests_memory_full_total",
        Kind::Counter,
        "Write requests refused because memory was full.",
        Value::Acceptor(|a| a.writes_memory_full),
    ),
    row(
        "silverback_write_requests_not_durable_total",
        Kind::Counter,
        "Write requests that a failed log kept from being acknowledged.",
        Value::Acceptor(|a| a.writes_not_durable),
    ),
    row(
        "silverback_write_request_seconds",
        Kind::Histogram,
        "Time from the head of a write request to its answer, refused ones among them; of a gRPC stream's \
         batch, from its arrival to its acknowledgement.",
        Value::AcceptorDurations(|a| &a.write_durations),
    ),
    row("silverback_write_bytes_total", Kind::Counter, "Bytes of write requests as they arrived.", {
        Value::Acceptor(|a| a.write_bytes)
    }),
    row(
        "silverback_write_in_flight_bytes",
        Kind::Gauge,
        "Bytes of writes under way, as they arrive and decompressed.",
        Value::Acceptor(|a| a.in_flight_bytes),
    ),
    row(
        "silverback_series_refused_total",
        Kind::Counter,
        "Series in write requests refused whole, with samples or without.",
        Value::Acceptor(|a| a.series_refused),
    ),
    row("silverback_exemplars_ignored_total", Kind::Counter, "Exemplars that were not stored.", {
        Value::Acceptor(|a| a.exemplars_ignored)
    }),
    row("silverback_metadata_ignored_total", Kind::Counter, "Metadata entries that were not stored.", {
        Value::Acceptor(|a| a.metadata_ignored)
    }),
    row(
        "silverback_string_fields_ignored_total",
        Kind::Counter,
        "String fields of InfluxDB's line protocol, which are no samples.",
        Value::Acceptor(|a| a.strings_ignored),
    ),
    row("silverback_delete_requests_total", Kind::Counter, "Deletions that were asked for.", {
        Value::Acceptor(|a| a.deletions)
    }),
    row(
        "silverback_delete_requests_failed_total",
        Kind::Counter,
        "Deletions that were refused, or not done to their end.",
        Value::Acceptor(|a| a.deletions_failed),
    ),
    row("silverback_reads_total", Kind::Counter, "Reads by clients.", Value::Acceptor(|a| a.reads)),
    row(
        "silverback_reads_slow_total",
        Kind::Counter,
        "Reads cut off because their client took too little while others waited.",
        Value::Acceptor(|a| a.reads_slow),
    ),
    row("silverback_reads_failed_total", Kind::Counter, "Reads by clients that failed.", {
        Value::Acceptor(|a| a.reads_failed)
    }),
    row("silverback_reads_in_flight", Kind::Gauge, "Reads by clients under way.", {
        Value::Acceptor(|a| a.reads_in_flight)
    }),
    row("silverback_reads_waiting", Kind::Gauge, "Reads by clients that wait for others to end.", {
        Value::Acceptor(|a| a.reads_waiting)
    }),
];

const EXECUTOR: &[Row] = &[
    row("silverback_connections", Kind::Gauge, "Open connections.", {
        Value::Executor(|e| e.connections_open)
    }),
    row(
        "silverback_connections_accepted_total",
        Kind::Counter,
        "Connections served, those that came from another core too.",
        Value::Executor(|e| e.connections_accepted),
    ),
    row(
        "silverback_connections_handed_over_total",
        Kind::Counter,
        "Connections that another core with fewer was given before anything was read.",
        Value::Executor(|e| e.connections_handed_over),
    ),
    row("silverback_connections_refused_total", Kind::Counter, "Connections closed at the limit.", {
        Value::Executor(|e| e.connections_refused)
    }),
    row(
        "silverback_connection_reads_held_back_total",
        Kind::Counter,
        "Times that a connection waited to be read on for want of memory.",
        Value::Executor(|e| e.reads_held_back),
    ),
    row("silverback_connections_timed_out_total", Kind::Counter, "Connections closed for being slow.", {
        Value::Executor(|e| e.connections_timed_out)
    }),
    row(
        "silverback_http_streams_timed_out_total",
        Kind::Counter,
        "HTTP/2 streams reset because their client took nothing of the answer.",
        Value::Executor(|e| e.streams_timed_out),
    ),
    row(
        "silverback_http_connections_flooding_total",
        Kind::Counter,
        "HTTP/2 connections that were asked to go: they sent frames without data, such as pings, in excess.",
        Value::Executor(|e| e.connections_flooding),
    ),
    row(
        "silverback_http_heads_refused_total",
        Kind::Counter,
        "HTTP/2 requests refused for their heads: too many fields, or no memory beside the heads of others.",
        Value::Executor(|e| e.heads_refused),
    ),
    row(
        "silverback_accept_failures_total",
        Kind::Counter,
        "Times when no connection could be accepted, for want of descriptors or the like.",
        Value::Executor(|e| e.accept_failures),
    ),
    row("silverback_connection_errors_total", Kind::Counter, "Connections that ended with an error.", {
        Value::Executor(|e| e.connection_errors)
    }),
    row("silverback_http_requests_total", Kind::Counter, "HTTP requests.", Value::Executor(|e| e.requests)),
    row("silverback_http_requests_in_flight", Kind::Gauge, "HTTP requests under way.", {
        Value::Executor(|e| e.requests_in_flight)
    }),
    row("silverback_request_panics_total", Kind::Counter, "Requests that panicked and were answered 500.", {
        Value::Executor(|e| e.request_panics)
    }),
    row("silverback_task_panics_total", Kind::Counter, "Tasks that a panic ended.", {
        Value::Executor(|e| e.task_panics)
    }),
    row("silverback_lane_refusals_total", Kind::Counter, "Messages that a full lane refused.", {
        Value::Executor(|e| e.lane_refusals)
    }),
];
