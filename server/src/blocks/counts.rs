//! What is counted of blocks since the start, and what lies on disk: written by the core that has them cut, read by
//! whichever is asked for metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counters and sizes.
#[derive(Debug, Default)]
pub struct BlockCounts {
    cut: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
    cut_us: AtomicU64,
    cut_bytes: AtomicU64,
    cut_end_ms: AtomicI64,
    due: AtomicU64,
    late_ranges: AtomicU64,
    deleted: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
    damaged: AtomicU64,
}

/// Which block was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOf {
    /// A range's samples.
    Range,
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

    /// Blocks that were cut; those of late samples among them.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Of them, those of late samples.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Cuts that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How long cuts took, in µs.
    pub(crate) fn cut_us(&self) -> u64 {
        self.cut_us.load(Ordering::Relaxed)
    }

    /// Bytes of the blocks that were cut.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.cut_bytes.load(Ordering::Relaxed)
    }

    /// The end of the newest range that is cut, in ms; 0: none is.
    pub(crate) fn cut_end_ms(&self) -> i64 {
        self.cut_end_ms.load(Ordering::Relaxed)
    }

    /// Notes the end of the newest range of the blocks that are there.
    pub(crate) fn note_cut_end(&self, end_ms: i64) {
        self.cut_end_ms.fetch_max(end_ms, Ordering::Relaxed);
    }

    /// Ranges that wait to be cut.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// Ranges with late samples that are in no block, or not compared with their blocks yet.
    pub(crate) fn late_ranges(&self) -> u64 {
        self.late_ranges.load(Ordering::Relaxed)
    }

    /// Blocks that were deleted.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// What is there.
    pub(crate) fn on_disk(&self) -> BlocksOnDisk {
        BlocksOnDisk {
            blocks: self.blocks.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
        }
    }
}
