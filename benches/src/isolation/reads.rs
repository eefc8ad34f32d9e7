//! What became of the reads beside a run.

use serde::{Deserialize, Serialize};

/// The reads that ended while the run went on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadsReport {
    /// Whole answers.
    pub finished: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Refused, or broken off.
    pub failed: u64,
}
