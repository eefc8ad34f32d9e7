//! A memory limit taken apart: what the node itself needs, what writes and reads in flight may take,
//! and what is left for each shard's series. Plain arithmetic; who found the limit is not known here.

use super::{
    BLOCK_BYTES_MAX, BODY_BYTES_MAX, CONNECTION_BYTES, DECODED_BYTES_MAX, HANDSHAKE_BYTES, HANDSHAKES_MAX,
    HEAD_BYTES_MAX, HEAD_BYTES_MIN, HISTOGRAM_LOOKUP_BYTES_MAX, HISTOGRAM_LOOKUPS_BYTES_MAX,
    HISTOGRAM_SCRATCH_BYTES_KEPT, ID_CACHE_ENTRIES_MAX, ID_CACHE_ENTRY_BYTES, IN_FLIGHT_BYTES_MAX,
    LINE_GROWTH_BYTES_MAX, PART_BYTES_MAX, READ_BYTES_MAX, READ_BYTES_MIN, READING_BYTES_MAX,
    READING_BYTES_MIN, READS_PER_CORE_MAX, RESUMED_BYTES_MAX, SHARDS_MAX, SORTING_BYTES_MAX,
    SYMBOL_BYTES_MAX, TLS_CONNECTION_BYTES,
};

const MIB: usize = 1 << 20;

/// The process without executors: its code, its runtime, its threads.
const PROCESS_BYTES: usize = 16 * MIB;
/// An executor without a request: its ring's registered buffers, its lanes, its stacks, what its shard sorts samples
/// and reads histograms with.
const EXECUTOR_BYTES: usize = 24 * MIB;
const _: () = assert!(
    HISTOGRAM_SCRATCH_BYTES_KEPT + HISTOGRAM_LOOKUP_BYTES_MAX <= EXECUTOR_BYTES / 64,
    "hardly seen in it"
);
const _: () = assert!(SORTING_BYTES_MAX <= EXECUTOR_BYTES / 12, "a small part of it");
const _: () = assert!(
    HEAD_BYTES_MAX + LINE_GROWTH_BYTES_MAX <= EXECUTOR_BYTES / 32,
    "a read whose request line is rewritten is there twice for a moment, one at a time"
);
/// What a shard needs at least to be worth running.
pub(super) const SHARD_BYTES_MIN: usize = 16 * MIB;
const _: () = assert!(
    RESUMED_BYTES_MAX + HISTOGRAM_LOOKUPS_BYTES_MAX <= SHARD_BYTES_MIN / 2,
    "what is sent again leaves its series their place"
);

/// Requests in flight get this fraction of the limit, all cores together.
const IN_FLIGHT_SHARE: usize = 8;
/// Of these, small requests have this fraction to themselves, so that few large ones don't have all others refused.
pub const SMALL_REQUESTS_SHARE: usize = 16;
/// Pools keep this fraction of what may be in flight for later requests.
const POOL_SHARE: usize = 4;
/// Of that, this fraction is for parts, the rest for bodies.
const PART_POOL_SHARE: usize = 4;
/// One request may take this fraction of its core's bound as it arrives, and as much decompressed;
/// the rest is for its labels written out and its samples.
const BODY_SHARE: usize = 4;
/// The series that gRPC streams define get this fraction of the limit, all cores together.
const DEFINITION_SHARE: usize = 32;
/// The ids that decoders remember get this fraction of the limit, all cores together.
const ID_CACHE_SHARE: usize = 32;
/// Reads in flight get this fraction of the limit, all cores together.
const READ_SHARE: usize = 32;
/// Queries and answers that are made whole may be given this fraction of the limit at most.
const QUERY_SHARE_MAX: usize = 4;
const _: () = assert!(QUERY_SHARE_MAX == 4, "its refusal says a quarter");
/// What reads collect in the shards gets this fraction of the limit, all shards together: 16 bytes for
/// each series that fits.
const SELECT_SHARE: usize = 28;
/// So many times that is planned: the oldest read may have as much again beyond it.
pub const SELECTS_PLANNED: usize = 2;

