//! The node's memory: the limit that it runs with, and the watch over what it really takes.
//!
//! Shards and acceptors count what they hold, and each keeps within its budget. What nobody counts
//! (the process, executors, connections, what the allocator holds back) has a place in the
//! plan; where the kernel's own count says that it takes more, new series stop earlier by that. The
//! samples of known series go on as long as the process has room below its limit: they get what requests
//! and reads don't take of their part, and these are kept to their least meanwhile.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::api::handlers::Handlers;
use crate::api::ingest::Ingest;
use crate::api::query::Reader;
use crate::config::{Config, MemoryLimit};
use crate::node::NodeError;
use crate::node::assemble::Shared;
use crate::placement::Roots;
use crate::placement::memory::{AllowedMemory, allowed_memory};
use silverback_host::metrics;
use silverback_model::limits::memory::AUTO_LIMIT_PERCENT;
use silverback_model::limits::{GivingWay, MemoryPlan, READ_BYTES_MIN};
use silverback_runtime::{sleep, spawn_background};
use silverback_shipper::Shipper;
use silverback_storage::shard::{Reads, Shard};

/// How often budgets follow the kernel's count. What shards and acceptors count is bounded at every
/// request; the rest moves slowly beside this.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Looks that what isn't series must outlast before known series have less room for it: a second's.
/// Bodies and answers come and go within one.
const LOOKS: usize = 5;

/// A node's memory limit, where it comes from, and how it is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShare {
    /// How it is shared out.
    pub plan: MemoryPlan,
    asked: MemoryLimit,
    allowed: AllowedMemory,
}

impl MemoryShare {
    /// For a node of so many cores on this machine.
    pub(crate) fn of(config: &Config, cores: usize) -> Result<Self, NodeError> {
        let allowed = allowed_memory(&Roots::host())?;
        let limit_bytes = match config.memory_limit {
            MemoryLimit::Auto => allowed.bytes / 100 * AUTO_LIMIT_PERCENT,
            MemoryLimit::Fixed(bytes) => bytes,
        };
        let plan = MemoryPlan::new(limit_bytes, cores)?;
        let plan = match config.query_memory {
            None => plan,
            Some(bytes) => plan.with_query_bytes(bytes, cores)?,
        };
        // The file may say later that connections are encrypted, if it doesn't yet.
        let plan = if config.web_config_file.is_some() { plan.with_tls() } else { plan };
        let plan = match config.objstore_config_file {
            Some(_) => plan.beside(Shipper::MEMORY_BYTES, cores)?,
            None => plan,
        };
        Ok(Self { plan, asked: config.memory_limit, allowed })
    }

    /// The configuration with bodies no larger, and connections no more, than the plan has room for.
    pub(crate) fn narrow(&self, mut config: Config, cores: usize) -> Config {
        let body_bytes = self.plan.body_bytes;
        let connections = cores * self.plan.connections_max;
        if config.max_connections > connections {
            tracing::info!(connections, "the memory limit leaves room for fewer connections");
            config.max_connections = connections;
        }
        if self.plan.limit_bytes > self.allowed.bytes {
            tracing::warn!(memory = %self, "the memory limit is more than there is: the kernel may end the node");
        }
        if config.max_decoded_bytes > body_bytes {
            tracing::info!(body_bytes, "the memory limit leaves room for smaller request bodies only");
        }
        config.max_body_bytes = config.max_body_bytes.min(body_bytes);
        config.max_decoded_bytes = config.max_decoded_bytes.min(body_bytes);
        config
    }
}

/// `limit 870 MiB (85 % of the cgroup's 1024 MiB), 312 MiB of it for each shard's series, …`
impl fmt::Display for MemoryShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, asked, allowed } = self;
        let (limit, has) = (plan.limit_bytes >> 20, allowed.bytes >> 20);
        match asked {
            MemoryLimit::Auto => write!(
                f,
                "limit {limit} MiB ({AUTO_LIMIT_PERCENT} % of the {}'s {has} MiB)",
                allowed.bound.as_str()
            )?,
            MemoryLimit::Fixed(_) => {
                write!(f, "limit {limit} MiB (the {} has {has} MiB)", allowed.bound.as_str())?
            }
        }
        write!(
            f,
            ", {} MiB of it for each shard's series, {} MiB for each core's writes in flight, {} MiB for its queries; there \
             is room for bodies of {} KiB and for {} connections to each core",
            plan.shard_bytes >> 20,
            plan.in_flight_bytes >> 20,
            plan.read_answer_bytes() >> 20,
            plan.body_bytes >> 10,
            plan.connections_max,
        )
    }
}

