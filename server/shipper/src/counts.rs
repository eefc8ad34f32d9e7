//! What the shipper counts, for metrics. Written by its thread alone, read by anyone.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use silverback_host::metrics::{Family, Kind};

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) uploads: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) pending: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) last_success_ms: AtomicI64,
    pub(crate) failing_since_ms: AtomicI64,
}

impl Counters {
    pub(crate) fn add(&self, counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// As they stand now.
    pub(crate) fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |at_ms: &AtomicI64| at_ms.load(Ordering::Relaxed) as f64 / 1e3;
        Counts {
            uploads: get(&self.uploads),
            failures: get(&self.failures),
            bytes: get(&self.bytes),
            pending: get(&self.pending),
            damaged: get(&self.damaged),
            last_success_s: time(&self.last_success_ms),
            failing_since_s: time(&self.failing_since_ms),
        }
    }
}

/// What a shipper has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Blocks that were uploaded whole.
    pub uploads: u64,
    /// Tries to upload a block, to look for one, or to remember it, that failed.
    pub failures: u64,
    /// Bytes that the bucket took, those of tries that failed later too.
    pub bytes: u64,
    /// Blocks that are to be uploaded.
    pub pending: u64,
    /// Local blocks that aren't uploaded, because they are damaged.
    pub damaged: u64,
    /// When the directory was last found to be shipped, or a block was uploaded: Unix time in seconds; 0 for never.
    pub last_success_s: f64,
    /// Since when every try has failed: Unix time in seconds; 0 where the last one went well.
    pub failing_since_s: f64,
}

impl Counts {
    /// The metric families of these.
    pub fn families(&self) -> [Family; 7] {
        [
            Family::single(
                "silverback_shipper_uploads_total",
                Kind::Counter,
                "Blocks that were uploaded whole.",
                self.uploads as f64,
            ),
            Family::single(
                "silverback_shipper_upload_failures_total",
                Kind::Counter,
                "Tries to upload a block that failed, or could not be remembered; each is tried again.",
                self.failures as f64,
            ),
            Family::single(
                "silverback_shipper_uploaded_bytes_total",
                Kind::Counter,
                "Bytes that the bucket took, those of tries that failed later too.",
                self.bytes as f64,
            ),
            Family::single(
                "silverback_shipper_blocks_pending",
                Kind::Gauge,
                "Local blocks that are to be uploaded.",
                self.pending as f64,
            ),
            Family::single(
                "silverback_shipper_blocks_damaged",
                Kind::Gauge,
                "Local blocks that are not uploaded because they are damaged or can't be read.",
                self.damaged as f64,
            ),
            Family::single(
                "silverback_shipper_last_success_timestamp_seconds",
                Kind::Gauge,
                "When all local blocks were last found to be in the bucket, or one was uploaded; 0 for never.",
                self.last_success_s,
            ),
            Family::single(
                "silverback_shipper_failing_since_timestamp_seconds",
                Kind::Gauge,
                "Since when every try to upload has failed; 0 where the last one went well.",
                self.failing_since_s,
            ),
        ]
    }
}
