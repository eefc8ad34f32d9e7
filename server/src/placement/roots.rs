//! Where the kernel's files are: this machine's, or those of a made-up one.
use std::path::{Path, PathBuf};

/// Where the kernel's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/sys`
    pub(crate) sysfs: PathBuf,
    /// `/proc`
    pub(crate) procfs: PathBuf,
    /// `/sys/fs/cgroup`
    pub(crate) cgroupfs: PathBuf,
}

impl Roots {
    /// This machine's.
    pub(crate) fn host() -> Self {
        Self::below(Path::new("/"))
    }

    /// Those of a machine whose files lie below `root` as they are below `/`.
    pub(crate) fn below(root: &Path) -> Self {
        Self { sysfs: root.join("sys"), procfs: root.join("proc"), cgroupfs: root.join("sys/fs/cgroup") }
    }
}
