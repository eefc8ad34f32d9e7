//! The gRPC API, as a stock client of each service sees it.
#[path = "../harness/mod.rs"]
mod harness;
#[allow(dead_code, reason = "remote read's part of it is for its own tests")]
#[path = "../reads/written.rs"]
mod written;

mod admin;
mod channel;
mod origins;
mod otlp;
mod partial;
mod query;
mod reflection;
mod steering;
