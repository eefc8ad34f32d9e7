//! The metric families of the blocks on disk: which are open, and what reading them takes. How they are read isn't known here.

use crate::api::query::local_blocks::BlockCounts;
use silverback_host::metrics::{Family, Kind};

/// All of them.
pub(crate) fn families(counts: &BlockCounts) -> Vec<Family> {
    let BlockCounts { open, damaged, reads, read_bytes, cache } = *counts;
    let gauge = |name, help, value: usize| Family::single(name, Kind::Gauge, help, value as f64);
    let counter = |name, help, value: u64| Family::single(name, Kind::Counter, help, value as f64);
    vec![
        gauge("silverback_blocks_open", "Blocks on disk that reads are answered from.", open),
        counter(
            "silverback_blocks_set_aside_total",
            "Blocks that were found to be damaged and are not read any more.",
            damaged,
        ),
        counter("silverback_block_reads_total", "Selections that were read of blocks on disk, too.", reads),
        gauge("silverback_block_read_bytes", "What reads of blocks hold.", read_bytes),
        counter(
            "silverback_block_cache_hits_total",
            "Pieces of blocks' files that were wanted and in memory.",
            cache.hits,
        ),
        counter(
            "silverback_block_cache_misses_total",
            "Pieces of blocks' files that were read from disk.",
            cache.misses,
        ),
        gauge("silverback_block_cache_bytes", "What is kept in memory of blocks' files.", cache.bytes),
    ]
}
