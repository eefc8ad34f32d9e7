//! block.
