//! What the benches share.

pub mod load;
