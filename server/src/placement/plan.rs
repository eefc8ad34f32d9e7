//! Which shard runs on which CPU, and which node its memory comes from: a pure plan over a topology.
//!
//! By default one shard on each physical core, on one CPU of it: an SMT sibling that runs a second
//! pinned, busy thread takes from the first. With fewer shards than cores they are spread over the
//! nodes, those with memory first, so that each has as much of its node's memory bandwidth as can be.
//! Never more than the cgroup's quota has whole CPUs: the kernel would stop all of them for a part of
//! each period. `--shards` goes over both.
//!
//! A quota that is smaller than the CPUs that may be used says that others run on them, too. Shards
//! are then not pinned: all such containers would choose the same CPUs, and the kernel knows which idle.
use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::numbers;
use super::topology::{Barred, Core, CpuId, NodeId, Topology};
use crate::config::ShardCount;
use silverback_model::limits::SHARDS_MAX;
use silverback_runtime::Pinning;

/// Where one shard runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Seat {
    /// Its CPU.
    pub cpu: CpuId,
    /// The CPU's node.
    pub node: NodeId,
    /// The node that its memory is to come from: its own, or the nearest that has any. `None` where
    /// there aren't two to choose from.
    pub memory: Option<NodeId>,
}

/// Why a CPU runs no shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftAlone {
    /// Its core runs one already, on another CPU.
    Sibling,
    /// No more shards were asked for.
    NotAsked,
    /// A node has no more shards than this.
    ShardsMax,
    /// It may not be used.
    Barred(Barred),
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sibling => "SMT sibling of a shard's CPU",
            Self::NotAsked => "no more shards were asked for",
            Self::ShardsMax => "no node has more shards",
            Self::Barred(Barred::Offline) => "offline",
            Self::Barred(Barred::ByAffinity) => "not in the affinity mask",
            Self::Barred(Barred::ByCpuset) => "not in the cgroup's cpuset",
        })
    }
}

/// What an operator should know of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Caution {
    /// Some CPUs run more than one shard.
    #[error("more shards than CPUs ({cpus}): they share them")]
    SharedCpus {
        /// CPUs that may be used.
        cpus: usize,
    },
    /// The kernel will stop the shards for a part of each period.
    #[error(
        "more shards than the cgroup's quota has whole CPUs ({whole_cpus}): when all are busy the kernel stops them \
         for a part of each period"
    )]
    AboveQuota {
        /// What the quota has.
        whole_cpus: usize,
    },
    /// The CPUs are others' as well.
    #[error(
        "the cgroup's quota is smaller than its set of CPUs, so others run on them, too: shards aren't pinned \
         (Kubernetes: whole CPUs and the static CPU manager)"
    )]
    NotPinned,
}

/// A placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementPlan {
    /// The shards, by number; one at least. Without pinning they are places that the kernel
    /// doesn't know of.
    pub seats: Vec<Seat>,
    /// Whether the shards stay there.
    pub pinning: Pinning,
    /// The CPUs without a shard.
    pub left: BTreeMap<CpuId, LeftAlone>,
    /// What an operator should know.
    pub cautions: Vec<Caution>,
}

impl PlacementPlan {
    /// The shards' CPUs, by shard.
    pub fn cpus(&self) -> Vec<usize> {
        self.seats.iter().map(|seat| seat.cpu.0).collect()
    }

    /// The nodes that the shards' memory is to come from, by shard.
    pub fn memory_nodes(&self) -> Vec<Option<usize>> {
        self.pinned().iter().map(|seat| seat.memory.map(|node| node.0)).collect()
    }

    /// The places of the shards that stay there: all of them, or none.
    pub(crate) fn pinned(&self) -> &[Seat] {
        match self.pinning {
            Pinning::Pinned => &self.seats,
            Pinning::Free => &[],
        }
    }
}

/// `node 0: CPUs 0-7; node 1: CPUs 8-15`, or `not pinned`
impl fmt::Display for PlacementPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pinning {
            Pinning::Pinned => {}
            Pinning::Free => return f.write_str("not pinned"),
        }
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for seat in &self.seats {
            by_node.entry(seat.node).or_default().push(seat.cpu.0);
        }
        for (place, (node, cpus)) in by_node.into_iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}node {node}: CPUs {}", numbers::show(cpus))?;
        }
        Ok(())
    }
}

