//! Samples in: remote write, Thanos' routers, OTLP and lines, and what they share: from decoded series to shards and back to an
//! answer, refusals and who gets them.
//!
//! Knows formats and verdicts. Doesn't know how a shard keeps a sample.
pub(crate) mod caller;
mod core;
pub mod known_metadata;
pub mod label_sets;
pub mod lines;
pub mod otlp;
pub(crate) mod refusal_log;
pub mod remote_write;
pub(crate) mod thanos;
pub(crate) mod timing;
pub mod write;
pub mod write_endpoint;
pub(crate) mod write_status;

pub use core::Ingest;