/// Reads of blocks on disk, and what is kept of their files, get this fraction of the limit, a half each.
const BLOCK_SHARE: usize = 64;

/// Of what is left for series, this part in a hundred is the allocator's: pages that are held for
/// one block, and the bookkeeping. The accounting is tested to be nearer than this.
const ALLOCATOR_PERCENT: usize = 10;

/// The buffers of connections get this fraction of the limit, all cores together, ...
const CONNECTION_SHARE: usize = 16;
/// ... in so many parts: ...
const CONNECTION_PARTS: usize = 8;
/// ... for as many connections as there may be, with a head each that is on its way, ...
const IDLE_PARTS: usize = 5;
/// ... and for what comes ahead of requests in flight. The rest is for HTTP/2 requests and their heads.
const READING_PARTS: usize = 2;
const _: () = assert!(IDLE_PARTS + READING_PARTS < CONNECTION_PARTS);
/// Where connections are encrypted, handshakes in flight get this many of the parts that others have as connections.
const HANDSHAKE_PARTS: usize = 1;
const _: () = assert!(HANDSHAKE_PARTS < IDLE_PARTS);
/// Connections of all cores, where that leaves each its least.
const CONNECTIONS_MAX: usize = 10_000;
/// Connections of one core that may be read while requests of theirs are in flight, where that leaves
/// each its least.
const READING_MAX: usize = 1024;

/// Of what requests and reads don't take of their part now, one in so many is kept free for them while
/// the samples of known series fill the rest. What gives way to them has that much at least.
const PASSING_KEPT_SHARE: usize = 4;

/// New series are refused from this part in a hundred of a shard's budget on: the rest is for the
/// samples of the known ones.
pub const NEW_SERIES_PERCENT: usize = 90;
/// A shard accepts again what it refused when it holds this part in a hundred of its budget less
/// than where it began to refuse: a node at its limit must not change its mind with every request.
pub const RECOVERY_PERCENT: usize = 3;
const _: () =
    assert!(RECOVERY_PERCENT < 100 - NEW_SERIES_PERCENT, "full is left before new series are let in");

/// The automatic limit in parts in a hundred of what the machine or the cgroup has. The rest is the
/// kernel's: a cgroup is charged for socket buffers (up to 128 KiB a connection that is read slowly),
/// page tables and the pages of files being written as well.
pub const AUTO_LIMIT_PERCENT: usize = 85;

// A lone request of the largest size that is accepted fits what its core may have in flight.
const _: () = assert!(IN_FLIGHT_BYTES_MAX / BODY_SHARE >= BODY_BYTES_MAX);
const _: () = assert!(IN_FLIGHT_BYTES_MAX / BODY_SHARE >= DECODED_BYTES_MAX);
const _: () = assert!(
    BODY_BYTES_MAX + 2 * DECODED_BYTES_MAX + SYMBOL_BYTES_MAX + PART_BYTES_MAX
        <= IN_FLIGHT_BYTES_MAX - IN_FLIGHT_BYTES_MAX / SMALL_REQUESTS_SHARE,
    "body, decompressed, label sets written out, symbols, parts"
);
// At the floor there is something left, on one core and on the most.
const _: () = assert!(MemoryPlan::new(MemoryPlan::floor_bytes(1), 1).is_ok());
const _: () = assert!(MemoryPlan::new(MemoryPlan::floor_bytes(SHARDS_MAX), SHARDS_MAX).is_ok());

