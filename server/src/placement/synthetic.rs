//! Made-up machines for tests: the kernel's files as they would be there.
use std::{collections::BTreeSet, fs, path::Path};

use silverback_test_support::Scratch;

use super::{Roots, Topology, TopologyError, numbers};

/// A machine in numbers. CPUs are numbered as Linux does: the first threads of all cores, node by
/// node, then their siblings.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub nodes: usize,
    pub(crate) cores_per_node: usize,
    pub threads: usize,
    pub(crate) gib_per_node: u64,
    pub(crate) offline: BTreeSet<usize>,
    files: Vec<(String, Option<String>)>,
}

/// Nodes of so many cores each, 16 GiB on each.
pub(super) fn machine(nodes: usize, cores_per_node: usize, threads: usize) -> Machine {
    let (gib_per_node, offline, files) = (16, BTreeSet::new(), Vec::new());
    Machine { nodes, cores_per_node, threads, gib_per_node, offline, files }
}

impl Machine {
    pub(super) fn offline(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.offline.extend(cpus);
        self
    }

    /// A file besides, or instead of the machine's own.
    pub(super) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), Some(text.to_owned())));
        self
    }

    pub(super) fn without(mut self, path: &str) -> Self {
        self.files.push((path.to_owned(), None));
        self
    }

    pub(super) fn cpus(&self) -> BTreeSet<usize> {
        (0..self.cores() * self.threads).collect()
    }

    /// What a process with all online CPUs in its mask finds.
    pub(super) fn topology(&self) -> Topology {
        self.read(&(&self.cpus() - &self.offline)).unwrap()
    }

    pub(super) fn read(&self, affinity: &BTreeSet<usize>) -> Result<Topology, TopologyError> {
        let root = Scratch::new();
        for (path, text) in self.own_files() {
            write_line(&root.join(&path), &text);
        }
        for (path, text) in &self.files {
            match text {
                Some(text) => write_line(&root.join(path), text),
                None => fs::remove_file(root.join(path)).unwrap(),
            }
        }
        Topology::read(&Roots::below(root.path()), affinity)
    }

    fn cores(&self) -> usize {
        self.nodes * self.cores_per_node
    }

    fn siblings(&self, core: usize) -> BTreeSet<usize> {
        (0..self.threads).map(|thread| thread * self.cores() + core).collect()
    }

    fn own_files(&self) -> Vec<(String, String)> {
        let cpu = "sys/devices/system/cpu";
        let online = &self.cpus() - &self.offline;
        let mut files = vec![
            (format!("{cpu}/present"), numbers::show(self.cpus())),
            (format!("{cpu}/online"), numbers::show(online.iter().copied())),
            ("sys/devices/system/node/online".to_owned(), numbers::show(0..self.nodes)),
            ("proc/meminfo".to_owned(), format!("MemTotal: {} kB", self.gib_per_node << 20)),
        ];
        // An offline CPU has no topology.
        for core in 0..self.cores() {
            let siblings: BTreeSet<usize> = &self.siblings(core) - &self.offline;
            for sibling in &siblings {
                let topology = format!("{cpu}/cpu{sibling}/topology");
                files.push((format!("{topology}/core_cpus_list"), numbers::show(siblings.iter().copied())));
                files.push((
                    format!("{topology}/physical_package_id"),
                    (core / self.cores_per_node).to_string(),
                ));
            }
        }
        for node in 0..self.nodes {
            files.extend(self.node_files(node, &online));
        }
        files
    }

    fn node_files(&self, node: usize, online: &BTreeSet<usize>) -> [(String, String); 3] {
        let cores = node * self.cores_per_node..(node + 1) * self.cores_per_node;
        let cpus = cores.flat_map(|core| self.siblings(core)).filter(|cpu| online.contains(cpu));
        let distances = (0..self.nodes).map(|other| if other == node { "10" } else { "21" });
        let directory = format!("sys/devices/system/node/node{node}");
        [
            (format!("{directory}/cpulist"), numbers::show(cpus)),
            (format!("{directory}/distance"), distances.collect::<Vec<_>>().join(" ")),
            (
                format!("{directory}/meminfo"),
                format!(
                    "Node {node} MemTotal:       {} kB\nNode {node} MemFree: 1 kB",
                    self.gib_per_node << 20
                ),
            ),
        ]
    }
}

fn write_line(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}
