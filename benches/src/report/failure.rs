//! Why a run came to nothing. The other runs go on; the document says which are missing.

use std::io;

use silverback_load::replay::generate::GenerateError;

use super::side::Side;

/// What went wrong in one run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file, a socket or a process.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A report that can't be read.
    #[error("a report can't be read: {0}")]
    Json(#[from] serde_json::Error),
    /// Requests that can't be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A server that never took writes.
    #[error("{side} isn't ready: {error}; its log ends with:\n{log}")]
    NotReady {
        /// Which.
        side: Side,
        /// What was waited for.
        error: io::Error,
        /// The end of what it said.
        log: String,
    },
    /// A program that failed or took too long.
    #[error("{what} {how}; it ends with:\n{log}")]
    Program {
        /// Which.
        what: String,
        /// How it ended.
        how: String,
        /// The end of what it said.
        log: String,
    },
    /// Samples that were sent and aren't there.
    #[error("sent {sent} samples, acknowledged {acknowledged}, stored {stored}: that counts for nothing")]
    NotStored {
        /// By the loader.
        sent: u64,
        /// By the server.
        acknowledged: u64,
        /// Found afterwards.
        stored: u64,
    },
    /// A question that wasn't answered as it must be.
    #[error("{question}: {answer}")]
    Answer {
        /// Which.
        question: String,
        /// What came, in short.
        answer: String,
    },
}