/// How a limit is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Resident memory of the whole process.
    pub limit_bytes: usize,
    /// Series, chunks and index of one shard.
    pub shard_bytes: usize,
    /// Requests in flight on one core.
    pub in_flight_bytes: usize,
    /// Bodies and parts that one core keeps for later requests.
    pub pool_bytes: usize,
    /// A request body as it arrives, and as much again decompressed.
    pub body_bytes: usize,
    /// The series that one core's gRPC streams define.
    pub definition_bytes: usize,
    /// Label sets that one core's decoder remembers.
    pub id_cache_entries: usize,
    /// Reads in flight on one core: their requests, answers that are made whole, and what queries hold.
    pub read_bytes: usize,
    /// Reads in flight on one core.
    read_places: usize,
    /// What reads collect in one shard: series that open selects have found. The oldest read may have as
    /// much again.
    pub select_bytes: usize,
    /// What reads of blocks on disk hold and what is kept of their files, of the whole node.
    pub block_bytes: usize,
    /// Buffers of one core's connections.
    pub connection_bytes: usize,
    /// Connections of one core, ...
    pub connections_max: usize,
    /// ... and what is buffered of each of them that doesn't read ahead of its requests.
    pub head_bytes: usize,
    /// TLS handshakes in flight on one core; none where connections aren't encrypted.
    pub handshakes_max: usize,
    /// One core's HTTP/2 requests in flight with their heads, beyond what each connection has of its own for them.
    pub stream_head_bytes: usize,
    /// Connections of one core that may be read while requests of theirs are in flight, ...
    pub reading_max: usize,
    /// ... and what is buffered of each of them.
    pub reading_bytes: usize,
    /// What the plan allows for that no core counts: process, blocks on disk, executors, connections, allocator.
    pub uncounted_bytes: usize,
}

/// What a core has, or may have, of what gives way to the samples of known series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivingWay {
    /// Writes in flight.
    pub in_flight_bytes: usize,
    /// The series that gRPC streams define.
    pub definition_bytes: usize,
    /// Reads' requests, and answers that are made whole.
    pub read_bytes: usize,
}

/// A limit that leaves too little for series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a memory limit of {limit_bytes} bytes is too small for {cores} shards: they need {} MiB at least; \
     raise --memory-limit, or run fewer --shards", floor_bytes / MIB
)]
pub struct MemoryLimitError {
    /// The limit.
    pub limit_bytes: usize,
    /// The shards that it was to serve.
    pub cores: usize,
    /// The least that would do.
    pub floor_bytes: usize,
}

/// More for queries than a limit has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a query memory of {query_bytes} bytes is too large for a memory limit of {limit_bytes} bytes: at most a \
     quarter of the limit is for queries, and series need their least; lower --query-memory, or raise \
     --memory-limit"
)]
pub struct QueryMemoryError {
    /// What was asked for.
    pub query_bytes: usize,
    /// The limit that it is a part of.
    pub limit_bytes: usize,
}

impl MemoryPlan {
    /// Shares a limit out over `cores`, each with an acceptor and a shard.
    pub const fn new(limit_bytes: usize, cores: usize) -> Result<Self, MemoryLimitError> {
        let read_bytes = min(limit_bytes / READ_SHARE / cores, READ_BYTES_MAX);
        // Half of what they have is for the least that each takes.
        let places = read_bytes / 2 / READ_BYTES_MIN;
        let places = if places == 0 { 1 } else { min(places, READS_PER_CORE_MAX) };
        match Self::planned(limit_bytes, cores, read_bytes, places) {
            Some(plan) => Ok(plan),
            None => Err(MemoryLimitError { limit_bytes, cores, floor_bytes: Self::floor_bytes(cores) }),
        }
    }

    /// The same with so many bytes for what queries hold and for answers that are made whole, of all cores together.
    /// What that is more, or less, series have less, or more.
    pub const fn with_query_bytes(&self, query_bytes: usize, cores: usize) -> Result<Self, QueryMemoryError> {
        let limit_bytes = self.limit_bytes;
        let too_large = QueryMemoryError { query_bytes, limit_bytes };
        if query_bytes > limit_bytes / QUERY_SHARE_MAX {
            return Err(too_large);
        }
        let read_bytes = self.read_places * READ_BYTES_MIN + query_bytes / cores;
        match Self::planned(limit_bytes, cores, read_bytes, self.read_places) {
            Some(plan) => Ok(plan),
            None => Err(too_large),
        }
    }

