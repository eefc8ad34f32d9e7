//! Which NUMA node's memory a thread gets.
//!
//! The policy is `MPOL_PREFERRED`: pages come from the node while it has any free, and from the nearest
//! other then. `MPOL_BIND` would end the process for want of memory on one node while others have it.
//! It holds for what the thread touches first, whoever asked for the address range; so it is set
//! before an executor allocates anything. With the node's allocator, mimalloc, a block that another
//! thread frees goes back to the page of the thread that had it, so what an executor allocates again is
//! its own memory; only slices that it gave back whole may be another's within the next second. Which
//! node it should be is decided elsewhere.
use std::{
    ffi::{c_int, c_long, c_ulong},
    io,
};

use nix::sys::prctl::set_thp_disable;

const MPOL_PREFERRED: c_int = 1;
/// More nodes than the kernel can be built for.
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = c_ulong::BITS as usize;

/// From now on this thread's pages come from `node` while that has free memory.
///
/// Refused where seccomp blocks the call (containers' default profiles), where the kernel has no NUMA,
/// or where the cgroup doesn't allow the node.
pub(super) fn prefer_node(node: usize) -> io::Result<()> {
    if node >= NODES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut mask: [c_ulong; NODES_MAX / WORD_BITS] = [0; NODES_MAX / WORD_BITS];
    mask[node / WORD_BITS] |= 1 << (node % WORD_BITS);
    // The kernel takes one bit less than it is given.
    let bits: c_ulong = NODES_MAX as c_ulong + 1;
    // SAFETY: the kernel reads the mask, of as many bits as it is given, and writes nothing.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_PREFERRED, mask.as_ptr(), bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on no page of this process is a huge one.
///
/// The allocator deals slices of 64 KiB out to all threads from the same ranges, and a huge page over
/// slices of two threads lies where the first of them touched it: on a virtual machine of two nodes
/// 61 to 85 % of what two executors allocated was on their own node with huge pages, 99 % without.
pub(super) fn forgo_huge_pages() -> io::Result<()> {
    Ok(set_thp_disable(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{from_mut, null};

    const MPOL_DEFAULT: c_int = 0;

    /// This thread's policy and its first node.
    fn policy() -> io::Result<(c_int, Option<usize>)> {
        let mut mode: c_int = -1;
        let mut mask: [c_ulong; NODES_MAX / WORD_BITS] = [0; NODES_MAX / WORD_BITS];
        let bits = NODES_MAX as c_ulong;
        // SAFETY: the kernel writes one number and at most as many bits as it is given.
        let result = unsafe {
            let mask = mask.as_mut_ptr();
            libc::syscall(
                libc::SYS_get_mempolicy,
                from_mut(&mut mode),
                mask,
                bits,
                null::<u8>(),
                0 as c_ulong,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let word = mask.iter().position(|word| *word != 0);
        Ok((mode, word.map(|word| word * WORD_BITS + mask[word].trailing_zeros() as usize)))
    }

    /// The node that the page of `byte` is on.
    fn node_of(byte: &u8) -> io::Result<c_int> {
        // The kernel says nothing of a page that its balancer has just made to fault.
        std::hint::black_box(*byte);
        let pages = [std::ptr::from_ref(byte)];
        let mut status: c_int = -1;
        // SAFETY: without a list of nodes nothing is moved: the kernel writes the one status.
        let result = unsafe {
            let (count, no_nodes, flags) = (1 as c_ulong, null::<c_int>(), 0 as c_int);
            let status = from_mut(&mut status);
            libc::syscall(libc::SYS_move_pages, 0, count, pages.as_ptr(), no_nodes, status, flags)
        };
        if result == 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
    }

    /// What `ask` comes to, unless this machine doesn't allow to ask.
    fn where_allowed<T>(what: &str, ask: io::Result<T>) -> Option<T> {
        match ask {
            Ok(answer) => Some(answer),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                eprintln!("not tested: {what} isn't allowed here: {error}");
                None
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }

    /// Runs `test` on a thread of its own, whose policy nobody else has.
    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_that_prefers_a_node_has_that_policy_and_others_do_not() {
        on_a_thread(|| {
            let Some(()) = where_allowed("set_mempolicy", prefer_node(0)) else { return };
            let Some(policy_now) = where_allowed("get_mempolicy", policy()) else { return };
            assert_eq!(policy_now, (MPOL_PREFERRED, Some(0)));
            let of_other = std::thread::scope(|scope| {
                // A thread inherits the policy of the one that starts it.
                scope.spawn(policy).join().unwrap().unwrap()
            });
            assert_eq!(of_other, (MPOL_PREFERRED, Some(0)));
        });
        if let Some(policy_here) = where_allowed("get_mempolicy", policy()) {
            assert_eq!(policy_here, (MPOL_DEFAULT, None));
        }
    }

    #[test]
    fn what_the_thread_touches_first_is_on_the_node_wherever_it_runs() {
        on_a_thread(|| {
            let Some(()) = where_allowed("set_mempolicy", prefer_node(0)) else { return };
            // Beyond the machine's last node the kernel refuses.
            for node in (0..8).take_while(|node| prefer_node(*node).is_ok()) {
                // Large enough to be fresh from the kernel.
                let fresh = vec![1_u8; 64 << 20];
                for page in fresh.chunks(1 << 20) {
                    let Some(found) = where_allowed("move_pages", node_of(&page[0])) else { return };
                    assert_eq!(usize::try_from(found), Ok(node));
                }
            }
        });
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_and_changes_nothing() {
        on_a_thread(|| {
            for node in [NODES_MAX - 1, NODES_MAX, usize::MAX] {
                assert!(prefer_node(node).is_err(), "{node}");
            }
            if let Some(policy_now) = where_allowed("get_mempolicy", policy()) {
                assert_eq!(policy_now, (MPOL_DEFAULT, None));
            }
        });
    }
}
