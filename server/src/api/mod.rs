//! The ways in and out: HTTP endpoints, protocols, pages. Knows requests and answers; what a
//! sample becomes is the shard's.
pub mod body;
pub mod cells_status;
pub mod core;
pub mod endpoints;
pub mod fanout;
pub mod grpc;
pub mod handoff_metrics;
pub mod http_api;
pub mod memory_metrics;
pub mod node_metrics;
pub mod otlp;
pub mod pages;
pub mod protobuf;
pub mod read_fault;
pub mod read_permit;
pub mod rebalance_metrics;
pub mod remote_read;
pub mod remote_write;
pub mod request_body;
pub mod selector;
pub mod status;
pub mod stream;
pub mod time_text;
pub mod union;
pub mod write;
pub mod write_endpoint;
