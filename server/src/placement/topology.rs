//! What the machine and the container have: NUMA nodes, cores with their SMT siblings, quota.
//!
//! Everything is read below [`Roots`], and the affinity mask is a value, so that made-up machines are
//! test data. It knows what there is, and nothing of shards.
//!
//! Where a file is missing: no `cpu/online`, then all CPUs of the mask are; no `core_cpus_list` (or an
//! empty one), then a CPU is a core of its own; no `node/online`, then the machine is one node; no
//! `distance`, then nodes are 20 apart; no `Mems_allowed_list`, then every node's memory may be used.
//! A file that is there and can't be understood is an error.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::Path,
};

use serde::Serialize;

use super::{
    cgroup::Cgroups,
    files::{read_as, read_number, read_set, read_text, total_bytes},
    numbers,
    roots::Roots,
};
use silverback_runtime::cpus::affinity_mask;

pub use super::{cgroup::CpuQuota, files::FileFormatError};

/// A CPU (hardware thread) by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CpuId(pub usize);

/// A NUMA node by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NodeId(pub usize);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The distance within a node, and that between two of which nothing is known.
const DISTANCE_HERE: u32 = 10;
const DISTANCE_UNKNOWN: u32 = 20;

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Which one.
    pub id: NodeId,
    /// Its CPUs, those that may not be used too; none for a node of memory alone.
    pub cpus: BTreeSet<CpuId>,
    /// Its memory; zero for a node of CPUs alone.
    pub memory_bytes: u64,
    /// Whether the cgroup lets the process have memory there.
    pub(crate) memory_allowed: bool,
    /// How far the nodes are, in the topology's order; 10 is near.
    pub(crate) distances: Vec<u32>,
}

impl NumaNode {
    /// Whether the process can have memory here.
    pub(crate) fn has_usable_memory(&self) -> bool {
        self.memory_bytes > 0 && self.memory_allowed
    }
}

/// A physical core of which the process may use something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Its CPUs that may be used, ascending; one at least.
    pub cpus: Vec<CpuId>,
    /// Where it is.
    pub node: NodeId,
    /// The package (socket) that it is in.
    pub package: usize,
}

/// Why a CPU can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barred {
    /// It is switched off.
    Offline,
    /// The affinity mask leaves it out.
    ByAffinity,
    /// The cgroup's set leaves it out.
    ByCpuset,
}

/// What the process finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The NUMA nodes by number; one at least.
    pub nodes: Vec<NumaNode>,
    /// The cores that may be used, by their lowest usable CPU; one at least.
    pub cores: Vec<Core>,
    /// The CPUs that may not.
    pub(crate) barred: BTreeMap<CpuId, Barred>,
    /// The tightest quota of the cgroup and those above it.
    pub quota: Option<CpuQuota>,
}

/// Why the topology is not known.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The affinity mask could not be read.
    #[error("the affinity mask can't be read: {0}")]
    Affinity(io::Error),
    /// A file of the kernel could not be understood.
    #[error(transparent)]
    Malformed(#[from] FileFormatError),
    /// Mask, cgroup and the CPUs that are online have none in common.
    #[error("the affinity mask and the cgroup's cpuset have no CPU in common that is online")]
    NoneAllowed,
}

impl Topology {
    /// What this process finds on this machine.
    pub fn of_this_process() -> Result<Self, TopologyError> {
        Self::read(&Roots::host(), &affinity_mask().map_err(TopologyError::Affinity)?)
    }

    /// What a process with this affinity mask finds on the machine of these files.
    pub(crate) fn read(roots: &Roots, affinity: &BTreeSet<usize>) -> Result<Self, TopologyError> {
        let cgroups = Cgroups::read(roots);
        let limits = CpuLimits {
            online: read_set(&roots.sysfs.join("devices/system/cpu/online"))?,
            affinity,
            cpuset: cgroups.cpuset()?,
        };
        let present = read_set(&roots.sysfs.join("devices/system/cpu/present"))?.unwrap_or_default();
        let known: BTreeSet<usize> = present.union(affinity).copied().collect();
        let mut barred = BTreeMap::new();
        let mut allowed = BTreeSet::new();
        for cpu in known.iter().chain(limits.online.iter().flatten()).copied() {
            match limits.bar(cpu) {
                Some(reason) => {
                    barred.insert(CpuId(cpu), reason);
                }
                None => {
                    allowed.insert(cpu);
                }
            }
        }
        if allowed.is_empty() {
            return Err(TopologyError::NoneAllowed);
        }
        let nodes = read_nodes(roots, &known)?;
        let cores = group_by_core(roots, &allowed, &nodes)?;
        Ok(Self { nodes, cores, barred, quota: cgroups.quota()? })
    }

    /// The node of this number.
    pub(crate) fn node(&self, id: NodeId) -> Option<&NumaNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// How far `to` is from `from`; 10 is near.
    pub(crate) fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        let place = self.nodes.iter().position(|node| node.id == to);
        let distances = self.node(from).map(|node| &node.distances);
        let told = place.and_then(|place| distances?.get(place).copied());
        told.unwrap_or(if from == to { DISTANCE_HERE } else { DISTANCE_UNKNOWN })
    }

    /// How many CPUs may be used, SMT siblings among them.
    pub(crate) fn allowed_cpus(&self) -> usize {
        self.cores.iter().map(|core| core.cpus.len()).sum()
    }
}

