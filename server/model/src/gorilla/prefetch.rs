//! A hint to the processor that a place in memory is wanted soon. Knows nothing of what is there.

/// Asks for the cache line of `place`, and returns at once. A hint: it changes no result.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    let address = std::ptr::from_ref(place).cast::<i8>();
    // Miri has no caches, and interprets neither of these instructions.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching neither reads nor writes as far as the program can tell, and never
    // faults whatever the address; SSE is part of every x86_64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; `prfm` is a hint that never faults and touches no register or flag.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _no_hint_to_give = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetched_place_keeps_its_value() {
        let places = [1_u64, 2, 3];
        for place in &places {
            prefetch(place);
        }
        prefetch(&());
        assert_eq!(places, [1, 2, 3]);
    }
}
