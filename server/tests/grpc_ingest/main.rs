//! `Ingest` as a stock gRPC client speaks it: what is acknowledged is there, what is refused is told
//! by series and reason, and what is wrong costs its own stream alone.

#[path = "../harness/mod.rs"]
mod harness;

mod backpressure;
mod bad_input;
mod client;
mod deadlines;
mod stream;
mod unary;
