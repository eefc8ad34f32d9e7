//! What the parts of a node need of the machine that they run on, as traits, so that a seeded simulation
//! can be that machine: a thread ([`Host`]), files ([`disk`]), waiting ([`waiters`]); and what all of them
//! report through: metrics' families, counts, warnings at a limited rate.
//!
//! Knows neither samples' storage nor the executors that the node really runs on.
#![forbid(unsafe_code)]
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod counts;
pub mod disk;
mod host;
pub mod log_limit;
pub mod metrics;
#[cfg(feature = "testing")]
pub mod scripted;
pub mod waiters;

pub use counts::Counts;
pub use host::{Alone, Host};
