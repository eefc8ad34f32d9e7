//! What tests of the node share: a whole node in the test's own process ([`Node`]), executors of a few lines
//! ([`executors`]), requests as senders and readers make them ([`request`], [`written`]), blocks that it wrote
//! ([`blocks`]) or is given ([`laid_blocks`]), and a client that remembers
//! what was acknowledged ([`sender`]) and holds it against what comes back ([`ledger`]).
//!
//! Knows the node's library, which is why it stands apart from `silverback-test-support`; knows no test.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod executors;
mod histograms;
pub mod laid_blocks;
pub mod ledger;
mod node;
pub mod request;
pub mod sender;
pub mod written;

pub use node::{Node, OUT_OF_REACH};
