//! The metric families of the node's memory: the limit, and what counts against it. What each shard may
//! take and what it refuses are among its own counters.

use silverback_host::metrics::{Family, MetricKind};
use silverback_model::limits::MemoryPlan;
use silverback_storage::message::CoreStats;

/// All of them.
pub(crate) fn families(plan: &MemoryPlan, cores: &[CoreStats]) -> Vec<Family> {
    let limit = Family::single(
        "silverback_memory_limit_bytes",
        MetricKind::Gauge,
        "Resident memory that the process may have.",
        plan.limit_bytes as f64,
    );
    vec![limit, accounted(cores)]
}

fn accounted(cores: &[CoreStats]) -> Family {
    let name = "silverback_memory_accounted_bytes";
    let mut family = Family::new(name, MetricKind::Gauge, "Memory held, by the node's own accounting.");
    for core in cores {
        let parts = [
            ("series", core.shard.memory.series_bytes as f64),
            ("chunks", core.shard.memory.chunk_bytes as f64),
            ("index", core.shard.memory.index_bytes as f64),
            ("exemplars", core.shard.memory.exemplar_bytes as f64),
            ("metadata", core.shard.memory.metadata_bytes as f64),
            ("in_flight", core.acceptor.in_flight_bytes as f64),
            ("definitions", core.acceptor.definition_bytes as f64),
            ("pools", core.acceptor.pool_bytes as f64),
            ("reads", core.acceptor.read_bytes as f64),
            ("selects", core.shard.select_bytes as f64),
        ];
        for (part, bytes) in parts {
            family.push([("part", part.to_owned()), ("shard", core.shard.shard.0.to_string())], bytes);
        }
    }
    family
}
