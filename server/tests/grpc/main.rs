//! The gRPC API, as a stock client of each service sees it.
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../reads/written.rs"]
mod written;

mod admin;
mod channel;
mod otlp;
mod query;
