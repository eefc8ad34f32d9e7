//! The seam of the log: append, commit, acknowledge are three steps.
//!
//! A shard appends entries as it takes samples in, commits once for all that waits, and only what
//! the commit returns, a [`Durable`], lets it acknowledge. What a log does to be durable is the
//! log's own.
pub mod memory;

use std::future::Future;

use crate::model::Sample;

pub use memory::MemoryLog;

/// A place in a shard's log: how many entries it has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

/// Everything up to a place in the log is as durable as the log makes it. Made by logs alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    upto: Lsn,
}

impl Durable {
    /// The last entry that is durable.
    pub fn upto(&self) -> Lsn {
        self.upto
    }
}

/// One entry on its way into the log.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// The samples of one part that the shard took in.
    Samples(&'a [Sample]),
}

/// Why a commit failed. The log takes nothing more after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The disk refused a write or a sync.
    #[error("the write-ahead log failed: {0}")]
    Failed(Box<str>),
}

/// A shard's log.
pub trait Log {
    /// Takes an entry into the group that the next commit makes durable.
    fn append(&mut self, entry: Entry<'_>) -> Lsn;

    /// Makes all entries so far durable.
    fn commit(&mut self) -> impl Future<Output = Result<Durable, LogError>>;
}