/// Places so many shards.
pub fn plan(topology: &Topology, shards: ShardCount) -> PlacementPlan {
    let cores = spread_over_nodes(topology);
    let ceiling = Ceiling::of(topology, shards);
    let count = match shards {
        ShardCount::PerCore => ceiling.shards.min(cores.len()),
        ShardCount::Fixed(count) => count.get(),
    };
    let seats = take_seats(topology, &cores, count);
    let pinning = pinning(topology);
    let left = match pinning {
        Pinning::Pinned => left_alone(topology, &seats, ceiling.reason),
        Pinning::Free => barred(topology),
    };
    PlacementPlan { left, cautions: cautions(topology, seats.len(), pinning), seats, pinning }
}

fn pinning(topology: &Topology) -> Pinning {
    match topology.quota {
        Some(quota) if quota.whole_cpus() < topology.allowed_cpus() => Pinning::Free,
        Some(_) | None => Pinning::Pinned,
    }
}

/// How many shards there may be, and what is shown for a CPU that would be one more.
struct Ceiling {
    shards: usize,
    reason: LeftAlone,
}

impl Ceiling {
    fn of(topology: &Topology, shards: ShardCount) -> Self {
        let quota = topology.quota.map_or(usize::MAX, |quota| quota.whole_cpus());
        match shards {
            ShardCount::Fixed(count) => Self { shards: count.get(), reason: LeftAlone::NotAsked },
            // A quota that leaves CPUs over pins nothing, and so leaves none alone.
            ShardCount::PerCore => Self { shards: quota.min(SHARDS_MAX), reason: LeftAlone::ShardsMax },
        }
    }
}

/// The cores in the order in which they get a shard: one of each node in turn.
fn spread_over_nodes(topology: &Topology) -> Vec<&Core> {
    let mut taken: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut cores: Vec<_> = topology
        .cores
        .iter()
        .map(|core| {
            let turn = taken.entry(core.node).or_default();
            *turn += 1;
            let has_memory = topology.node(core.node).is_some_and(|node| node.has_usable_memory());
            ((!has_memory, *turn, core.node), core)
        })
        .collect();
    cores.sort_by_key(|(order, _)| *order);
    cores.into_iter().map(|(_, core)| core).collect()
}

/// One CPU of each core; with more shards than cores, the siblings, and then the same CPUs again.
fn take_seats(topology: &Topology, cores: &[&Core], count: usize) -> Vec<Seat> {
    let seat = |core: &Core, cpu| Seat { cpu, node: core.node, memory: memory_for(topology, core.node) };
    let firsts: Vec<_> = cores.iter().map(|core| seat(core, core.cpus[0])).collect();
    let siblings = cores.iter().flat_map(|core| core.cpus[1..].iter().map(|cpu| seat(core, *cpu))).collect();
    let mut seats: Vec<Seat> = Vec::with_capacity(count);
    for layer in [firsts, siblings].iter().cycle() {
        let from = seats.len();
        seats.extend(layer.iter().take(count - from));
        // Numbered by node: neighbours in number are neighbours in memory.
        seats[from..].sort_by_key(|seat| (seat.node, seat.cpu));
        if seats.len() == count {
            break;
        }
    }
    seats
}

/// The nearest node with memory that may be used; its own, where that has any.
fn memory_for(topology: &Topology, node: NodeId) -> Option<NodeId> {
    let usable = || topology.nodes.iter().filter(|node| node.has_usable_memory());
    usable().nth(1)?;
    usable().map(|memory| memory.id).min_by_key(|memory| (topology.distance(node, *memory), *memory))
}

fn barred(topology: &Topology) -> BTreeMap<CpuId, LeftAlone> {
    topology.barred.iter().map(|(cpu, barred)| (*cpu, LeftAlone::Barred(*barred))).collect()
}

fn left_alone(topology: &Topology, seats: &[Seat], beyond: LeftAlone) -> BTreeMap<CpuId, LeftAlone> {
    let runs_a_shard = |cpu: &CpuId| seats.iter().any(|seat| seat.cpu == *cpu);
    let mut left = barred(topology);
    for core in &topology.cores {
        let reason = if core.cpus.iter().any(runs_a_shard) { LeftAlone::Sibling } else { beyond };
        left.extend(core.cpus.iter().filter(|cpu| !runs_a_shard(cpu)).map(|cpu| (*cpu, reason)));
    }
    left
}

fn cautions(topology: &Topology, shards: usize, pinning: Pinning) -> Vec<Caution> {
    let cpus = topology.allowed_cpus();
    let whole_cpus = topology.quota.map_or(usize::MAX, |quota| quota.whole_cpus());
    let shared = (shards > cpus).then_some(Caution::SharedCpus { cpus });
    let above = (shards > whole_cpus).then_some(Caution::AboveQuota { whole_cpus });
    let free = match pinning {
        Pinning::Pinned => None,
        Pinning::Free => Some(Caution::NotPinned),
    };
    shared.into_iter().chain(above).chain(free).collect()
}
