//! What the benches share.
pub mod bench;
pub mod contender;
pub mod fleet;
pub mod load;
