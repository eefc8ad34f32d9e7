//! The metric families of blocks, where the node makes some.

use crate::blocks::{BlockCounts, BlocksOnDisk};
use silverback_host::metrics::{Family, Kind};

/// All of them.
pub(crate) fn families(counts: &BlockCounts) -> Vec<Family> {
    let BlocksOnDisk { blocks, bytes, damaged } = counts.on_disk();
    let counter = |name, help, value: f64| Family::single(name, Kind::Counter, help, value);
    let gauge = |name, help, value: f64| Family::single(name, Kind::Gauge, help, value);
    vec![
        counter("silverback_blocks_cut_total", "Blocks that were cut from memory.", counts.cut() as f64),
        counter(
            "silverback_blocks_late_total",
            "Of them, those of samples that came after their range was cut.",
            counts.late() as f64,
        ),
        counter(
            "silverback_blocks_failed_total",
            "Times that blocks could not be cut, looked at or deleted; each is tried again.",
            counts.failed() as f64,
        ),
        counter(
            "silverback_blocks_seconds_total",
            "Time that cuts took, those that failed among them.",
            counts.cut_us() as f64 / 1e6,
        ),
        counter(
            "silverback_blocks_bytes_total",
            "Bytes of the blocks that were cut.",
            counts.cut_bytes() as f64,
        ),
        counter("silverback_blocks_deleted_total", "Blocks that retention deleted.", counts.deleted() as f64),
        gauge(
            "silverback_blocks_due",
            "Ranges of two hours that are over and wait to be cut.",
            counts.due() as f64,
        ),
        gauge(
            "silverback_blocks_late_ranges",
            "Ranges that were cut and have late samples that are in no block yet, or may have some after a start.",
            counts.late_ranges() as f64,
        ),
        gauge(
            "silverback_blocks_cut_end_timestamp_seconds",
            "The end of the newest range that was cut; 0: none was.",
            counts.cut_end_ms() as f64 / 1e3,
        ),
        gauge("silverback_blocks", "Blocks on disk.", blocks as f64),
        gauge("silverback_blocks_bytes", "What blocks take on disk.", bytes as f64),
        gauge("silverback_blocks_damaged", "Blocks that can't be read, and are left alone.", damaged as f64),
    ]
}
