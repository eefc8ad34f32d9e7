//! What is counted of blocks since the start, and what is on disk: written by the core that has them cut, read by
//! whichever is asked for metrics.

use std::sync::atomic::{AtomicI64, AtomicU64};

use silverback_host::counters;

counters! {
    /// Counters and sizes.
    #[derive(Debug, Default)]
    pub struct BlockCounts {
        /// Blocks that were cut from memory.
        cut: AtomicU64 => Counter "silverback_blocks_cut_total",
        /// Of them, those of samples that came after their range was cut.
        late: AtomicU64 => Counter "silverback_blocks_late_total",
        /// Times that blocks could not be cut, looked at or deleted; each is tried again.
        failed: AtomicU64 => Counter "silverback_blocks_failed_total",
        /// Time that cuts took, those that failed among them.
        cut_us: AtomicU64 => Counter "silverback_blocks_seconds_total" / 1e6,
        /// Bytes of the blocks that were cut.
        cut_bytes: AtomicU64 => Counter "silverback_blocks_bytes_total",
        /// Blocks that retention deleted.
        deleted: AtomicU64 => Counter "silverback_blocks_deleted_total",
        /// Ranges of two hours that are over and wait to be cut.
        due: AtomicU64 => Gauge "silverback_blocks_due",
        /// Ranges that were cut and have late samples that are in no block yet, or may have some after a start.
        late_ranges: AtomicU64 => Gauge "silverback_blocks_late_ranges",
        /// How much longer memory keeps samples than its retention says, for ranges that are in no block yet.
        wait_ms: AtomicU64 => Gauge "silverback_blocks_retention_wait_seconds" / 1e3,
        /// Times that retention dropped what is in no block: memory was short, and cutting failed.
        given_up: AtomicU64 => Counter "silverback_blocks_given_up_total",
        /// The end of the newest range that was cut; 0: none was.
        cut_end_ms: AtomicI64 => Gauge "silverback_blocks_cut_end_timestamp_seconds" / 1e3,
        /// Blocks on disk.
        blocks: AtomicU64 => Gauge "silverback_blocks",
        /// What blocks take on disk.
        bytes: AtomicU64 => Gauge "silverback_blocks_bytes",
        /// Blocks that can't be read, and are left alone.
        damaged: AtomicU64 => Gauge "silverback_blocks_damaged",
    }
}