/// All CPUs that are online on the machine of these files; none where they don't say.
pub(crate) fn online_cpus(roots: &Roots) -> Result<BTreeSet<usize>, FileFormatError> {
    Ok(read_set(&roots.sysfs.join("devices/system/cpu/online"))?.unwrap_or_default())
}

/// What decides whether a CPU may be used.
struct CpuLimits<'a> {
    online: Option<BTreeSet<usize>>,
    affinity: &'a BTreeSet<usize>,
    cpuset: Option<BTreeSet<usize>>,
}

impl CpuLimits<'_> {
    fn bar(&self, cpu: usize) -> Option<Barred> {
        let lacks = |set: &Option<BTreeSet<usize>>| set.as_ref().is_some_and(|set| !set.contains(&cpu));
        if lacks(&self.online) {
            Some(Barred::Offline)
        } else if !self.affinity.contains(&cpu) {
            Some(Barred::ByAffinity)
        } else if lacks(&self.cpuset) {
            Some(Barred::ByCpuset)
        } else {
            None
        }
    }
}

fn group_by_core(
    roots: &Roots,
    allowed: &BTreeSet<usize>,
    nodes: &[NumaNode],
) -> Result<Vec<Core>, FileFormatError> {
    let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
    for &cpu in allowed {
        let topology = roots.sysfs.join(format!("devices/system/cpu/cpu{cpu}/topology"));
        // The older name is there on every kernel, and the newer one on those that will drop it.
        let siblings = match read_set(&topology.join("core_cpus_list"))? {
            Some(siblings) => Some(siblings),
            None => read_set(&topology.join("thread_siblings_list"))?,
        };
        let core = siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(cpu);
        let package = read_number(&topology.join("physical_package_id"))?;
        cores
            .entry(core)
            .or_insert_with(|| Core {
                cpus: Vec::new(),
                node: node_of(nodes, CpuId(cpu)),
                // Virtual machines without packages say -1.
                package: package.and_then(|id| usize::try_from(id).ok()).unwrap_or(0),
            })
            .cpus
            .push(CpuId(cpu));
    }
    let mut cores: Vec<_> = cores.into_values().collect();
    cores.sort_by_key(|core| core.cpus[0]);
    Ok(cores)
}

/// The kernel puts every CPU into one node; where the files don't, it is the first.
fn node_of(nodes: &[NumaNode], cpu: CpuId) -> NodeId {
    nodes.iter().find(|node| node.cpus.contains(&cpu)).map_or(nodes[0].id, |node| node.id)
}

/// The nodes; one of all CPUs where the kernel knows none. `known` are the machine's CPUs.
fn read_nodes(roots: &Roots, known: &BTreeSet<usize>) -> Result<Vec<NumaNode>, FileFormatError> {
    let directory = roots.sysfs.join("devices/system/node");
    let online_path = directory.join("online");
    let Some(online) = read_set(&online_path)? else { return Ok(vec![whole_machine(roots, known)?]) };
    if online.is_empty() {
        return Err(FileFormatError::new(&online_path, ""));
    }
    let allowed = memory_allowed(&roots.procfs.join("self/status"))?;
    let mut nodes = Vec::new();
    for &number in &online {
        let directory = directory.join(format!("node{number}"));
        nodes.push(NumaNode {
            id: NodeId(number),
            cpus: read_set(&directory.join("cpulist"))?.unwrap_or_default().into_iter().map(CpuId).collect(),
            memory_bytes: read_as(&directory.join("meminfo"), total_bytes)?.unwrap_or(0),
            memory_allowed: allowed.as_ref().is_none_or(|allowed| allowed.contains(&number)),
            distances: read_distances(&directory.join("distance"), online.len())?
                .unwrap_or_else(|| distances_unknown(number, &online)),
        });
    }
    Ok(nodes)
}

fn whole_machine(roots: &Roots, known: &BTreeSet<usize>) -> Result<NumaNode, FileFormatError> {
    Ok(NumaNode {
        id: NodeId(0),
        cpus: known.iter().copied().map(CpuId).collect(),
        memory_bytes: read_as(&roots.procfs.join("meminfo"), total_bytes)?.unwrap_or(0),
        memory_allowed: true,
        distances: vec![DISTANCE_HERE],
    })
}

/// The nodes whose memory the process may have, of its status; `None` where that doesn't say.
fn memory_allowed(status: &Path) -> Result<Option<BTreeSet<usize>>, FileFormatError> {
    let Some(text) = read_text(status) else { return Ok(None) };
    let line = text.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    line.map(|list| numbers::parse(list).ok_or_else(|| FileFormatError::new(status, list))).transpose()
}

fn read_distances(path: &Path, nodes: usize) -> Result<Option<Vec<u32>>, FileFormatError> {
    read_as(path, |text| {
        let distances: Vec<u32> = text.split_whitespace().map(|d| d.parse().ok()).collect::<Option<_>>()?;
        (distances.len() == nodes).then_some(distances)
    })
}

fn distances_unknown(here: usize, online: &BTreeSet<usize>) -> Vec<u32> {
    online.iter().map(|&node| if node == here { DISTANCE_HERE } else { DISTANCE_UNKNOWN }).collect()
}
