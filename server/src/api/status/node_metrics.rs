//! The node's metric families, made of what its cores report.

use crate::access::reload::Reloads;
use crate::api::ingest::refusal_log::RefusalEntry;
use crate::api::ingest::write_status::requests_by_protocol;
use crate::api::status::pages::refused;
use crate::placement::NodeId;
use silverback_host::Counts;
use silverback_host::metrics::{self, Family, Metric, MetricKind};
use silverback_model::{ExemplarRejected, MetadataRejected, RefusedReason};
use silverback_storage::message::{AcceptorCounts, CoreStats, ShardStats};
use silverback_storage::wal::LogCounts;

/// All families of the node itself.
pub(crate) fn families(cores: &[CoreStats], ready: bool) -> Vec<Family> {
    let ready = f64::from(u8::from(ready));
    let mut families = vec![
        Family::single("silverback_ready", MetricKind::Gauge, "Whether the node takes writes.", ready),
        refused_samples(cores),
        refused_exemplars(cores),
        refused_metadata(cores),
        write_requests(cores),
        refused_requests(cores),
        refused_queries(cores),
    ];
    families.extend(told(ShardStats::METRICS, cores, |core| &core.shard));
    families.extend(told(LogCounts::METRICS, cores, |core| &core.shard.log.counts));
    families.extend(derived(cores));
    families.extend(told(AcceptorCounts::METRICS, cores, |core| &core.acceptor));
    families.extend(told(Counts::METRICS, cores, |core| &core.executor));
    families
}

fn told<T: 'static>(
    metrics: &'static [Metric<T>],
    cores: &[CoreStats],
    of: fn(&CoreStats) -> &T,
) -> impl Iterator<Item = Family> {
    metrics.iter().map(move |metric| metric.family(cores.iter().map(|core| (core.shard.shard, of(core)))))
}

/// What no counter says by itself.
fn derived(cores: &[CoreStats]) -> [Family; 4] {
    let of =
        |name, help, value: fn(&ShardStats) -> f64| of_shards(cores, name, help, |core| value(&core.shard));
    let is_shut = |shard: &ShardStats| f64::from(u8::from(shard.log.is_shut()));
    let unavailable = "1: the disk is full, hangs or failed, or no checkpoint could be written: the log accepts \
                       nothing.";
    let in_flight = "For how long the group that is on its way to the disk has been so; 0 where none is.";
    [
        of("silverback_chunks", "Chunks in memory, open and sealed.", |s| {
            (s.series + s.sealed_chunks) as f64
        }),
        of("silverback_wal_commit_in_flight_seconds", in_flight, |s| s.log.commit_in_flight_us as f64 / 1e6),
        of("silverback_wal_unavailable", unavailable, is_shut),
        of("silverback_wal_shut", "The former name of silverback_wal_unavailable, until 0.2.", is_shut),
    ]
}

/// A gauge with one number of each shard.
pub(super) fn of_shards(
    cores: &[CoreStats],
    name: &'static str,
    help: &'static str,
    value: impl Fn(&CoreStats) -> f64,
) -> Family {
    Family::by(
        "shard",
        name,
        MetricKind::Gauge,
        help,
        cores.iter().map(|core| (core.shard.shard.0, value(core))),
    )
}

/// Where each shard runs.
pub(crate) fn placement(cpus: &[usize], nodes: &[NodeId]) -> Family {
    let help = "The CPU that a shard is pinned to, and its NUMA node: always 1.";
    let mut family = Family::new("silverback_shard_cpu", MetricKind::Gauge, help);
    for (shard, (cpu, node)) in cpus.iter().zip(nodes).enumerate() {
        let labels = [("shard", shard.to_string()), ("cpu", cpu.to_string()), ("node", node.to_string())];
        family.push(labels, 1.0);
    }
    family
}

/// Every reason, also those that never came up: an alert on one needs its zero.
fn refused_samples(cores: &[CoreStats]) -> Family {
    let name = "silverback_samples_refused_total";
    let help = "Samples, and OTLP data points, that were not stored, by reason.";
    let counts = refused(cores);
    let numbers = RefusedReason::ALL.map(|reason| (reason.as_str(), counts.get(reason) as f64));
    Family::by("reason", name, MetricKind::Counter, help, numbers)
}

