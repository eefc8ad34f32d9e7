//! What is counted of blocks since the start, and what lies on disk: written by the core that has them cut, read by
//! whichever is asked for metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

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

/// Which block was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOf {
    /// A range's samples.
    Range,
    /// Those of a range that isn't over.
    SoFar,
    /// Samples that came after their range was cut.
    Late,
}

/// Blocks that are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlocksOnDisk {
    /// Those whose `meta.json` can be read.
    pub blocks: u64,
    /// What they take, in bytes.
    pub bytes: u64,
    /// Those that can't.
    pub damaged: u64,
}

impl BlockCounts {
    /// A block was cut.
    pub(crate) fn note_cut(&self, of: CutOf, end_ms: i64, bytes: u64) {
        self.cut.fetch_add(1, Ordering::Relaxed);
        self.cut_bytes.fetch_add(bytes, Ordering::Relaxed);
        match of {
            CutOf::Range => self.note_cut_end(end_ms),
            CutOf::SoFar => {}
            CutOf::Late => _ = self.late.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A cut took so long, whether a block came of it or not.
    pub(crate) fn note_time(&self, us: u64) {
        self.cut_us.fetch_add(us, Ordering::Relaxed);
    }

    /// A cut failed.
    pub(crate) fn note_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// So many ranges wait to be cut.
    pub(crate) fn note_due(&self, ranges: u64) {
        self.due.store(ranges, Ordering::Relaxed);
    }

    /// So many ranges have late samples that are in no block, or weren't compared with their blocks yet.
    pub(crate) fn note_late_ranges(&self, ranges: u64) {
        self.late_ranges.store(ranges, Ordering::Relaxed);
    }

    /// Retention waits for so long.
    pub(crate) fn note_wait(&self, ms: u64) {
        self.wait_ms.store(ms, Ordering::Relaxed);
    }

    /// Retention went past what is in no block.
    pub(crate) fn note_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// A block was deleted.
    pub(crate) fn note_deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// These are there.
    pub(crate) fn note_on_disk(&self, BlocksOnDisk { blocks, bytes, damaged }: BlocksOnDisk) {
        self.blocks.store(blocks, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.damaged.store(damaged, Ordering::Relaxed);
    }

    /// Notes the end of the newest range of the blocks that are there.
    pub(crate) fn note_cut_end(&self, end_ms: i64) {
        self.cut_end_ms.fetch_max(end_ms, Ordering::Relaxed);
    }
}
