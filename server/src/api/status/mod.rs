//! What the node says of itself: metrics, status in JSON, the status page.
//!
//! Knows what is counted. Counts nothing.
pub(crate) mod cells_status;
pub(crate) mod memory_metrics;
pub(crate) mod migration_metrics;
pub(crate) mod node_metrics;
pub mod node_status;
pub mod pages;
pub(crate) mod rebalance_metrics;