/// What the cores report to each other of their memory: written and read a few times a second.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    plan: MemoryPlan,
    counted: Box<[Counted]>,
    shard_budget_bytes: AtomicUsize,
    resident_bytes: AtomicUsize,
}

/// What one core counts, and what follows for it.
#[derive(Debug)]
struct Counted {
    series_bytes: AtomicUsize,
    passing_bytes: AtomicUsize,
    /// What the last measure of the process allows to the samples of its known series.
    known_bytes: AtomicUsize,
}

/// Before the first measure.
const NOT_MEASURED: usize = usize::MAX;

impl Default for Counted {
    fn default() -> Self {
        Self {
            series_bytes: AtomicUsize::default(),
            passing_bytes: AtomicUsize::default(),
            known_bytes: AtomicUsize::new(NOT_MEASURED),
        }
    }
}

/// What a core holds: its shard, and its requests, reads and what is kept for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    series_bytes: usize,
    passing_bytes: usize,
    /// Of these, what gives way to the samples of known series, ...
    giving_way: GivingWay,
    /// ... and what neither does nor is kept for later requests.
    other_bytes: usize,
}

/// What a core may hold for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowed {
    /// Its shard: what new series stop short of, ...
    shard_bytes: usize,
    /// ... and what the samples of known ones may fill.
    known_bytes: usize,
    giving_way: GivingWay,
}

