//! What the benches share.
pub mod contender;
pub mod fleet;