    /// `None`: too little is left for series.
    const fn planned(
        limit_bytes: usize,
        cores: usize,
        read_bytes: usize,
        read_places: usize,
    ) -> Option<Self> {
        let in_flight_bytes = min(limit_bytes / IN_FLIGHT_SHARE / cores, IN_FLIGHT_BYTES_MAX);
        let pool_bytes = Self::pool_bytes_of(in_flight_bytes);
        let id_cache_entries = id_cache_entries(limit_bytes / ID_CACHE_SHARE / cores);
        let definition_bytes = limit_bytes / DEFINITION_SHARE / cores;
        let kept_bytes = pool_bytes + definition_bytes + id_cache_entries * ID_CACHE_ENTRY_BYTES;
        let select_bytes = limit_bytes / SELECT_SHARE / cores;
        let connection_bytes = limit_bytes / CONNECTION_SHARE / cores;
        let of_reading = connection_bytes / CONNECTION_PARTS * READING_PARTS;
        let reading_bytes = clamp(of_reading / READING_MAX, READING_BYTES_MIN, READING_BYTES_MAX);
        let of_idle = connection_bytes / CONNECTION_PARTS * IDLE_PARTS;
        let idle_bytes = of_idle * cores / CONNECTIONS_MAX;
        let head_bytes = clamp(idle_bytes.saturating_sub(CONNECTION_BYTES), HEAD_BYTES_MIN, HEAD_BYTES_MAX);
        let of_reads = read_bytes + SELECTS_PLANNED * select_bytes;
        let of_a_core = EXECUTOR_BYTES + in_flight_bytes + kept_bytes + of_reads + connection_bytes;
        let block_bytes = min(limit_bytes / BLOCK_SHARE, BLOCK_BYTES_MAX);
        let reserve_bytes = PROCESS_BYTES + block_bytes + cores * of_a_core;
        let for_series = limit_bytes.saturating_sub(reserve_bytes);
        let shard_bytes = for_series / 100 * (100 - ALLOCATOR_PERCENT) / cores;
        if shard_bytes < SHARD_BYTES_MIN {
            return None;
        }
        Some(Self {
            limit_bytes,
            shard_bytes,
            in_flight_bytes,
            pool_bytes,
            body_bytes: in_flight_bytes / BODY_SHARE,
            definition_bytes,
            id_cache_entries,
            read_bytes,
            read_places,
            select_bytes,
            block_bytes,
            connection_bytes,
            connections_max: of_idle / (CONNECTION_BYTES + head_bytes),
            head_bytes,
            handshakes_max: 0,
            stream_head_bytes: connection_bytes - of_idle - of_reading,
            reading_max: of_reading / reading_bytes,
            reading_bytes,
            uncounted_bytes: PROCESS_BYTES
                + block_bytes
                + cores * (EXECUTOR_BYTES + connection_bytes)
                + (for_series - shard_bytes * cores),
        })
    }

    /// The same for connections that are encrypted: fewer, because each takes more, and handshakes have their part.
    pub const fn with_tls(self) -> Self {
        let part_bytes = self.connection_bytes / CONNECTION_PARTS;
        let of_idle = part_bytes * (IDLE_PARTS - HANDSHAKE_PARTS);
        Self {
            connections_max: of_idle / (CONNECTION_BYTES + TLS_CONNECTION_BYTES + self.head_bytes),
            handshakes_max: min(part_bytes * HANDSHAKE_PARTS / HANDSHAKE_BYTES, HANDSHAKES_MAX),
            ..self
        }
    }

    /// What a connection takes by itself, in bytes.
    pub const fn connection_own_bytes(&self) -> usize {
        CONNECTION_BYTES + if self.handshakes_max > 0 { TLS_CONNECTION_BYTES } else { 0 }
    }

    /// Reads that a core may have in flight: each takes [`READ_BYTES_MIN`] at least.
    pub const fn reads_max(&self) -> usize {
        self.read_places
    }

