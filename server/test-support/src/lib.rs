//! What tests of all crates share: how long they wait ([`eventually`]), how they start a program and look at it
//! from outside ([`Process`]), a node's command as such a program ([`Binary`], [`home`]), directories that go with them
//! ([`Scratch`]; [`Directory`] on a disk, [`Mount`] in memory), ports ([`free_port`]), the time of day ([`now_ms`]), numbers of a seed ([`random`]);
//! clients that can also ask what no library would ([`http`], [`http2`], [`wire`]), wakers that count
//! ([`waking`]), files as Prometheus writes them
//! ([`prometheus`]); and whether the tests are there that a document names ([`named_tests`]).
//!
//! Knows nothing of what is asked of a node, and nothing of the crates that it tests: a command's path is given by the
//! tests of the package that builds it (`CARGO_BIN_EXE_…`).
#![forbid(unsafe_code)]

mod binary;
mod clock;
mod directory;
pub mod home;
pub mod http;
pub mod http2;
mod mount;
pub mod named_tests;
mod process;
pub mod prometheus;
pub mod random;
mod scratch;
mod waiting;
pub mod waking;
pub mod wire;

pub use binary::Binary;
pub use clock::now_ms;
pub use directory::Directory;
pub use mount::Mount;
pub use process::Process;
pub use scratch::{Scratch, free_port};
pub use waiting::{TEST_TIMEOUT, Waiting, eventually, eventually_found};
