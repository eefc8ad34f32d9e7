//! The CPUs that this process may use: what its affinity mask and its cgroup leave of the machine,
//! one for each physical core, and the cgroup's CPU quota.
//!
//! Everything but the mask is read below a root, so that made-up machines are test data. Which NUMA
//! node a core belongs to, and what runs where, is decided elsewhere.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    mem::size_of,
    path::{Path, PathBuf},
};

/// A physical core, by the CPUs of it that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreCpu {
    /// The CPU to run on: the lowest allowed one.
    pub cpu: usize,
    /// All allowed CPUs of the core, that one too.
    pub siblings: Vec<usize>,
    /// The package (socket) that it is in.
    pub package: usize,
}

/// A cgroup's CPU quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// CPU time in each period.
    pub quota_us: u64,
    /// The period.
    pub period_us: u64,
}

impl CpuQuota {
    /// The quota in CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// What the process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCpus {
    /// One entry for each physical core, by CPU.
    pub cores: Vec<CoreCpu>,
    /// The tightest quota of the cgroup and those above it.
    pub quota: Option<CpuQuota>,
}

/// Why the CPUs are not known.
#[derive(Debug)]
pub enum CpusError {
    /// The affinity mask could not be read.
    Affinity(io::Error),
    /// A file of the kernel could not be understood.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it says.
        text: String,
    },
    /// Mask and cgroup have no CPU in common.
    NoneAllowed,
}

impl fmt::Display for CpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity(error) => write!(f, "the affinity mask can't be read: {error}"),
            Self::Malformed { path, text } => write!(f, "{} can't be understood: {text:?}", path.display()),
            Self::NoneAllowed => {
                f.write_str("the affinity mask and the cgroup's cpuset have no CPU in common")
            }
        }
    }
}

impl std::error::Error for CpusError {}

/// The cores that this process may use; `root` is `/` but for made-up machines.
pub fn allowed_cores(root: &Path) -> Result<AllowedCpus, CpusError> {
    allowed_cores_of(root, &affinity_mask().map_err(CpusError::Affinity)?)
}

/// The cores of the machine below `root` that `mask` and the cgroup allow.
pub fn allowed_cores_of(root: &Path, mask: &BTreeSet<usize>) -> Result<AllowedCpus, CpusError> {
    let cgroups = Cgroups::read(root);
    let mut cpus = mask.clone();
    if let Some(set) = cgroups.cpuset()? {
        cpus.retain(|cpu| set.contains(cpu));
    }
    if cpus.is_empty() {
        return Err(CpusError::NoneAllowed);
    }
    Ok(AllowedCpus { cores: group_by_core(root, &cpus)?, quota: cgroups.quota()? })
}

