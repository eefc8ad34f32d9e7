//! What the parts of a node need of the machine that they run on, as traits, so that a seeded simulation
//! can be that machine: a thread ([`Host`]), files ([`disk`]), waiting ([`waiters`], and
//! [`arrivals`] where threads wait for each other); and what all of them
//! report through: metrics' families, counts, warnings at a limited rate.
//!
//! Knows neither samples' storage nor the executors that the node really runs on.
#![forbid(unsafe_code)]
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

#[expect(
    clippy::disallowed_types,
    reason = "held for a few instructions: at the start and the end of a node, and of a read"
)]
pub mod arrivals;
mod counts;
pub mod disk;
mod host;
pub mod log_limit;
pub mod metrics;
mod named_file;
#[expect(clippy::disallowed_types, reason = "those who use it say why")]
pub mod sync;
pub mod waiters;

// Beside the file that it tests: the models in `tests/loom` include that.
#[cfg(test)]
mod arrivals_tests;

pub use arrivals::Arrivals;
pub use counts::Counts;
pub use host::{Alone, Host};
pub use named_file::{open_named, read_named, read_named_text};
