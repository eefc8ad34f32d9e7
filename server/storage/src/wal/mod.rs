//! The seam of the log: append, commit, acknowledge are three steps.
//!
//! A shard writes what it accepts to the log's [`Journal`] as it appends it, commits once for all
//! that waits, and only what the commit returns, a [`Durable`], lets it acknowledge. What a log does
//! to be durable is the log's own.
#![doc = include_str!("format.md")]
mod ahead;
pub mod checkpoint;
pub mod claims;
mod closing;
pub mod committer;
pub mod frame;
pub mod health;
pub mod journal;
pub mod layout;
pub mod log;
pub mod memory;
mod newest;
pub mod policy;
pub mod progress;
pub mod reader;
pub mod record;
pub mod replay;
pub mod segment;
pub mod segments;
mod states;

use std::cell::RefMut;
use std::future::Future;

pub use claims::Claims;
pub use journal::{AdoptedSeries, Journal, NoJournal, RefReuse};
pub use log::{DiskLog, LogCounts};
pub use memory::MemoryLog;
pub use policy::{AckMode, WalRecovery};

/// A place in a shard's log: the number of a group, the unit of commits. Without gaps from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

/// Everything up to a place in the log is as durable as the log makes it. Made by logs alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    upto: Lsn,
}

impl Durable {
    /// Whether a group is among what is durable.
    pub(crate) fn covers(self, group: Lsn) -> bool {
        group <= self.upto
    }

    /// As the log of a test says it.
    #[cfg(test)]
    pub(crate) fn in_test(upto: Lsn) -> Self {
        Self { upto }
    }
}

/// Why a log accepts nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// It is still being replayed.
    #[error("the write-ahead log is being replayed; send again later")]
    Replaying,
    /// The disk is full. What was appended is kept in memory and written once there is room.
    #[error("the disk of the write-ahead log is full ({0}); writes are accepted again when there is room")]
    Full(Box<str>),
    /// It has grown beyond its bound, because a checkpoint that was tried is not written.
    #[error(
        "the write-ahead log has grown to {0} MiB and its next checkpoint is not written yet (the node's log names \
         those that failed); writes are accepted again after it"
    )]
    CheckpointOverdue(u64),
    /// A group has been on its way to the disk for so many seconds. It is kept, and durable once the disk
    /// answers.
    #[error(
        "the disk of the write-ahead log has not answered for {0} s; writes are accepted again when it does"
    )]
    Hung(u64),
    /// The disk refused a write or a sync; the log takes nothing more.
    #[error("the write-ahead log failed ({0}); this node takes no writes until it is restarted")]
    Failed(Box<str>),
}

/// What a log reports of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReport {
    /// What it did, and its size.
    pub counts: LogCounts,
    /// Why it accepts nothing now.
    pub fault: Option<LogError>,
    /// For how long the group that is on its way to the disk has been so, in µs; 0 where none is.
    pub commit_in_flight_us: u64,
}

impl LogReport {
    /// Whether something is wrong with it. A replay isn't: every start has one.
    pub fn is_shut(&self) -> bool {
        match self.fault {
            None | Some(LogError::Replaying) => false,
            Some(
                LogError::Full(_) | LogError::CheckpointOverdue(_) | LogError::Hung(_) | LogError::Failed(_),
            ) => true,
        }
    }
}

/// A shard's log.
pub trait Log: Clone + 'static {
    /// What the shard writes its changes to.
    type Journal: Journal;

    /// Whether it takes anything in now. Asked before a change is made in memory.
    fn check(&self) -> Result<(), LogError>;

    /// The journal of the group that the next commit makes durable. Not held over an await.
    fn journal(&self) -> RefMut<'_, Self::Journal>;

    /// The group that the journal fills now: what was written to it so far is on disk with that group, or before.
    fn filling(&self) -> Lsn;

    /// What it has to report of itself, `now_us` on its host's clock.
    fn report(&self, now_us: u64) -> LogReport;

    /// Asks for a checkpoint that begins from now on, whether one is due or not. Returns how many there are since the
    /// start once it is written.
    fn ask_checkpoint(&self) -> u64;

    /// Makes all that the journal took so far as durable as this log makes things.
    fn commit(&self) -> impl Future<Output = Result<Durable, LogError>>;

    /// Waits until all that the journal took is on disk, whatever is acknowledged when.
    fn flush(&self) -> impl Future<Output = Result<Durable, LogError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fault: Option<LogError>, is_shut: bool) {
        let report = LogReport { fault, ..LogReport::default() };
        assert_eq!(report.is_shut(), is_shut, "{report:?}");
    }

    #[test]
    fn a_log_that_is_being_replayed_is_not_shut() {
        check(None, false);
        check(Some(LogError::Replaying), false);
        check(Some(LogError::Full("no space left".into())), true);
        check(Some(LogError::CheckpointOverdue(256)), true);
        check(Some(LogError::Hung(6)), true);
        check(Some(LogError::Failed("an I/O error".into())), true);
    }
}
