//! Rebalance: cells move from one shard to another while traffic flows.
pub mod handoff;
mod steps;

pub use handoff::{Handed, HandoffFault, Handoffs};
