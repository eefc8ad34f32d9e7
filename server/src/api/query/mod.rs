//! Data out: Prometheus' HTTP API, remote read, and what they share with gRPC's queries: selectors, asking all shards,
//! merging what they say, and streams of it.
//!
//! Knows requests for data. Changes nothing, but for deletes, which select as reads do, and writes nothing, but for
//! snapshots and blocks of the head.
mod core;
pub(crate) mod external;
pub(crate) mod frame;
pub mod http_api;
pub mod influx_query;
pub(crate) mod local_blocks;
pub mod matchers;
pub(crate) mod range_blocks;
pub(crate) mod read_rejected;
pub mod remote_read;
pub mod rows;
pub mod selector;
pub mod snapshot;
pub mod stream;
pub(crate) mod time_limit;
pub mod time_text;
pub(crate) mod union;

pub use core::Reader;
