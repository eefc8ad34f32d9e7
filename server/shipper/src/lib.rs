//! Uploads TSDB blocks to object storage, as Thanos expects them there: a block's chunks, its index, and last its
//! `meta.json` with the labels of where it comes from. What has its `meta.json` in the bucket is whole.
//!
//! Knows a directory of blocks ([`silverback_block`]) and a bucket ([`BucketConfig`]); knows nothing of a node, of who
//! writes the blocks and of what deletes them. Works on a thread of its own with a small tokio runtime: nobody waits
//! for it, and an executor may ask it whether a block is shipped.
#![forbid(unsafe_code)]

mod backoff;
mod blocks;
mod bucket;
mod counts;
mod meta;
mod objstore;
mod pace;
mod shipped;
mod shipper;
mod upload;

#[cfg(test)]
mod tests;

pub use counts::ShipperCounts;
pub use objstore::{BucketConfig, ObjstoreConfigError};
pub use shipper::{Limits, Shipper, ShipperOptions};
