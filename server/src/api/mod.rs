//! The ways in and out: HTTP endpoints, protocols, pages. Knows requests and answers; what a
//! sample becomes is the shard's.
pub mod body;
pub mod core;
pub mod endpoints;
pub mod fanout;
pub mod node_metrics;
pub mod pages;
pub mod remote_write;
pub mod request_body;
pub mod status;
pub mod write;
pub mod write_endpoint;
