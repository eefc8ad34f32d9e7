//! The gRPC API, as a stock client of each service sees it.

mod admin;
mod channel;
mod origins;
mod otlp;
mod partial;
mod query;
mod receive;
mod reflection;
mod steering;
mod store;
mod store_beside;
mod store_blocks;
mod thanos_query;
