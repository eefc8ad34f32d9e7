//! Deletions as a shard is asked for them and answers them.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use crate::message::{ReadTicket, Selection, ShardReadError};
use crate::wal::LogError;
use silverback_model::Epoch;

/// What a shard is asked to delete.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// It finds series as a read does, among reads.
    pub ticket: ReadTicket,
    /// All shards are asked by the same, so that each cell is one shard's to delete from.
    pub epoch: Epoch,
    /// The samples that any of these selects go.
    pub selections: Arc<[Selection]>,
    /// How long cells that are on their way are waited for, whatever is selected of them.
    pub wait_max: Duration,
}

/// How far a shard came.
#[derive(Debug)]
pub struct DeletionReply {
    /// What is gone from memory; and from the disk for good, where nothing failed.
    pub deleted: Deleted,
    /// Whether that is all.
    pub ended: Result<(), DeletionError>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Series of which nothing is left.
    pub series: u64,
    /// Series that have samples outside of the range.
    pub series_cut: u64,
    /// Samples, of both.
    pub samples: u64,
}

impl AddAssign for Deleted {
    fn add_assign(&mut self, other: Self) {
        self.series += other.series;
        self.series_cut += other.series_cut;
        self.samples += other.samples;
    }
}

/// Why a shard has not deleted everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeletionError {
    /// What is to go could not be found, or a cell moved.
    #[error(transparent)]
    Read(#[from] ShardReadError),
    /// The log accepts nothing.
    #[error(transparent)]
    Log(#[from] LogError),
}
