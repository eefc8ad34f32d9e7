//! The groups of the founding comparison of caches: what is done with the blocks, and what it takes to get there. It
//! knows names as they are in release builds.

use super::groups::Group;
use super::groups::Pattern::{Begins, Has, Is};
use super::server_groups::{KERNEL_MEMORY, KERNEL_SCHEDULING};

/// All of them; the first that has a symbol gets it.
pub const CACHE: &[Group] = &[
    KERNEL_MEMORY,
    KERNEL_SCHEDULING,
    Group {
        name: "kernel: the ring, entry and exit",
        is_kernel: true,
        patterns: &[
            Begins("io_"),
            Begins("__io_"),
            Has("io_uring"),
            Has("syscall"),
            Begins("entry_"),
            Has("exit_to_user"),
            Begins("irqentry"),
            Has("softirq"),
            Has("return_thunk"),
            Begins("fget"),
            Begins("fput"),
            Begins("xas_"),
            Has("get_user"),
            Has("put_user"),
            Begins("_raw_spin_"),
            Has("kmem_cache"),
            Begins("ktime_"),
            Begins("read_tsc"),
        ],
    },
    Group {
        name: "copying blocks",
        is_kernel: false,
        patterns: &[Begins("__memmove"), Begins("__memcpy"), Begins("memcpy"), Begins("memmove")],
    },
    Group {
        name: "checking blocks",
        is_kernel: false,
        patterns: &[Begins("silverback_benches::founding::cache::items::Operation::end")],
    },
    Group {
        name: "filling blocks, and the asker",
        is_kernel: false,
        patterns: &[
            Begins("__memset"),
            Begins("silverback_benches::founding::cache::items::Operation::begin"),
            Begins("silverback_benches::founding::cache::items::Item::new"),
            Begins("silverback_benches::founding::cache::Work"),
            Begins("silverback_benches::founding::cache::locked::ask"),
            // Where each asker's loop is inlined on the node's executors.
            Begins("core::panic::unwind_safe"),
        ],
    },
    Group {
        name: "finding items and buffers",
        is_kernel: false,
        patterns: &[
            Begins("silverback_benches::founding::cache::items"),
            Begins("core::hash"),
            Begins("hashbrown"),
        ],
    },
    Group {
        name: "locks",
        is_kernel: false,
        patterns: &[
            Begins("std::sync"),
            Begins("std::sys::sync"),
            Begins("tokio::sync"),
            Has("batch_semaphore"),
        ],
    },
    Group {
        name: "lanes and messages",
        is_kernel: false,
        patterns: &[
            Begins("silverback_benches::founding::cache::owned"),
            Begins("silverback_runtime::lane"),
            Begins("glommio::channels"),
            Has("oneshot"),
            Begins("silverback_runtime"),
        ],
    },
    Group {
        name: "runtime: tasks, wakers, timers",
        is_kernel: false,
        patterns: &[
            Begins("tokio"),
            Has("tokio::"),
            Begins("glommio"),
            Has("glommio::"),
            Begins("futures"),
            Begins("core::future"),
            Begins("core::pin"),
            Begins("core::task"),
            Begins("std::sys"),
            Begins("std::thread"),
            Begins("std::time"),
            Has("clock_gettime"),
            Has("io_uring"),
            Is("syscall"),
            Begins("epoll_"),
            Has("pthread"),
            Begins("silverback_host"),
            Begins("silverback_benches::founding"),
        ],
    },
    Group {
        name: "the allocator",
        is_kernel: false,
        patterns: &[
            Begins("mi_"),
            Begins("_mi_"),
            Begins("malloc"),
            Begins("alloc::"),
            Begins("__rust"),
            Begins("core::ptr::drop_in_place"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::super::groups::group_of;
    use super::super::groups::tests::{check_sound, symbol};
    use super::*;

    #[test]
    fn each_pattern_can_be_reached() {
        check_sound(CACHE);
    }

    #[test]
    fn symbols_that_were_seen_are_where_they_belong() {
        for (name, group) in [
            ("__memmove_avx512_unaligned_erms", "copying blocks"),
            ("silverback_benches::founding::cache::items::Operation::end", "checking blocks"),
            ("silverback_benches::founding::cache::items::Operation::read", "finding items and buffers"),
            ("futures_channel::oneshot::Sender<T>::send", "lanes and messages"),
            ("glommio::task::raw::RawTask<F,R,S>::run", "runtime: tasks, wakers, timers"),
            ("tokio::runtime::task::raw::poll", "runtime: tasks, wakers, timers"),
            ("std::sys::sync::rwlock::futex::RwLock::read_contended", "locks"),
            ("mi_free", "the allocator"),
        ] {
            assert_eq!(group_of(CACHE, &symbol(false, name, 1)), group, "{name}");
        }
    }
}
