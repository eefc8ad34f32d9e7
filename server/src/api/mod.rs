//! The ways in and out: HTTP endpoints, protocols, pages. Knows requests and answers; what a
//! sample becomes is the shard's.
pub mod core;
pub mod fanout;
pub mod remote_write;
pub mod status;
