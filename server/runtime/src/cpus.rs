//! The CPUs that the scheduler may put this thread on.
//!
//! What else narrows them (cgroups, offline CPUs), and what they are to each other, is read by
//! the node's topology.
use std::{collections::BTreeSet, io, mem::size_of};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_run_somewhere() {
        assert!(!affinity_mask().unwrap().is_empty());
    }
}
