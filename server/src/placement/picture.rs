//! A topology and the plan over it, for people (80 columns of plain text) and for machines (JSON).
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use serde::Serialize;

use super::{
    numbers,
    plan::{LeftAlone, PlacementPlan},
    topology::{Core, CpuId, CpuQuota, NodeId, NumaNode, Topology},
};
use silverback_runtime::Pinning;

const COLUMNS: usize = 80;
const INDENT: &str = "   ";
/// Shards of one core that are named; more are counted.
const SHARDS_NAMED_MAX: usize = 4;

/// A topology and the plan over it.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    /// What there is.
    pub topology: &'a Topology,
    /// What runs where.
    pub plan: &'a PlacementPlan,
}

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_summary(f)?;
        for node in &self.topology.nodes {
            self.write_node(f, node)?;
        }
        if self.topology.nodes.len() > 1 {
            self.write_distances(f)?;
        }
        self.write_left_alone(f)?;
        for caution in &self.plan.cautions {
            writeln!(f, "\ncaution:")?;
            write_wrapped(f, &caution.to_string(), ' ')?;
        }
        Ok(())
    }
}

impl Picture<'_> {
    fn write_summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topology { nodes, cores, quota, .. } = self.topology;
        write!(f, "{}, {}, ", counted(nodes.len(), "node"), counted(cores.len(), "usable core"))?;
        write!(f, "{}", counted(self.topology.allowed_cpus(), "usable CPU"))?;
        match quota {
            Some(quota) => write!(f, ", a quota of {:.1} CPUs", quota.cpus())?,
            None => write!(f, ", no quota")?,
        }
        writeln!(f, ": {}", counted(self.plan.seats.len(), "shard"))
    }

    /// The node, and its cores in a grid: the shards on each, then its CPUs.
    fn write_node(&self, f: &mut fmt::Formatter<'_>, node: &NumaNode) -> fmt::Result {
        let cores: Vec<_> = self.topology.cores.iter().filter(|core| core.node == node.id).collect();
        let shards = self.plan.seats.iter().filter(|seat| seat.node == node.id).count();
        write!(f, "\nnode {}   {}, ", node.id, memory_text(node))?;
        write!(f, "{}", counted(cores.len(), "usable core"))?;
        match self.plan.pinning {
            Pinning::Pinned => writeln!(f, ", {}", counted(shards, "shard"))?,
            Pinning::Free => writeln!(f)?,
        }
        let from = self.plan.pinned().iter().find(|seat| seat.node == node.id).and_then(|seat| seat.memory);
        if let Some(memory) = from.filter(|memory| *memory != node.id) {
            writeln!(f, "{INDENT}its shards take their memory from node {memory}")?;
        }
        let cells: Vec<_> = cores.iter().map(|core| self.core_text(core)).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(0) + INDENT.len();
        for row in cells.chunks((COLUMNS / width).max(1)) {
            let row: String = row.iter().fold(String::new(), |row, cell| {
                row + &format!("{INDENT}{cell:width$}", width = width - INDENT.len())
            });
            writeln!(f, "{}", row.trim_end())?;
        }
        Ok(())
    }

    /// `s3 3+19`: shard 3 on a core of CPUs 3 and 19; `--` for no shard. The CPUs alone where no shard
    /// stays anywhere.
    fn core_text(&self, core: &Core) -> String {
        let cpus = joined(core.cpus.iter(), "+");
        match self.plan.pinning {
            Pinning::Pinned => {}
            Pinning::Free => return cpus,
        }
        let seats = self.plan.seats.iter().enumerate();
        let shards: Vec<_> =
            seats.filter(|(_, seat)| core.cpus.contains(&seat.cpu)).map(|(shard, _)| shard).collect();
        let shards = match shards.len() {
            0 => "--".to_owned(),
            1..=SHARDS_NAMED_MAX => joined(shards.iter().map(|shard| format!("s{shard}")), ","),
            more => format!("{more} shards"),
        };
        format!("{shards:3} {cpus}")
    }

    fn write_distances(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\ndistances ")?;
        for node in &self.topology.nodes {
            write!(f, "{:>5}", format!("n{}", node.id))?;
        }
        for node in &self.topology.nodes {
            write!(f, "\n{INDENT}{:7}", format!("n{}", node.id))?;
            for distance in &node.distances {
                write!(f, "{distance:>5}")?;
            }
        }
        writeln!(f)
    }

    fn write_left_alone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut by_reason: BTreeMap<LeftAlone, Vec<usize>> = BTreeMap::new();
        for (cpu, reason) in &self.plan.left {
            by_reason.entry(*reason).or_default().push(cpu.0);
        }
        for (reason, cpus) in by_reason {
            writeln!(f, "\nwithout a shard: {reason}")?;
            write_wrapped(f, &numbers::show(cpus), ',')?;
        }
        Ok(())
    }

    /// The same as one JSON object.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(&Json::of(self)).expect("it is plain numbers and text")
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn joined<T: fmt::Display>(parts: impl Iterator<Item = T>, separator: &str) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(separator)
}

fn memory_text(node: &NumaNode) -> String {
    let gib = node.memory_bytes as f64 / f64::from(1 << 30);
    match (node.memory_bytes, node.memory_allowed) {
        (0, _) => "no memory".to_owned(),
        (_, true) => format!("{gib:.1} GiB"),
        (_, false) => format!("{gib:.1} GiB that the cgroup doesn't allow"),
    }
}

/// A text over as many lines as it takes, each ending after a separator.
fn write_wrapped(f: &mut fmt::Formatter<'_>, text: &str, separator: char) -> fmt::Result {
    let mut line = String::new();
    for part in text.split_inclusive(separator) {
        if INDENT.len() + line.len() + part.trim_end().len() > COLUMNS {
            writeln!(f, "{INDENT}{}", line.trim_end())?;
            line.clear();
        }
        line.write_str(part)?;
    }
    writeln!(f, "{INDENT}{line}")
}

#[derive(Serialize)]
struct Json<'a> {
    nodes: &'a [NumaNode],
    cores: &'a [Core],
    quota: Option<CpuQuota>,
    shards: Vec<ShardJson>,
    without_a_shard: Vec<LeftJson>,
    cautions: Vec<String>,
}

#[derive(Serialize)]
struct ShardJson {
    shard: usize,
    /// `None` where it isn't pinned; the same for the others.
    cpu: Option<CpuId>,
    node: Option<NodeId>,
    memory_node: Option<NodeId>,
}

#[derive(Serialize)]
struct LeftJson {
    cpu: CpuId,
    reason: String,
}

impl<'a> Json<'a> {
    fn of(picture: &Picture<'a>) -> Self {
        let Picture { topology, plan } = picture;
        let seat_of = |shard: usize| plan.pinned().get(shard);
        let left = plan.left.iter();
        Self {
            nodes: &topology.nodes,
            cores: &topology.cores,
            quota: topology.quota,
            shards: (0..plan.seats.len())
                .map(|shard| ShardJson {
                    shard,
                    cpu: seat_of(shard).map(|seat| seat.cpu),
                    node: seat_of(shard).map(|seat| seat.node),
                    memory_node: seat_of(shard).and_then(|seat| seat.memory),
                })
                .collect(),
            without_a_shard: left.map(|(cpu, why)| LeftJson { cpu: *cpu, reason: why.to_string() }).collect(),
            cautions: plan.cautions.iter().map(ToString::to_string).collect(),
        }
    }
}
