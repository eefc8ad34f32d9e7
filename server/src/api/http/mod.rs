//! HTTP as a transport: where a request comes from, and its body, whole or compressed.
//!
//! Knows bounds and time limits. Doesn't know what a body means.
pub mod authority;
pub(crate) mod gzip_body;
pub mod origin;
pub mod request_body;