    /// What queries, answers that are made whole, and requests of reads may take on a core beside that.
    pub const fn read_answer_bytes(&self) -> usize {
        self.read_bytes.saturating_sub(self.reads_max() * READ_BYTES_MIN)
    }

    /// The least limit for so many cores, in whole MiB: what they need, and what of the limit goes
    /// in shares.
    pub const fn floor_bytes(cores: usize) -> usize {
        let for_series = (SHARD_BYTES_MIN * 100).div_ceil(100 - ALLOCATOR_PERCENT) + MIB;
        let needed = PROCESS_BYTES + cores * (EXECUTOR_BYTES + for_series);
        (needed / (SHARES - SHARED_OUT) * SHARES).next_multiple_of(MIB) + MIB
    }

    /// What requests, reads and what is kept for them may take on one core, all together.
    pub(crate) const fn passing_bytes(&self) -> usize {
        let kept_bytes =
            self.pool_bytes + self.definition_bytes + self.id_cache_entries * ID_CACHE_ENTRY_BYTES;
        self.in_flight_bytes + kept_bytes + self.read_bytes + SELECTS_PLANNED * self.select_bytes
    }

    /// How much more the samples of known series may take on each core, where the process has
    /// `resident_bytes` and requests and reads have `passing_bytes` of these. New series have stopped long
    /// before: by what shards hold, while this goes by what is really left.
    pub const fn room_bytes(&self, resident_bytes: usize, passing_bytes: usize, cores: usize) -> usize {
        let untaken_bytes = (cores * self.passing_bytes()).saturating_sub(passing_bytes);
        let free_bytes = self.limit_bytes.saturating_sub(resident_bytes);
        free_bytes.saturating_sub(min(untaken_bytes, cores * self.passing_kept_bytes())) / cores
    }

    /// What is left for requests and reads of a core, whatever known series take: writes in flight, definitions and
    /// answers that are made whole give way, and all else may come to what is planned for it.
    const fn passing_kept_bytes(&self) -> usize {
        let giving_way_bytes = self.giving_way_bytes();
        self.passing_bytes() - giving_way_bytes + giving_way_bytes / PASSING_KEPT_SHARE
    }

    /// What one core's requests and reads have that gives way to known series, and what is kept for later ones.
    const fn giving_way_bytes(&self) -> usize {
        self.in_flight_bytes + self.pool_bytes + self.definition_bytes + self.read_answer_bytes()
    }

    /// What one core's requests and reads may take for now that have `taken` of it, where the process has
    /// `resident_bytes`: known series may have taken what was planned for them. What doesn't give way has `other_bytes`
    /// of its part on the core, and may come to all of that.
    pub const fn giving_way_beside(
        &self,
        resident_bytes: usize,
        taken: GivingWay,
        other_bytes: usize,
        cores: usize,
    ) -> GivingWay {
        let other_untaken_bytes =
            (self.passing_bytes() - self.giving_way_bytes()).saturating_sub(other_bytes);
        let free_bytes =
            (self.limit_bytes.saturating_sub(resident_bytes) / cores).saturating_sub(other_untaken_bytes);
        // What is left of it is for what is kept when they have ended.
        GivingWay {
            in_flight_bytes: beside(self.in_flight_bytes, taken.in_flight_bytes, free_bytes / 2),
            definition_bytes: beside(self.definition_bytes, taken.definition_bytes, free_bytes / 8),
            read_bytes: beside(self.read_answer_bytes(), taken.read_bytes, free_bytes / 8),
        }
    }

    const fn pool_bytes_of(in_flight_bytes: usize) -> usize {
        in_flight_bytes / POOL_SHARE
    }

    /// What bodies may be kept, in bytes, where so many bytes may be in flight.
    pub const fn body_pool_bytes_of(in_flight_bytes: usize) -> usize {
        let pool_bytes = Self::pool_bytes_of(in_flight_bytes);
        pool_bytes - pool_bytes / PART_POOL_SHARE
    }

