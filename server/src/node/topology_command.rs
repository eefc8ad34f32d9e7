//! `silverback topology`: what a node finds here, or would find on another machine, and where its
//! shards would run. Starts nothing.
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::config::ShardCount;
use crate::placement::picture::Picture;
use crate::placement::topology::{FileFormatError, online_cpus};
use crate::placement::{Roots, Topology, TopologyError, numbers, plan};
use silverback_runtime::cpus::affinity_mask;

/// Whose topology.
#[derive(Debug, Clone, Default)]
pub struct MachineSource {
    /// Where its files are; this machine's own if there is none.
    pub tree: Option<PathBuf>,
    /// The affinity mask as the kernel writes it; this process' own if there is none, and with a tree
    /// all CPUs that are online there.
    pub affinity: Option<String>,
}

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Picture,
    /// For machines.
    Json,
}

/// Why it can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum TopologyCommandError {
    /// The mask that was given makes no sense.
    #[error("--affinity {0:?} isn't a list of CPUs, such as 0-3,8")]
    Affinity(String),
    /// There are no files of a machine.
    #[error("{} has no sys/: it isn't a tree of a machine's files", .0.display())]
    NoTree(PathBuf),
    /// The topology is not known.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A file of the tree could not be understood.
    #[error(transparent)]
    Malformed(#[from] FileFormatError),
    /// Nobody takes the output.
    #[error("writing the answer: {0}")]
    Output(#[from] io::Error),
}

/// Shows a machine, and where so many shards would run on it.
pub fn show(
    machine: &MachineSource,
    shards: ShardCount,
    form: Form,
    out: &mut impl Write,
) -> Result<(), TopologyCommandError> {
    let roots = roots_of(machine)?;
    let topology = Topology::read(&roots, &affinity_of(machine, &roots)?)?;
    let picture = Picture { topology: &topology, plan: &plan(&topology, shards) };
    match form {
        Form::Picture => write!(out, "{picture}")?,
        Form::Json => writeln!(out, "{}", picture.json())?,
    }
    Ok(out.flush()?)
}

fn roots_of(machine: &MachineSource) -> Result<Roots, TopologyCommandError> {
    let Some(tree) = &machine.tree else { return Ok(Roots::host()) };
    let roots = Roots::below(tree);
    // Else each missing file would have its fall-back, and the answer would be of no machine at all.
    if roots.sysfs.is_dir() { Ok(roots) } else { Err(TopologyCommandError::NoTree(tree.clone())) }
}

fn affinity_of(machine: &MachineSource, roots: &Roots) -> Result<BTreeSet<usize>, TopologyCommandError> {
    match (&machine.affinity, &machine.tree) {
        (Some(text), _) => numbers::parse(text).ok_or_else(|| TopologyCommandError::Affinity(text.clone())),
        (None, Some(_)) => Ok(online_cpus(roots)?),
        (None, None) => Ok(affinity_mask().map_err(TopologyError::Affinity)?),
    }
}
