//! The CPUs that the scheduler may put this thread on.
//!
//! What else narrows them (cgroups, offline CPUs), and what they are to each other, is read by
//! the node's topology.
use std::{collections::BTreeSet, io};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that the scheduler may put this thread on.
pub fn affinity_mask() -> io::Result<BTreeSet<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_run_somewhere() {
        assert!(!affinity_mask().unwrap().is_empty());
    }
}