    /// What parts may be kept, in bytes.
    pub const fn part_pool_bytes(&self) -> usize {
        self.pool_bytes / PART_POOL_SHARE
    }

    /// What a shard may hold when `uncounted_bytes` of the resident memory belong to nobody: what
    /// goes beyond the plan is taken from the shards, because the limit is the process's.
    pub const fn shard_bytes_beside(&self, uncounted_bytes: usize, cores: usize) -> usize {
        let beyond = uncounted_bytes.saturating_sub(self.uncounted_bytes);
        self.shard_bytes.saturating_sub(beyond.div_ceil(cores))
    }
}

/// What may be taken of what is planned, where `taken_bytes` of it are and so many more are free for it.
const fn beside(planned_bytes: usize, taken_bytes: usize, free_bytes: usize) -> usize {
    clamp(taken_bytes.saturating_add(free_bytes), planned_bytes / PASSING_KEPT_SHARE, planned_bytes)
}

/// As many as such a cache grows to: it doubles until it would be larger than its share.
const fn id_cache_entries(bytes: usize) -> usize {
    let entries = bytes / ID_CACHE_ENTRY_BYTES;
    if entries == 0 { 0 } else { min(1 << entries.ilog2(), ID_CACHE_ENTRIES_MAX) }
}

/// A limit in parts of which each share is a whole number, ...
const SHARES: usize = IN_FLIGHT_SHARE * POOL_SHARE * ID_CACHE_SHARE * SELECT_SHARE;
/// ... and how many of them are shared out before series get any.
const SHARED_OUT: usize = SHARES / IN_FLIGHT_SHARE
    + SHARES / IN_FLIGHT_SHARE / POOL_SHARE
    + SHARES / ID_CACHE_SHARE
    + SHARES / DEFINITION_SHARE
    + SHARES / READ_SHARE
    + SELECTS_PLANNED * SHARES / SELECT_SHARE
    + SHARES / BLOCK_SHARE
    + SHARES / CONNECTION_SHARE;
const _: () = assert!(
    DEFINITION_SHARE == ID_CACHE_SHARE && READ_SHARE == ID_CACHE_SHARE && SHARED_OUT < SHARES / 2,
    "whole numbers, and most of a limit is for series"
);

