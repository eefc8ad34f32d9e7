//! This process' cgroups, version 1 and 2: CPU set and CPU quota; where the memory limits are.
//!
//! Groups are nested, and each may be tighter than those above it: the tightest counts.
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use serde::Serialize;

use super::{
    files::{FileFormatError, read_as, read_number, read_set, read_text},
    roots::Roots,
};

/// A cgroup's CPU quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CpuQuota {
    /// CPU time in each period.
    pub(crate) quota_us: u64,
    /// The period.
    pub(crate) period_us: u64,
}

impl CpuQuota {
    /// The quota in CPUs.
    pub(crate) fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// The CPUs that it leaves running all the time; one at least.
    pub(crate) fn whole_cpus(&self) -> usize {
        usize::try_from(self.quota_us / self.period_us).unwrap_or(usize::MAX).max(1)
    }
}

/// Where the files of this process' cgroups may be, the nearest first.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    pub(super) v2: Vec<PathBuf>,
    v1_cpuset: Vec<PathBuf>,
    v1_cpu: Vec<PathBuf>,
    pub(super) v1_memory: Vec<PathBuf>,
}

impl Cgroups {
    /// Without `/proc/self/cgroup` there are no cgroups, hence no limits.
    pub(super) fn read(roots: &Roots) -> Self {
        let mount = &roots.cgroupfs;
        let memberships = read_text(&roots.procfs.join("self/cgroup")).unwrap_or_default();
        let mut found = Self::default();
        for line in memberships.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                found.v2 = up_from(mount, group);
            }
            // Mounted under the controller's name, or together with its siblings under all their names.
            let up = |controller: &str| match up_from(&mount.join(controller), group) {
                none if none.is_empty() => up_from(&mount.join(controllers), group),
                groups => groups,
            };
            for controller in controllers.split(',') {
                match controller {
                    "cpuset" => found.v1_cpuset = up(controller),
                    "cpu" => found.v1_cpu = up(controller),
                    "memory" => found.v1_memory = up(controller),
                    _ => {}
                }
            }
        }
        found
    }

    /// The CPUs that all of the groups have.
    pub(super) fn cpuset(&self) -> Result<Option<BTreeSet<usize>>, FileFormatError> {
        let v1 = self
            .v1_cpuset
            .iter()
            .flat_map(|group| ["cpuset.effective_cpus", "cpuset.cpus"].map(|file| group.join(file)));
        let v2 = self.v2.iter().map(|group| group.join("cpuset.cpus.effective"));
        let mut common: Option<BTreeSet<usize>> = None;
        for path in v2.chain(v1) {
            // An empty file inherits.
            if let Some(cpus) = read_set(&path)?.filter(|cpus| !cpus.is_empty()) {
                common = Some(match common {
                    Some(common) => &common & &cpus,
                    None => cpus,
                });
            }
        }
        Ok(common)
    }

    /// The tightest quota.
    pub(super) fn quota(&self) -> Result<Option<CpuQuota>, FileFormatError> {
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
    // A group outside of the process' namespace begins with `..`: the mount doesn't show it.
    let is_shown = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
    Path::new(group)
        .ancestors()
        .filter(|path| is_shown(path))
        .map(|path| mount.join(path.strip_prefix("/").unwrap_or(path)))
        .filter(|path| path.is_dir())
        .collect()
}

fn read_v2_quota(path: &Path) -> Result<Option<CpuQuota>, FileFormatError> {
    let quota = read_as(path, |text| {
        let (quota, period) = text.split_once(' ')?;
        let period_us = period.parse().ok().filter(|&us: &u64| us > 0)?;
        match quota {
            "max" => Some(None),
            quota => Some(Some(CpuQuota { quota_us: quota.parse().ok()?, period_us })),
        }
    });
    quota.map(Option::flatten)
}

fn read_v1_quota(group: &Path) -> Result<Option<CpuQuota>, FileFormatError> {
    let quota = read_number(&group.join("cpu.cfs_quota_us"))?;
    let period = read_number(&group.join("cpu.cfs_period_us"))?;
    // No quota is written as -1.
    Ok(match (quota.map(u64::try_from), period.map(u64::try_from)) {
        (Some(Ok(quota_us)), Some(Ok(period_us @ 1..))) => Some(CpuQuota { quota_us, period_us }),
        _ => None,
    })
}
