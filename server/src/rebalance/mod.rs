//! Rebalance: cells of a hot shard go to idle cores while traffic flows.
//!
//! What moves is decided purely ([`plan`], and with hysteresis [`planner`]) from what the shards tell
//! of their loads ([`load`]) and from what people say ([`steering`]); the [`controller`] has it done,
//! one cell at a time; a cell goes from shard to shard by a [`handoff`].
pub(crate) mod controller;
pub mod handoff;
pub mod load;
pub mod moves;
pub mod plan;
pub(crate) mod planner;
pub mod steering;
mod steps;
mod turn;

pub(crate) use controller::{Controller, Rebalanced};
pub use handoff::{Handed, HandoffFault, Handoffs};
pub use load::{CellLoad, DrainState, Movable, NodeLoad, ShardLoad};
pub use moves::{MoveCounters, MoveCounts};
pub use plan::{Move, Reason};
pub(crate) use planner::{Hysteresis, Planner};
pub use steering::{Motion, NoShardLeft, Steering};
pub use turn::Turn;

// For `turn`, which the models in `tests/loom` include.
use silverback_runtime::sync;
