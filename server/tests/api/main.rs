//! Whole nodes in this process, as their clients see them: what is written over each protocol is read back by each, bad
//! input and bad clients cost nobody else, and blocks are what memory was.
//!
//! One program, for each links the whole node. A test that measures the process, or whose node has little memory, is in
//! a program of its own or runs the command: what all tests here take counts for each node of the process.

mod bad_input;
mod blocks;
mod client_library;
mod exemplars;
mod grpc;
mod grpc_health;
mod grpc_ingest;
mod large_requests;
mod lines;
mod shipping;