impl MemoryWatch {
    /// For so many cores.
    pub(crate) fn new(plan: MemoryPlan, cores: usize) -> Self {
        Self {
            plan,
            counted: std::iter::repeat_with(Counted::default).take(cores).collect(),
            shard_budget_bytes: AtomicUsize::new(plan.shard_bytes),
            resident_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes what one core counts now, and returns what it may hold. No budget is below what is held:
    /// that is there, and only what would be added can be refused.
    fn exchange(&self, core: usize, held: Held) -> Allowed {
        let Held { series_bytes, passing_bytes, giving_way, other_bytes } = held;
        self.counted[core].series_bytes.store(series_bytes, Ordering::Relaxed);
        self.counted[core].passing_bytes.store(passing_bytes, Ordering::Relaxed);
        let budget_bytes = self.shard_budget_bytes.load(Ordering::Relaxed);
        let resident_bytes = self.resident_bytes.load(Ordering::Relaxed);
        let cores = self.counted.len();
        let known_bytes = match self.counted[core].known_bytes.load(Ordering::Relaxed) {
            NOT_MEASURED => budget_bytes,
            known_bytes => known_bytes,
        };
        Allowed {
            shard_bytes: budget_bytes.max(series_bytes),
            known_bytes: known_bytes.max(series_bytes),
            giving_way: self.plan.giving_way_beside(resident_bytes, giving_way, other_bytes, cores),
        }
    }

    /// Sets the budgets by what the whole process takes, and took at the last looks.
    fn measure(&self, resident_bytes: usize, looks: &mut Looks) {
        let sum = |part: fn(&Counted) -> &AtomicUsize| -> usize {
            self.counted.iter().map(|counted| part(counted).load(Ordering::Relaxed)).sum()
        };
        let passing_bytes = sum(|counted| &counted.passing_bytes);
        let series_bytes = sum(|counted| &counted.series_bytes);
        let cores = self.counted.len();
        let uncounted_bytes = resident_bytes.saturating_sub(series_bytes + passing_bytes);
        let budget = self.plan.shard_bytes_beside(uncounted_bytes, cores);
        let lasting =
            looks.take(Look { other_bytes: resident_bytes.saturating_sub(series_bytes), passing_bytes });
        let lasting_bytes = lasting.other_bytes + series_bytes;
        let room = self.plan.room_bytes(lasting_bytes, lasting.passing_bytes, cores);
        self.shard_budget_bytes.store(budget, Ordering::Relaxed);
        for Counted { series_bytes, known_bytes, .. } in &self.counted {
            // Not on top of what a core holds when it asks: what it took since then has come out of this.
            known_bytes.store(series_bytes.load(Ordering::Relaxed) + room, Ordering::Relaxed);
        }
        self.resident_bytes.store(resident_bytes, Ordering::Relaxed);
    }
}

/// What the process took at one look beside its series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    other_bytes: usize,
    /// Of these, what requests and reads had.
    passing_bytes: usize,
}

/// The last looks.
#[derive(Debug, Default)]
struct Looks {
    last: [Option<Look>; LOOKS],
    at: usize,
}

impl Looks {
    /// Remembers a look and finds the least of the last ones. What is there at one and gone at the next was a
    /// request's: known series aren't refused for that. Series count as they are now, because they stay.
    fn take(&mut self, look: Look) -> Look {
        self.last[self.at] = Some(look);
        self.at = (self.at + 1) % LOOKS;
        self.last.iter().flatten().copied().min_by_key(|look| look.other_bytes).unwrap_or(look)
    }
}

/// Starts one core's part of the watch; the first core looks for all. It ends with the executor.
pub(crate) fn start(
    shared: &std::sync::Arc<Shared>,
    index: usize,
    handlers: &Handlers,
    (shard, reads): (Rc<RefCell<Shard>>, Rc<Reads>),
) {
    let (shared, handlers) = (std::sync::Arc::clone(shared), handlers.clone());
    spawn_background(async move {
        let mut looks = Looks::default();
        let Handlers { core, ingest, reader, .. } = &handlers;
        while !core.shutdown.is_requested() {
            sleep(WATCH_INTERVAL).await;
            let other_bytes = other_bytes(ingest, reader) + reads.bytes();
            let held = Held {
                series_bytes: shard.borrow().memory_bytes().total(),
                passing_bytes: giving_way_bytes(ingest, reader) + other_bytes,
                giving_way: giving_way(ingest, reader),
                other_bytes,
            };
            let allowed = shared.watch.exchange(index, held);
            shard.borrow_mut().set_memory_budgets(allowed.shard_bytes, allowed.known_bytes);
            let GivingWay { in_flight_bytes, definition_bytes, read_bytes } = allowed.giving_way;
            // What is kept for later requests gives way before these do: else a small one would take the room of the
            // buffer that a large one left.
            let is_short = in_flight_bytes < shared.facts.memory.in_flight_bytes;
            let kept = |bytes: usize| if is_short { 0 } else { bytes };
            ingest.bodies.allow(in_flight_bytes, kept(MemoryPlan::body_pool_bytes_of(in_flight_bytes)));
            ingest.parts.keep_at_most(kept(shared.facts.memory.part_pool_bytes()));
            ingest.definitions.allow(definition_bytes);
            reader.read_bytes.allow(read_bytes);
            if index == 0
                && let Some(resident_bytes) = metrics::resident_bytes(Path::new(metrics::PROC))
            {
                shared.watch.measure(resident_bytes as usize, &mut looks);
            }
        }
    });
}

fn giving_way(ingest: &Ingest, reader: &Reader) -> GivingWay {
    GivingWay {
        in_flight_bytes: ingest.bodies.in_use_bytes(),
        definition_bytes: ingest.definitions.taken_bytes(),
        read_bytes: reader.read_bytes.taken_bytes(),
    }
}

/// What an acceptor's requests and reads take that gives way, and what it keeps for later ones.
fn giving_way_bytes(ingest: &Ingest, reader: &Reader) -> usize {
    let GivingWay { in_flight_bytes, definition_bytes, read_bytes } = giving_way(ingest, reader);
    let kept_bytes = ingest.bodies.kept_bytes() + ingest.parts.kept_bytes();
    in_flight_bytes + definition_bytes + read_bytes + kept_bytes
}

/// What else they take.
fn other_bytes(ingest: &Ingest, reader: &Reader) -> usize {
    ingest.decoder.borrow().known_bytes() + reader.reads.in_flight() * READ_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::memory::MemoryBound;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_beyond_the_plan_shrinks_every_shard_s_budget_and_gives_it_back() {
        let plan = MemoryPlan::new(1 << 30, 2).unwrap();
        let watch = MemoryWatch::new(plan, 2);
        let held = |mib| Held {
            series_bytes: mib * MIB,
            passing_bytes: 0,
            giving_way: GivingWay::default(),
            other_bytes: 0,
        };
        let budgets = || [0, 1].map(|core| watch.exchange(core, held([100, 60][core])).shard_bytes);
        assert_eq!(budgets(), [plan.shard_bytes; 2]);
        let mut looks = Looks::default();
        watch.measure(160 * MIB + plan.uncounted_bytes + 20 * MIB, &mut looks);
        assert_eq!(budgets(), [plan.shard_bytes - 10 * MIB; 2]);
        watch.measure(160 * MIB, &mut looks);
        assert_eq!(budgets(), [plan.shard_bytes; 2]);
    }

    #[test]
    fn no_budget_sinks_below_what_is_held_and_known_series_get_what_is_left_of_the_limit() {
        let plan = MemoryPlan::new(217 * MIB, 2).unwrap();
        let watch = MemoryWatch::new(plan, 2);
        let giving_way = GivingWay { in_flight_bytes: MIB / 2, ..GivingWay::default() };
        let held = Held { series_bytes: 33 * MIB, passing_bytes: MIB, giving_way, other_bytes: MIB / 2 };
        let allowed = || [0, 1].map(|core| watch.exchange(core, held))[0];
        assert_eq!(allowed().known_bytes, plan.shard_bytes.max(33 * MIB), "not measured yet");
        let mut looks = Looks::default();
        watch.measure(154 * MIB, &mut looks);
        let beside = allowed();
        assert!(beside.shard_bytes >= 33 * MIB && beside.known_bytes > 40 * MIB, "{beside:?}");
        for _ in 1..LOOKS {
            watch.measure(216 * MIB, &mut looks);
            assert!(allowed().known_bytes > 40 * MIB, "it may be gone at the next look");
        }
        watch.measure(216 * MIB, &mut looks);
        let full = allowed();
        assert_eq!((full.shard_bytes, full.known_bytes), (33 * MIB, 33 * MIB));
        assert!(full.giving_way.in_flight_bytes < plan.in_flight_bytes / 3);
        watch.measure(100 * MIB, &mut looks);
        assert_eq!(allowed().giving_way.in_flight_bytes, plan.in_flight_bytes);
    }

    #[test]
    fn room_is_granted_once_between_two_measures() {
        let watch = MemoryWatch::new(MemoryPlan::new(217 * MIB, 2).unwrap(), 2);
        let known_bytes = |core, series_mib: usize| {
            let held = Held {
                series_bytes: series_mib * MIB,
                passing_bytes: 0,
                giving_way: GivingWay::default(),
                other_bytes: 0,
            };
            watch.exchange(core, held).known_bytes
        };
        let _ = [0, 1].map(|core| known_bytes(core, 33));
        watch.measure(154 * MIB, &mut Looks::default());
        // The first core measures; what the others reported may be as old as their last look.
        for core in [0, 1] {
            let granted = known_bytes(core, 33);
            assert!(granted > 38 * MIB, "{granted}");
            assert_eq!(known_bytes(core, 38), granted);
            assert_eq!(
                known_bytes(core, granted / MIB + 1),
                (granted / MIB + 1) * MIB,
                "what is held is held"
            );
        }
    }

    #[test]
    fn series_that_came_since_the_least_look_count_at_once() {
        let plan = MemoryPlan::new(217 * MIB, 1).unwrap();
        let watch = MemoryWatch::new(plan, 1);
        let mut looks = Looks::default();
        let mut known_bytes = |series_mib: usize, resident_mib: usize| {
            let held = Held {
                series_bytes: series_mib * MIB,
                passing_bytes: 0,
                giving_way: GivingWay::default(),
                other_bytes: 0,
            };
            watch.exchange(0, held);
            watch.measure(resident_mib * MIB, &mut looks);
            watch.exchange(0, held).known_bytes
        };
        let before = known_bytes(33, 154);
        assert_eq!(
            known_bytes(43, 216),
            before,
            "10 MiB of the room are taken, what isn't series may go again"
        );
    }

    #[test]
    fn a_share_tells_its_limit_and_where_it_comes_from() {
        let allowed = AllowedMemory { bytes: 1 << 30, bound: MemoryBound::Cgroup };
        let plan = MemoryPlan::new(870 * MIB, 1).unwrap();
        let auto = MemoryShare { plan, asked: MemoryLimit::Auto, allowed };
        assert!(auto.to_string().starts_with("limit 870 MiB (85 % of the cgroup's 1024 MiB), "), "{auto}");
        let fixed = MemoryShare { asked: MemoryLimit::Fixed(870 * MIB), ..auto };
        assert!(fixed.to_string().starts_with("limit 870 MiB (the cgroup has 1024 MiB), "), "{fixed}");
    }

    #[test]
    fn bodies_are_no_larger_than_the_plan_has_room_for() {
        let allowed = AllowedMemory { bytes: 1 << 30, bound: MemoryBound::Machine };
        let share = |mib| MemoryShare {
            plan: MemoryPlan::new(mib * MIB, 1).unwrap(),
            asked: MemoryLimit::Fixed(mib * MIB),
            allowed,
        };
        let small = share(256).narrow(Config::default(), 1);
        assert_eq!(
            (small.max_body_bytes, small.max_decoded_bytes),
            (share(256).plan.body_bytes, share(256).plan.body_bytes)
        );
        assert_eq!(small.max_connections, share(256).plan.connections_max);
        assert_eq!(share(24 << 10).narrow(Config::default(), 1), Config::default());
    }
}
