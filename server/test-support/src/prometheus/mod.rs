//! Prometheus' own files as tests write them: blocks ([`block`]) and write-ahead logs ([`log`]).
//!
//! Written by the formats' descriptions alone, so that no reader is tested by its own writer.

pub mod block;
pub mod log;