const fn clamp(bytes: usize, least: usize, most: usize) -> usize {
    if bytes < least { least } else { min(bytes, most) }
}

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a plan lets the process take stays within the limit.
    fn check(limit_mib: usize, cores: usize) -> MemoryPlan {
        let plan = MemoryPlan::new(limit_mib * MIB, cores).unwrap();
        let ids = plan.id_cache_entries * ID_CACHE_ENTRY_BYTES;
        let kept = plan.pool_bytes + plan.definition_bytes + ids;
        let reads = plan.read_bytes + 2 * plan.select_bytes;
        let of_a_core = plan.shard_bytes + plan.in_flight_bytes + kept + reads;
        assert!(cores * of_a_core + plan.uncounted_bytes <= plan.limit_bytes, "{plan:?}");
        assert!(plan.shard_bytes >= SHARD_BYTES_MIN);
        plan
    }

    #[test]
    fn a_plan_stays_within_its_limit_whatever_the_machine() {
        for cores in [1, 2, 3, 8, 64, SHARDS_MAX] {
            let floor_mib = MemoryPlan::floor_bytes(cores) / MIB;
            for limit_mib in [floor_mib, floor_mib + 100, 2 * floor_mib, 10 * floor_mib, 1 << 20] {
                check(limit_mib.max(floor_mib), cores);
            }
        }
    }

    #[test]
    fn a_large_limit_leaves_bodies_their_full_size_and_most_of_itself_to_series() {
        let plan = check(16 << 10, 2);
        assert_eq!(plan.in_flight_bytes, IN_FLIGHT_BYTES_MAX);
        assert!(plan.body_bytes >= BODY_BYTES_MAX && plan.id_cache_entries == ID_CACHE_ENTRIES_MAX);
        assert!(2 * plan.shard_bytes > plan.limit_bytes / 100 * 65);
    }

    #[test]
    fn a_small_limit_shrinks_what_requests_may_take() {
        let plan = check(256, 1);
        assert_eq!(plan.in_flight_bytes, 256 * MIB / IN_FLIGHT_SHARE);
        assert!(plan.body_bytes >= 8 * MIB && plan.shard_bytes > 100 * MIB, "{plan:?}");
    }

    #[test]
    fn below_the_floor_the_least_that_would_do_is_told() {
        for cores in [1, 2, 16] {
            let floor_bytes = MemoryPlan::floor_bytes(cores);
            assert!(floor_bytes < cores * 80 * MIB + 20 * MIB, "{cores}: {floor_bytes}");
            let refused = MemoryPlan::new(floor_bytes / 2, cores).unwrap_err();
            assert_eq!((refused.cores, refused.floor_bytes), (cores, floor_bytes));
            let text = refused.to_string();
            assert!(
                text.contains(&format!("{} MiB", floor_bytes / MIB)) && text.contains("--memory-limit"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_reads_collect_fits_a_number_for_each_series_and_is_planned_twice() {
        for limit_mib in [128, 256, 1024, 16 << 10] {
            let plan = check(limit_mib, 1);
            let series = plan.shard_bytes / 450;
            assert!(plan.select_bytes >= 16 * series, "{plan:?}");
            assert!(plan.reads_max() >= 1 && plan.read_bytes >= plan.reads_max() * READ_BYTES_MIN);
        }
    }

    #[test]
    fn what_queries_are_given_is_taken_from_series_and_no_read_loses_its_place() {
        for (limit_mib, cores) in [(256, 1), (1024, 2), (64 << 10, 16)] {
            let plan = check(limit_mib, cores);
            let query_bytes = plan.limit_bytes / 8;
            let wide = plan.with_query_bytes(query_bytes, cores).unwrap();
            let of_all = cores * wide.read_answer_bytes();
            assert!(of_all <= query_bytes && query_bytes - of_all < cores, "{wide:?}");
            assert_eq!((wide.reads_max(), wide.in_flight_bytes), (plan.reads_max(), plan.in_flight_bytes));
            let reads = wide.read_bytes + 2 * wide.select_bytes;
            let kept = wide.pool_bytes + wide.definition_bytes + wide.id_cache_entries * ID_CACHE_ENTRY_BYTES;
            let of_a_core = wide.shard_bytes + wide.in_flight_bytes + kept + reads;
            assert!(cores * of_a_core + wide.uncounted_bytes <= wide.limit_bytes, "{wide:?}");
            assert!(wide.shard_bytes < plan.shard_bytes);
            let narrow = plan.with_query_bytes(0, cores).unwrap();
            assert!(narrow.read_answer_bytes() == 0 && narrow.shard_bytes > plan.shard_bytes);
            assert_eq!(plan.with_query_bytes(cores * plan.read_answer_bytes(), cores), Ok(plan));
            let refused = plan.with_query_bytes(plan.limit_bytes / 3, cores).unwrap_err();
            assert!(refused.to_string().contains("--query-memory"), "{refused}");
        }
        let floor = MemoryPlan::floor_bytes(1);
        assert!(
            MemoryPlan::new(floor, 1).unwrap().with_query_bytes(floor / 4, 1).is_err(),
            "no room for series"
        );
    }

    #[test]
    fn buffers_of_connections_fit_their_part_of_the_limit_however_small() {
        for (limit_mib, cores) in [(128, 1), (217, 2), (1024, 2), (20 << 10, 2), (64 << 10, 16)] {
            let plan = check(limit_mib, cores);
            let connections = plan.connections_max * (CONNECTION_BYTES + plan.head_bytes)
                + plan.reading_max * plan.reading_bytes
                + plan.stream_head_bytes;
            assert!(cores * connections <= plan.limit_bytes / CONNECTION_SHARE, "{plan:?}");
            assert!(plan.reading_max >= 12 && plan.connections_max >= 50, "{plan:?}");
            // Of usual size, some 10 KiB each.
            assert!(plan.stream_head_bytes >= 80 * (10 << 10), "{plan:?}");
        }
    }

    #[test]
    fn buffers_of_encrypted_connections_fit_the_same_part() {
        for (limit_mib, cores) in [(128, 1), (217, 2), (1024, 2), (20 << 10, 2), (64 << 10, 16)] {
            let plain = check(limit_mib, cores);
            let plan = plain.with_tls();
            let connections = plan.connections_max * (plan.connection_own_bytes() + plan.head_bytes)
                + plan.handshakes_max * HANDSHAKE_BYTES
                + plan.reading_max * plan.reading_bytes
                + plan.stream_head_bytes;
            assert!(cores * connections <= plan.limit_bytes / CONNECTION_SHARE, "{plan:?}");
            assert!(plan.handshakes_max >= 8 && plan.connections_max >= 30, "{plan:?}");
            assert_eq!(
                MemoryPlan { connections_max: 0, handshakes_max: 0, ..plan },
                MemoryPlan { connections_max: 0, ..plain }
            );
        }
    }

    #[test]
    fn known_series_go_on_to_the_end_of_the_limit_and_leave_requests_their_least() {
        for (limit_mib, cores) in [(128, 1), (217, 2), (256, 1), (4096, 8)] {
            let plan = check(limit_mib, cores);
            let idle = plan.uncounted_bytes + cores * plan.shard_bytes;
            let room = |resident, passing| plan.room_bytes(resident, passing, cores);
            // Beyond what the plan has for series there is most of what writes in flight don't take.
            let giving_way = plan.giving_way_bytes();
            assert!(room(idle, 0) * 2 > giving_way && room(idle, 0) < giving_way, "{plan:?}");
            assert_eq!(room(plan.limit_bytes, 0), 0);
            let passing = cores * plan.passing_bytes();
            assert_eq!(room(plan.limit_bytes - 10 * cores, passing), 10, "they have all of theirs");
            let beside = |resident, taken| plan.giving_way_beside(resident, taken, 0, cores);
            let most = GivingWay {
                in_flight_bytes: plan.in_flight_bytes,
                definition_bytes: plan.definition_bytes,
                read_bytes: plan.read_answer_bytes(),
            };
            let part = |share| GivingWay {
                in_flight_bytes: most.in_flight_bytes / share,
                definition_bytes: most.definition_bytes / share,
                read_bytes: most.read_bytes / share,
            };
            assert_eq!(beside(idle / 2, GivingWay::default()), most);
            assert_eq!(beside(plan.limit_bytes, GivingWay::default()), part(PASSING_KEPT_SHARE));
            assert_eq!(beside(plan.limit_bytes, part(2)), part(2), "what is taken stays");
            assert_eq!(beside(plan.limit_bytes, most), most);
            // Known series have all that they get; then what gives way takes what it may, and all else its part.
            let full = plan.limit_bytes - cores * plan.passing_kept_bytes();
            assert_eq!(room(full, 0), 0);
            let GivingWay { in_flight_bytes, definition_bytes, read_bytes } =
                beside(full, GivingWay::default());
            let of_a_core =
                in_flight_bytes + definition_bytes + read_bytes + plan.passing_bytes() - giving_way;
            assert!(full + cores * of_a_core <= plan.limit_bytes, "{plan:?}");
        }
    }

    #[test]
    fn memory_that_nobody_counts_is_taken_from_the_shards() {
        let plan = check(1024, 2);
        assert_eq!(plan.shard_bytes_beside(0, 2), plan.shard_bytes);
        assert_eq!(plan.shard_bytes_beside(plan.uncounted_bytes, 2), plan.shard_bytes);
        assert_eq!(plan.shard_bytes_beside(plan.uncounted_bytes + 10 * MIB, 2), plan.shard_bytes - 5 * MIB);
        assert_eq!(plan.shard_bytes_beside(usize::MAX, 2), 0);
    }
}
