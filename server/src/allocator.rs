//! The process' allocator, and how soon it gives back what was freed.
#![expect(unsafe_code, reason = "mimalloc is configured by C functions")]

use libmimalloc_sys::{mi_option_set, mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, in ms. The crate has no name for it, but for the next one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;
/// Bodies of megabytes that come and go all the time would keep a multiple of what is in flight resident within
/// mimalloc's own second, and a small memory limit be full of what nobody holds.
const PURGE_DELAY_MS: i64 = 10;
/// From this limit on what comes and goes is little beside it, ...
const LARGE_LIMIT_BYTES: usize = 4 << 30;
/// ... and pages that are given back at once, only to be taken and zeroed again, cost ingest a tenth of its CPU time.
/// It is less than what the watch over resident memory waits for.
const LARGE_PURGE_DELAY_MS: i64 = 500;

/// To be called first. `MIMALLOC_PURGE_DELAY` in the environment goes before.
pub(crate) fn configure() {
    // SAFETY: no other thread runs yet, and the option is one of mimalloc's.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) }
}

/// To be called before there are other threads, once the node's memory limit is known.
pub(crate) fn keep_freed(limit_bytes: usize) {
    if limit_bytes >= LARGE_LIMIT_BYTES && std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: no other thread runs yet, and the option is one of mimalloc's.
        unsafe { mi_option_set(PURGE_DELAY, LARGE_PURGE_DELAY_MS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::mi_option_get;

    #[test]
    fn a_large_limit_alone_keeps_freed_memory_longer() {
        // SAFETY: the option is one of mimalloc's.
        let delay_ms = || unsafe { mi_option_get(PURGE_DELAY) };
        configure();
        keep_freed(LARGE_LIMIT_BYTES - 1);
        assert_eq!(delay_ms(), PURGE_DELAY_MS);
        keep_freed(LARGE_LIMIT_BYTES);
        assert_eq!(delay_ms(), LARGE_PURGE_DELAY_MS);
    }
}
