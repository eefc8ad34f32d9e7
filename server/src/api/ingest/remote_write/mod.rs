//! Remote write: from the bytes of a request to checked series and samples, and from what became
//! of them to the answer. It knows both protocol versions; it knows no shard, socket or clock.
//!
//! ```text
//! negotiate (which version) → snappy (into the body) → Decoder (v1 | v2, in slices) → SeriesSink
//! … the shards append … → answer (status, headers, words)
//! ```
mod beside;
mod canonical;
mod content;
mod decoder;
mod id_cache;
mod labels;
mod malformed;
mod symbols;
mod tally;
mod thanos;
mod v1;
mod v2;
mod write_rejected;

pub mod answer;
pub mod negotiate;
pub mod snappy;
pub mod wire;

pub use decoder::{DecodeProgress, Decoder, Decoding, SeriesSink, Version};
pub use id_cache::IdCache;
pub use labels::CollectedLabels;
pub use malformed::{MalformedError, MalformedErrorKind};
pub use tally::RequestTally;
pub use thanos::{SeriesIn, Survey};
pub use v1::collect_labels;
pub(in crate::api::ingest) use write_rejected::CountedAs;
pub use write_rejected::WriteRejected;
