//! One shard's data: its log, its cells, the messages that it answers.
//!
//! Runs on whatever thread and disk it is given ([`silverback_host`]): it names no executor and no socket, so
//! that a simulation with a seed can be both. In reading order: [`wal`], [`message`], [`cell`], [`shard`].
#![forbid(unsafe_code)]
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod wal;

pub mod message;

pub mod cell;

pub mod shard;
