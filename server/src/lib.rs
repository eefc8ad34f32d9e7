//! Silverback: a time-series ingestion node that owns each core's data on that core.
//!
//! The modules, in reading order; a module uses only what is above it:
//!
//! ```text
//! socket ── api::acceptor (every core listens) ── decode in place ── routing::split by series id
//!    ── lane to the owning shard ── shard::worker: validate → append → commit → acknowledge
//!    ── reply lane ── acceptor ── 204
//! ```
#![forbid(unsafe_code)]
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod config;

pub mod logging;

pub mod access;

pub mod placement;

pub mod routing;

pub mod migration;

pub mod rebalance;

pub mod blocks;

pub mod api;

pub mod node;
