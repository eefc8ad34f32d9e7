//! api.
pub mod remote_write;