/// The CPUs that the scheduler may put this thread on.
pub fn affinity_mask() -> io::Result<BTreeSet<usize>> {
    // SAFETY: a cpu_set_t is plain bits; the call writes no more than the size it is told.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), set)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let bits = usize::try_from(libc::CPU_SETSIZE).unwrap_or_default();
    // SAFETY: each number is below the set's size.
    Ok((0..bits).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

fn group_by_core(root: &Path, cpus: &BTreeSet<usize>) -> Result<Vec<CoreCpu>, CpusError> {
    let mut cores: BTreeMap<usize, CoreCpu> = BTreeMap::new();
    for &cpu in cpus {
        let topology = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        // The older name is there on every kernel, and the newer one on those that will drop it.
        let siblings = match read_list(&topology.join("core_cpus_list"))? {
            Some(siblings) => Some(siblings),
            None => read_list(&topology.join("thread_siblings_list"))?,
        };
        let core = siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(cpu);
        let package = read_number(&topology.join("physical_package_id"))?;
        cores
            .entry(core)
            .or_insert_with(|| CoreCpu {
                cpu,
                siblings: Vec::new(),
                // Virtual machines without packages say -1.
                package: package.and_then(|id| usize::try_from(id).ok()).unwrap_or(0),
            })
            .siblings
            .push(cpu);
    }
    let mut cores: Vec<_> = cores.into_values().collect();
    cores.sort_by_key(|core| core.cpu);
    Ok(cores)
}

/// Where the files of this process' cgroups may be, the nearest first.
pub(super) struct Cgroups {
    pub(super) v2: Vec<PathBuf>,
    v1_cpuset: Vec<PathBuf>,
    v1_cpu: Vec<PathBuf>,
    pub(super) v1_memory: Vec<PathBuf>,
}

impl Cgroups {
    pub(super) fn read(root: &Path) -> Self {
        let mount = root.join("sys/fs/cgroup");
        // Without the file there are no cgroups, hence no limits.
        let memberships = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mut found =
            Self { v2: Vec::new(), v1_cpuset: Vec::new(), v1_cpu: Vec::new(), v1_memory: Vec::new() };
        for line in memberships.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                found.v2 = up_from(&mount, group);
            }
            for controller in controllers.split(',') {
                match controller {
                    "cpuset" => found.v1_cpuset = up_from(&mount.join("cpuset"), group),
                    "cpu" => found.v1_cpu = up_from(&mount.join("cpu"), group),
                    "memory" => found.v1_memory = up_from(&mount.join("memory"), group),
                    _ => {}
                }
            }
        }
        found
    }

    /// The nearest group's set holds: it is within those above it.
    fn cpuset(&self) -> Result<Option<BTreeSet<usize>>, CpusError> {
        let v1 = self
            .v1_cpuset
            .iter()
            .flat_map(|group| ["cpuset.effective_cpus", "cpuset.cpus"].map(|file| group.join(file)));
        let v2 = self.v2.iter().map(|group| group.join("cpuset.cpus.effective"));
        for path in v2.chain(v1) {
            // An empty file inherits.
            if let Some(cpus) = read_list(&path)?.filter(|cpus| !cpus.is_empty()) {
                return Ok(Some(cpus));
            }
        }
        Ok(None)
    }

    /// Each group above may be tighter than the nearest.
    fn quota(&self) -> Result<Option<CpuQuota>, CpusError> {
        let mut tightest: Option<CpuQuota> = None;
        let v2 = self.v2.iter().map(|group| read_v2_quota(&group.join("cpu.max")));
        let v1 = self.v1_cpu.iter().map(|group| read_v1_quota(group));
        for quota in v2.chain(v1) {
            if let Some(quota) = quota?
                && tightest.is_none_or(|known| quota.cpus() < known.cpus())
            {
                tightest = Some(quota);
            }
        }
        Ok(tightest)
    }
}

/// The directories of `group` and those above it, as far as the mount shows them. A container
/// without a cgroup namespace sees its own group at the mount's top: the last of them.
fn up_from(mount: &Path, group: &str) -> Vec<PathBuf> {
    Path::new(group)
        .ancestors()
        .map(|path| mount.join(path.strip_prefix("/").unwrap_or(path)))
        .filter(|path| path.is_dir())
        .collect()
}

fn read_v2_quota(path: &Path) -> Result<Option<CpuQuota>, CpusError> {
    let Some(text) = read_text(path) else { return Ok(None) };
    let malformed = || CpusError::Malformed { path: path.to_owned(), text: text.clone() };
    let (quota, period) = text.trim().split_once(' ').ok_or_else(malformed)?;
    let period_us = period.parse().ok().filter(|&us| us > 0).ok_or_else(malformed)?;
    if quota == "max" {
        return Ok(None);
    }
    Ok(Some(CpuQuota { quota_us: quota.parse().map_err(|_| malformed())?, period_us }))
}

fn read_v1_quota(group: &Path) -> Result<Option<CpuQuota>, CpusError> {
    let quota = read_number(&group.join("cpu.cfs_quota_us"))?;
    let period = read_number(&group.join("cpu.cfs_period_us"))?;
    // No quota is written as -1.
    Ok(match (quota.map(u64::try_from), period.map(u64::try_from)) {
        (Some(Ok(quota_us)), Some(Ok(period_us @ 1..))) => Some(CpuQuota { quota_us, period_us }),
        _ => None,
    })
}

