//! Every buffer that the network can fill: its bound on one core, and its place in the memory plan. Lanes
//! and parts have fixed places, which are the executor's; series have budgets of their own. A test adds the bounds up for each place.

use super::{HANDSHAKE_BYTES, ID_CACHE_ENTRY_BYTES, MemoryPlan, READ_BYTES_MIN};

/// A part of the memory plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryPlanPart {
    /// Buffers of connections: [`MemoryPlan::connection_bytes`].
    Connections,
    /// [`MemoryPlan::in_flight_bytes`].
    InFlight,
    /// [`MemoryPlan::pool_bytes`].
    Pools,
    /// [`MemoryPlan::definition_bytes`].
    Definitions,
    /// [`MemoryPlan::id_cache_entries`].
    KnownIds,
    /// [`MemoryPlan::read_bytes`].
    Reads,
    /// [`MemoryPlan::select_bytes`], twice.
    Selects,
}

/// One kind of buffer.
#[derive(Debug)]
pub(super) struct NetworkBuffer {
    /// What is in it.
    pub what: &'static str,
    /// Where it is planned.
    pub place: MemoryPlanPart,
    /// All of them on one core, in bytes.
    pub bytes_max: fn(&MemoryPlan) -> usize,
}

const fn buffer(
    what: &'static str,
    place: MemoryPlanPart,
    bytes_max: fn(&MemoryPlan) -> usize,
) -> NetworkBuffer {
    NetworkBuffer { what, place, bytes_max }
}

/// All of them.
pub(super) const NETWORK_BUFFERS: [NetworkBuffer; 13] = [
    // HTTP/1 keeps what a line has grown by in the place of HTTP/2's heads.
    buffer("connections, and heads of requests that are on their way", MemoryPlanPart::Connections, |plan| {
        plan.connections_max * (plan.connection_own_bytes() + plan.head_bytes)
    }),
    buffer("TLS handshakes in flight", MemoryPlanPart::Connections, |plan| {
        plan.handshakes_max * HANDSHAKE_BYTES
    }),
    buffer(
        "what HTTP/1 read buffers and HTTP/2 windows hold of requests in flight",
        MemoryPlanPart::Connections,
        |plan| plan.reading_max * plan.reading_bytes,
    ),
    buffer("HTTP/2 requests in flight, their heads and small answers", MemoryPlanPart::Connections, |plan| {
        plan.stream_head_bytes
    }),
    // Each takes its room before it grows, so the bound is of all together.
    buffer(
        "bodies and stream messages as they arrive and decompressed, labels written out, symbols, parts",
        MemoryPlanPart::InFlight,
        |plan| plan.in_flight_bytes,
    ),
    buffer("bodies that are kept for later requests", MemoryPlanPart::Pools, |plan| {
        MemoryPlan::body_pool_bytes_of(plan.in_flight_bytes)
    }),
    buffer("parts that are kept for later requests", MemoryPlanPart::Pools, MemoryPlan::part_pool_bytes),
    buffer("series that gRPC streams define, and their tables by ref", MemoryPlanPart::Definitions, |plan| {
        plan.definition_bytes
    }),
    buffer("label sets of remote write that are known again", MemoryPlanPart::KnownIds, |plan| {
        plan.id_cache_entries * ID_CACHE_ENTRY_BYTES
    }),
    buffer(
        "requests of reads, what queries hold, and answers that are made whole",
        MemoryPlanPart::Reads,
        MemoryPlan::read_answer_bytes,
    ),
    buffer("batches of reads, and what waits for their clients", MemoryPlanPart::Reads, |plan| {
        plan.reads_max() * READ_BYTES_MIN
    }),
    buffer("what reads collect in a shard", MemoryPlanPart::Selects, |plan| plan.select_bytes),
    buffer("what the oldest read collects beyond that", MemoryPlanPart::Selects, |plan| plan.select_bytes),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffers_of_each_place_fit_what_is_planned_for_it() {
        for (limit_mib, cores) in [(128usize, 1), (217, 2), (1 << 10, 2), (20 << 10, 2), (64 << 10, 16)] {
            let plain = MemoryPlan::new(limit_mib << 20, cores).unwrap();
            for plan in [plain, plain.with_tls()] {
                check_places(&plan);
            }
        }
    }

    fn check_places(plan: &MemoryPlan) {
        let check = |place, planned: usize| {
            let buffers = NETWORK_BUFFERS.iter().filter(|buffer| buffer.place == place);
            let filled: Vec<_> = buffers.map(|buffer| (buffer.what, (buffer.bytes_max)(plan))).collect();
            let sum: usize = filled.iter().map(|(_, bytes)| bytes).sum();
            assert!((1..=planned).contains(&sum), "{place:?} of {plan:?}: {filled:?}");
        };
        check(MemoryPlanPart::Connections, plan.connection_bytes);
        check(MemoryPlanPart::InFlight, plan.in_flight_bytes);
        check(MemoryPlanPart::Pools, plan.pool_bytes);
        check(MemoryPlanPart::Definitions, plan.definition_bytes);
        check(MemoryPlanPart::KnownIds, plan.id_cache_entries * ID_CACHE_ENTRY_BYTES);
        check(MemoryPlanPart::Reads, plan.read_bytes);
        check(MemoryPlanPart::Selects, 2 * plan.select_bytes);
    }
}