fn refused_exemplars(cores: &[CoreStats]) -> Family {
    let help = "Exemplars that were not kept, by reason. Remote write 2 is answered with 400 then, nothing else fails for them.";
    let of = |reason| {
        let of_core = |core: &CoreStats| {
            core.acceptor.exemplars_refused.get(reason) + core.shard.exemplars_refused.get(reason)
        };
        cores.iter().map(of_core).sum::<u64>() as f64
    };
    let numbers = ExemplarRejected::ALL.map(|reason| (reason.as_str(), of(reason)));
    Family::by("reason", "silverback_exemplars_refused_total", MetricKind::Counter, help, numbers)
}

fn refused_metadata(cores: &[CoreStats]) -> Family {
    let help = "Metadata that was not kept, by reason. It fails no request.";
    let of = |reason| {
        let of_core = |core: &CoreStats| {
            core.acceptor.metadata_refused.get(reason) + core.shard.metadata_refused.get(reason)
        };
        cores.iter().map(of_core).sum::<u64>() as f64
    };
    let numbers = MetadataRejected::ALL.map(|reason| (reason.as_str(), of(reason)));
    Family::by("reason", "silverback_metadata_refused_total", MetricKind::Counter, help, numbers)
}

/// The last refusals, by sender: a gauge, because who was refused long ago is forgotten.
pub(crate) fn refusals(entries: &[RefusalEntry]) -> Family {
    let help = "Samples, or requests as a whole, that were refused recently, by sender, job and reason.";
    let mut family = Family::new("silverback_recent_refusals", MetricKind::Gauge, help);
    for RefusalEntry { peer, job, reason, unit, count, .. } in entries {
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
    let numbers = requests_by_protocol(cores).map(|(protocol, requests)| (protocol, requests as f64));
    Family::by("protocol", name, MetricKind::Counter, help, numbers)
}

/// How often the files of users, tokens and certificates were read again, and until when certificates hold.
pub(crate) fn reloads(reloads: &Reloads) -> impl Iterator<Item = Family> {
    let not_after = Family::by(
        "certificate",
        "silverback_tls_certificate_not_after_timestamp_seconds",
        MetricKind::Gauge,
        "When certificates expire: the node's own, of those that it sends with it the first, and of its clients' CAs \
         the first.",
        reloads.not_after_ms().map(|(role, at_ms)| (role.as_str(), at_ms as f64 / 1e3)),
    );
    metrics::families(Reloads::METRICS, reloads).chain([not_after])
}

/// Queries that have no answer because of what they took, or would have.
fn refused_queries(cores: &[CoreStats]) -> Family {
    let help = "PromQL queries that were refused, or ended before their end, by reason: too many waited, the time was \
                over, too many samples or too much memory at a time, no memory beside others, canceled on demand.";
    let numbers = [
        ("too_many", sum(cores, |a| a.queries_without_turn)),
        ("timeout", sum(cores, |a| a.queries_timed_out)),
        ("too_many_samples", sum(cores, |a| a.queries_of_too_many_samples)),
        ("too_much_memory", sum(cores, |a| a.queries_of_too_much_memory)),
        ("no_room", sum(cores, |a| a.queries_without_room)),
        ("canceled", sum(cores, |a| a.queries_canceled)),
    ];
    Family::by("reason", "silverback_queries_refused_total", MetricKind::Counter, help, numbers)
}

fn sum(cores: &[CoreStats], of: fn(&AcceptorCounts) -> u64) -> f64 {
    cores.iter().map(|core| of(&core.acceptor)).sum::<u64>() as f64
}

/// What was refused before an endpoint saw it.
fn refused_requests(cores: &[CoreStats]) -> Family {
    let name = "silverback_http_requests_refused_total";
    let help = "HTTP and gRPC requests refused for where they came from (to a host that isn't the node's, from a web \
                page of another site, at an address for others) or for who sent them (no credentials, wrong ones, a \
                scope that they don't have, passwords that could not be checked).";
    let numbers = [
        ("host", sum(cores, |a| a.refused_by_host)),
        ("origin", sum(cores, |a| a.refused_by_origin)),
        ("address", sum(cores, |a| a.refused_by_address)),
        ("no_credentials", sum(cores, |a| a.refused_without_credentials)),
        ("wrong_credentials", sum(cores, |a| a.refused_by_credentials)),
        ("scope", sum(cores, |a| a.refused_by_scope)),
        ("unchecked", sum(cores, |a| a.refused_unchecked)),
    ];
    Family::by("reason", name, MetricKind::Counter, help, numbers)
}
