//! `Ingest` as a stock gRPC client speaks it: what is acknowledged is there, what is refused is reported
//! by series and reason, and what is wrong costs its own stream alone.

mod backpressure;
mod bad_input;
mod client;
mod deadlines;
mod histograms;
mod moves;
mod stream;
mod unary;
