//! What the benches share.
pub mod fleet;
