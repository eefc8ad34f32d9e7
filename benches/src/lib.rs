//! What the benches share.
pub mod fleet;
pub mod load;
