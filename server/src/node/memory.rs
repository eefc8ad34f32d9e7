//! The node's memory: the limit that it runs with, and the watch over what it really takes.
//!
//! Shards and acceptors count what they hold, and each keeps within its budget. What nobody counts
//! (the process, executors, connections, what the allocator holds back) has a place in the
//! plan; where the kernel's own count says that it takes more, the shards' budgets shrink by that.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::api::core::Core;
use crate::config::{Config, MemoryLimit};
use crate::limits::MemoryPlan;
use crate::limits::memory::AUTO_LIMIT_PERCENT;
use crate::metrics;
use crate::node::NodeError;
use crate::node::assemble::Shared;
use crate::placement::Roots;
use crate::placement::memory::{AllowedMemory, allowed_memory};
use crate::runtime::{sleep, spawn_background};
use crate::shard::Shard;

/// How often budgets follow the kernel's count. What shards and acceptors count is bounded at every
/// request; the rest moves slowly beside this.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

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
    pub fn of(config: &Config, cores: usize) -> Result<Self, NodeError> {
        let allowed = allowed_memory(&Roots::host())?;
        let limit_bytes = match config.memory_limit {
            MemoryLimit::Auto => allowed.bytes / 100 * AUTO_LIMIT_PERCENT,
            MemoryLimit::Fixed(bytes) => bytes,
        };
        Ok(Self { plan: MemoryPlan::new(limit_bytes, cores)?, asked: config.memory_limit, allowed })
    }

    /// The configuration with bodies no larger than the plan has room for.
    pub fn narrow(&self, mut config: Config) -> Config {
        let body_bytes = self.plan.body_bytes;
        if self.plan.limit_bytes > self.allowed.bytes {
            tracing::warn!(memory = %self, "the memory limit is more than there is: the kernel may end the node");
        }
        if config.max_decoded_bytes > body_bytes {
            tracing::warn!(body_bytes, "the memory limit leaves room for smaller request bodies only");
        }
        config.max_body_bytes = config.max_body_bytes.min(body_bytes);
        config.max_decoded_bytes = config.max_decoded_bytes.min(body_bytes);
        config
    }
}

/// `limit 870 MiB (85 % of the cgroup's 1024 MiB), 312 MiB of it for each shard's series`
impl fmt::Display for MemoryShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, asked, allowed } = self;
        let (limit, has) = (plan.limit_bytes >> 20, allowed.bytes >> 20);
        match asked {
            MemoryLimit::Auto => {
                write!(f, "limit {limit} MiB ({AUTO_LIMIT_PERCENT} % of the {}'s {has} MiB)", allowed.bound)?
            }
            MemoryLimit::Fixed(_) => write!(f, "limit {limit} MiB (the {} has {has} MiB)", allowed.bound)?,
        }
        write!(
            f,
            ", {} MiB of it for each shard's series, {} MiB for each core's writes under way",
            plan.shard_bytes >> 20,
            plan.in_flight_bytes >> 20
        )
    }
}

/// What the cores tell each other of their memory: written and read a few times a second.
#[derive(Debug)]
pub struct MemoryWatch {
    plan: MemoryPlan,
    counted: Box<[AtomicUsize]>,
    shard_budget_bytes: AtomicUsize,
}

impl MemoryWatch {
    /// For so many cores.
    pub fn new(plan: MemoryPlan, cores: usize) -> Self {
        Self {
            plan,
            counted: std::iter::repeat_with(AtomicUsize::default).take(cores).collect(),
            shard_budget_bytes: AtomicUsize::new(plan.shard_bytes),
        }
    }

    /// Takes in what one core counts now, and tells its shard's budget.
    fn exchange(&self, core: usize, counted_bytes: usize) -> usize {
        self.counted[core].store(counted_bytes, Ordering::Relaxed);
        self.shard_budget_bytes.load(Ordering::Relaxed)
    }

    /// Sets the budgets by what the whole process takes.
    fn measure(&self, resident_bytes: usize) {
        let counted: usize = self.counted.iter().map(|counted| counted.load(Ordering::Relaxed)).sum();
        let uncounted_bytes = resident_bytes.saturating_sub(counted);
        let budget = self.plan.shard_bytes_beside(uncounted_bytes, self.counted.len());
        self.shard_budget_bytes.store(budget, Ordering::Relaxed);
    }
}

/// Starts one core's part of the watch; the first core looks for all. It ends with the executor.
pub fn start(shared: &std::sync::Arc<Shared>, index: usize, core: &Rc<Core>, shard: Rc<RefCell<Shard>>) {
    let (shared, core) = (std::sync::Arc::clone(shared), Rc::clone(core));
    spawn_background(async move {
        while !core.shutdown.is_requested() {
            sleep(WATCH_INTERVAL).await;
            let pools = core.bodies.in_use_bytes() + core.bodies.kept_bytes();
            let of_reads = core.read_bytes.taken_bytes() + shard.borrow().select_bytes();
            let of_writes = pools + core.definitions.taken_bytes();
            let counted_bytes = shard.borrow().memory_bytes().total() + of_writes + of_reads;
            let budget_bytes = shared.watch.exchange(index, counted_bytes);
            shard.borrow_mut().set_memory_budget(budget_bytes);
            if index == 0
                && let Some(resident_bytes) = metrics::resident_bytes(Path::new(metrics::PROC))
            {
                shared.watch.measure(resident_bytes as usize);
            }
        }
    });
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
        let counted = [100 * MIB, 60 * MIB];
        let budgets = || [0, 1].map(|core| watch.exchange(core, counted[core]));
        assert_eq!(budgets(), [plan.shard_bytes; 2]);
        watch.measure(160 * MIB + plan.uncounted_bytes + 20 * MIB);
        assert_eq!(budgets(), [plan.shard_bytes - 10 * MIB; 2]);
        watch.measure(160 * MIB);
        assert_eq!(budgets(), [plan.shard_bytes; 2]);
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
        let small = share(256).narrow(Config::default());
        assert_eq!(
            (small.max_body_bytes, small.max_decoded_bytes),
            (share(256).plan.body_bytes, share(256).plan.body_bytes)
        );
        assert_eq!(share(8 << 10).narrow(Config::default()), Config::default());
    }
}
