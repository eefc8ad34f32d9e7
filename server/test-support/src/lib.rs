//! What tests of all crates share: how long they wait ([`eventually`]), how they start a program and look at it
//! from outside ([`Process`]), directories that go with them ([`Scratch`]), ports ([`free_port`]), numbers of a seed
//! ([`random`]); clients that can also ask what no library would ([`http`], [`http2`], [`wire`]).
//!
//! Knows nothing of what is asked of a node, and nothing of the crates that it tests.
#![forbid(unsafe_code)]

pub mod http;
pub mod http2;
mod process;
pub mod random;
mod scratch;
mod waiting;
pub mod wire;

pub use process::Process;
pub use scratch::{Scratch, free_port};
pub use waiting::{PATIENCE, Waiting, eventually, eventually_found};
