//! The memory that this process may use: the machine's, or what its cgroup leaves of it.
//!
//! Everything is read below a root, so that made-up machines are test data. What the node does with
//! the memory is decided elsewhere.
use std::path::Path;

use super::{
    cgroup::Cgroups,
    files::{FileFormatError, read_text, total_bytes},
    roots::Roots,
};
use silverback_model::named;

/// The memory of the machine or the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllowedMemory {
    /// How much.
    pub bytes: usize,
    /// Who says so.
    pub bound: MemoryBound,
}

named! {
    /// What bounds the memory of this process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum MemoryBound {
        /// The machine has no more.
        Machine = "machine",
        /// The cgroup, or one above it, allows no more.
        Cgroup = "cgroup",
    }
}

/// The memory that this process may use.
pub(crate) fn allowed_memory(roots: &Roots) -> Result<AllowedMemory, FileFormatError> {
    let machine_bytes = machine_bytes(&roots.procfs.join("meminfo"))?;
    let machine = AllowedMemory { bytes: machine_bytes, bound: MemoryBound::Machine };
    Ok(match tightest_limit(roots)? {
        Some(bytes) if bytes < machine_bytes => AllowedMemory { bytes, bound: MemoryBound::Cgroup },
        Some(_) | None => machine,
    })
}

/// Each group above may be tighter than the nearest.
fn tightest_limit(roots: &Roots) -> Result<Option<usize>, FileFormatError> {
    let groups = Cgroups::read(roots);
    let v2 = groups.v2.iter().map(|group| group.join("memory.max"));
    let v1 = groups.v1_memory.iter().map(|group| group.join("memory.limit_in_bytes"));
    let limits: Vec<Option<usize>> = v2.chain(v1).map(|path| read_limit(&path)).collect::<Result<_, _>>()?;
    Ok(limits.into_iter().flatten().min())
}

fn read_limit(path: &Path) -> Result<Option<usize>, FileFormatError> {
    let Some(text) = read_text(path) else { return Ok(None) };
    match text.trim() {
        "max" => Ok(None),
        // Version 1 writes no limit as a number beyond any machine.
        bytes => bytes.parse().map(Some).map_err(|_| FileFormatError::new(path, &text)),
    }
}

/// The kernel always has it: without it nothing is known.
fn machine_bytes(path: &Path) -> Result<usize, FileFormatError> {
    let text = read_text(path).unwrap_or_default();
    let bytes = total_bytes(&text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| FileFormatError::new(path, &text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use silverback_test_support::Scratch;

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
    const MACHINE_BYTES: usize = 16 << 30;

    /// What a machine with these files allows.
    fn read(files: &[(&str, &str)]) -> Result<AllowedMemory, FileFormatError> {
        let root = Scratch::new();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        allowed_memory(&Roots::below(root.path()))
    }

    fn check(files: &[(&str, &str)], bytes: usize, bound: MemoryBound) {
        assert_eq!(read(&[&[MACHINE], files].concat()), Ok(AllowedMemory { bytes, bound }), "{files:?}");
    }

    #[test]
    fn without_a_cgroup_s_limit_the_machine_s_memory_holds() {
        check(&[], MACHINE_BYTES, MemoryBound::Machine);
        let unlimited = [("proc/self/cgroup", "0::/pod\n"), ("sys/fs/cgroup/pod/memory.max", "max\n")];
        check(&unlimited, MACHINE_BYTES, MemoryBound::Machine);
    }

    #[test]
    fn the_tightest_v2_limit_of_the_group_and_those_above_holds() {
        let above = [
            ("proc/self/cgroup", "0::/pods/node\n"),
            ("sys/fs/cgroup/pods/node/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/pods/memory.max", "1073741824\n"),
        ];
        check(&above, 1 << 30, MemoryBound::Cgroup);
        let nearest = [
            ("proc/self/cgroup", "0::/pods/node\n"),
            ("sys/fs/cgroup/pods/node/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pods/memory.max", "max\n"),
        ];
        check(&nearest, 1 << 30, MemoryBound::Cgroup);
    }

    #[test]
    fn a_container_s_own_view_shows_its_limit_at_the_top_of_the_mount() {
        let files = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "536870912\n")];
        check(&files, 512 << 20, MemoryBound::Cgroup);
        let v1 = [
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ];
        check(&v1, 512 << 20, MemoryBound::Cgroup);
    }

    #[test]
    fn a_v1_limit_holds_and_its_number_for_none_does_not() {
        let files = |limit| {
            [
                ("proc/self/cgroup", "4:memory:/node\n"),
                ("sys/fs/cgroup/memory/node/memory.limit_in_bytes", limit),
            ]
        };
        check(&files("1073741824\n"), 1 << 30, MemoryBound::Cgroup);
        check(&files("9223372036854771712\n"), MACHINE_BYTES, MemoryBound::Machine);
    }

    #[test]
    fn a_limit_above_the_machine_is_the_machine_s() {
        let files = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1099511627776\n")];
        check(&files, MACHINE_BYTES, MemoryBound::Machine);
    }

    #[test]
    fn what_is_not_a_number_is_an_error_and_not_the_absence_of_a_limit() {
        let files = [MACHINE, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "much\n")];
        assert!(read(&files).unwrap_err().to_string().contains("much"));
        let none = read(&[("proc/meminfo", "MemFree: 1 kB\n")]).unwrap_err();
        assert!(none.to_string().contains("meminfo"), "{none}");
    }

    #[test]
    fn the_real_machine_has_memory() {
        assert!(allowed_memory(&Roots::host()).unwrap().bytes > 64 << 20);
    }
}
