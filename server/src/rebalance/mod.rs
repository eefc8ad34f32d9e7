//! Rebalance: cells of a hot shard go to idle cores while traffic flows.
//!
//! What moves is decided purely ([`plan`], and with hysteresis [`planner`]) from what the shards report
//! of their loads ([`load`]) and from what people say ([`steering`]); the [`controller`] has it done,
//! one cell at a time; a cell goes from shard to shard by a [`migration`](crate::migration).
pub(crate) mod controller;
pub mod load;
pub mod plan;
pub(crate) mod planner;
pub mod steering;

pub(crate) use controller::{Controller, Rebalanced};
pub use load::{CellLoad, DrainState, Movable, NodeLoad, ShardLoad};
pub use plan::Move;
pub(crate) use planner::{Hysteresis, Planner};
pub use steering::{DrainRejected, Motion, Steering};
