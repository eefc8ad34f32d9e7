//! The ways in and out: HTTP endpoints, protocols, pages. Knows requests and answers; what a
//! sample becomes is the shard's.
//!
//! In reading order: [`core`], what a core's handlers share (what writes, reads and moves need besides is with
//! them); [`response`] and [`http`], the transport; [`ingest`],
//! [`query`], [`status`] and `query_page`, what is asked for; [`grpc`], the same by another transport; `routes`, which path is
//! answered by what and takes which scope; `admission`, who is let in; [`endpoints`], where every request goes through.
pub mod cell_mover;
pub mod core;
mod host_name;
pub mod protobuf;
pub mod response;

pub mod http;

pub mod ingest;

pub mod query;

pub mod status;

pub(crate) mod query_page;

pub mod grpc;

pub(crate) mod routes;

pub(crate) mod admission;

pub mod endpoints;
pub(crate) mod handlers;