/// A file that isn't there, or that may not be read, limits nothing.
pub(super) fn read_text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn read_number(path: &Path) -> Result<Option<i64>, CpusError> {
    read_text(path)
        .map(|text| {
            text.trim()
                .parse()
                .map_err(|_| CpusError::Malformed { path: path.to_owned(), text: text.clone() })
        })
        .transpose()
}

fn read_list(path: &Path) -> Result<Option<BTreeSet<usize>>, CpusError> {
    read_text(path)
        .map(|text| {
            parse_list(&text)
                .ok_or_else(|| CpusError::Malformed { path: path.to_owned(), text: text.clone() })
        })
        .transpose()
}

/// `0-3,8` as the kernel writes it.
fn parse_list(text: &str) -> Option<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// More than any machine has; keeps a damaged list from filling memory.
const CPUS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A made-up machine's files, removed at the end of the test.
    struct Machine(PathBuf);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("silverback-cpus-{}-{number}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// The CPUs to run on and the quota, of a machine with these files and an affinity mask.
    fn check(files: &[(&str, &str)], mask: &[usize]) -> (Vec<usize>, Option<f64>) {
        let machine = Machine::new(files);
        let allowed = allowed_cores_of(&machine.0, &mask.iter().copied().collect()).unwrap();
        (allowed.cores.iter().map(|core| core.cpu).collect(), allowed.quota.map(|quota| quota.cpus()))
    }

    const SMT: [(&str, &str); 4] = [
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
        ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
        ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2\n"),
        ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "1,3\n"),
    ];

    #[test]
    fn one_cpu_for_each_physical_core() {
        assert_eq!(check(&SMT, &[0, 1, 2, 3]), (vec![0, 1], None));
    }

    #[test]
    fn a_core_of_which_the_mask_leaves_one_thread_is_used_on_that_thread() {
        assert_eq!(check(&SMT, &[1, 2, 3]).0, [1, 2]);
    }

    #[test]
    fn without_a_topology_each_cpu_is_a_core() {
        assert_eq!(check(&[], &[0, 1, 4]), (vec![0, 1, 4], None));
    }

    #[test]
    fn a_v2_cgroup_narrows_the_mask_and_the_tightest_quota_above_holds() {
        let files = [
            ("proc/self/cgroup", "0::/pods/node\n"),
            ("sys/fs/cgroup/pods/node/cpuset.cpus.effective", "1-2,6\n"),
            ("sys/fs/cgroup/pods/node/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pods/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
        ];
        assert_eq!(check(&files, &[0, 1, 2, 3]), (vec![1, 2], Some(1.5)));
    }

    #[test]
    fn a_v1_cgroup_narrows_the_mask_too() {
        let files = [
            ("proc/self/cgroup", "5:cpuset:/node\n4:cpu,cpuacct:/node\n0::/\n"),
            ("sys/fs/cgroup/cpuset/node/cpuset.cpus", "3\n"),
            ("sys/fs/cgroup/cpu/node/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/node/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(check(&files, &[0, 3]), (vec![3], Some(0.5)));
    }

    #[test]
    fn a_group_that_only_the_host_sees_is_found_at_the_top_of_the_mount() {
        let files =
            [("proc/self/cgroup", "5:cpuset:/docker/abc\n"), ("sys/fs/cgroup/cpuset/cpuset.cpus", "2\n")];
        assert_eq!(check(&files, &[0, 1, 2]).0, [2]);
    }

    #[test]
    fn no_common_cpu_and_a_malformed_file_are_errors() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "5\n"),
            ("sys/fs/cgroup/cpu.max", "many\n"),
        ]);
        let none = allowed_cores_of(&machine.0, &BTreeSet::from([0]));
        assert!(matches!(none, Err(CpusError::NoneAllowed)), "{none:?}");
        let malformed = allowed_cores_of(&machine.0, &BTreeSet::from([5]));
        assert!(matches!(malformed, Err(CpusError::Malformed { .. })), "{malformed:?}");
    }

    #[test]
    fn the_real_machine_has_a_core() {
        assert!(!allowed_cores(Path::new("/")).unwrap().cores.is_empty());
    }
}
