//! The process' allocator, and how soon it gives back what was freed.
#![expect(unsafe_code, reason = "mimalloc is configured by a C function")]

use libmimalloc_sys::{mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, in ms. The crate has no name for it, but for the next one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;
/// Bodies of megabytes that come and go all the time would keep a multiple of what is in flight resident within
/// mimalloc's own second, and a small memory limit be full of what nobody holds.
const PURGE_DELAY_MS: i64 = 10;

/// To be called first. `MIMALLOC_PURGE_DELAY` in the environment goes before.
pub(crate) fn configure() {
    // SAFETY: no other thread runs yet, and the option is one of mimalloc's.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) }
}
