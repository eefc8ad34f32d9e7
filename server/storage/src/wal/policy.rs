//! What an operator decides about a log. Doesn't know how it is written down or read.

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckMode {
    /// Once it is on disk and synced.
    Durable,
    /// Once it is in memory; it is on disk within a second.
    Memory,
}

/// What a damaged log does to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalRecovery {
    /// The node doesn't start.
    Strict,
    /// The node starts with what can be read, and reports what can't.
    Salvage,
}
