//! What the benches share.
#![forbid(unsafe_code)]
pub mod bench;
pub mod contender;
pub mod durability;
pub mod fleet;
pub mod founding;
pub mod isolation;
pub mod profile;
pub mod promql;
pub mod rebalance;
pub mod report;
