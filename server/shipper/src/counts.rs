//! What the shipper counts, for metrics. Written by its thread alone, read by anyone.

use std::sync::atomic::{AtomicI64, AtomicU64};

use silverback_host::counters;

counters! {
    /// What a shipper has counted.
    #[derive(Debug, Default)]
    pub struct ShipperCounts {
        /// Blocks that were uploaded whole.
        uploads: AtomicU64 => Counter "silverback_shipper_uploads_total",
        /// Tries to upload a block that failed, or could not be remembered; each is tried again.
        failures: AtomicU64 => Counter "silverback_shipper_upload_failures_total",
        /// Bytes that the bucket took, those of tries that failed later too.
        bytes: AtomicU64 => Counter "silverback_shipper_uploaded_bytes_total",
        /// Local blocks that are to be uploaded, without those that are damaged.
        pending: AtomicU64 => Gauge "silverback_shipper_blocks_pending",
        /// Local blocks that are not uploaded because they are damaged or can't be read.
        damaged: AtomicU64 => Gauge "silverback_shipper_blocks_damaged",
        /// When all local blocks were last found to be in the bucket, or one was uploaded; 0 for never.
        last_success_ms: AtomicI64 => Gauge "silverback_shipper_last_success_timestamp_seconds" / 1e3,
        /// Since when every try to upload has failed; 0 where the last one went well.
        failing_since_ms: AtomicI64 => Gauge "silverback_shipper_failing_since_timestamp_seconds" / 1e3,
    }
}
