//! One node: its configuration to its shards, acceptors and clocks.

use crate::config::Config;

/// Why a node couldn't start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The shards aren't wired up.
    #[error("no shard could be started")]
    NoShards,
}

/// Runs a node until it is told to stop.
pub fn run(_config: Config) -> Result<(), NodeError> {
    Err(NodeError::NoShards)
}
