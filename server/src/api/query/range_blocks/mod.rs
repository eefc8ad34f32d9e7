//! All series of the node as TSDB blocks, one for each range of two hours. Snapshots and cuts of the head are made of
//! them.
//!
//! The core that is asked reads the series as any read does, one range after the other ([`feed`]); a thread beside the
//! executors cuts their chunks to the range and writes the block ([`write`]). What waits between the two is bounded.
//! Which ranges these are, and what becomes of the blocks, is not known here.
mod feed;
mod write;

pub(crate) use feed::write_ranges;
#[cfg(test)]
pub(crate) use write::WriteOrder;
pub(crate) use write::{
    BlockTarget, Orders, RoomCheck, UnfinishedDir, check_room, failed, finish, random, sync_dir,
};

/// Why a block, or a snapshot of several, isn't there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RangeBlocksError {
    /// The disk is nearly full.
    #[error(
        "there is no room for blocks: {free_bytes} bytes of the data directory's file system are free, and \
         {spare_bytes} are left to the write-ahead log; remove older snapshots, or make the file system larger"
    )]
    StorageNearlyFull {
        /// What is free.
        free_bytes: u64,
        /// What is to stay free.
        spare_bytes: u64,
    },
    /// The disk is full.
    #[error("there is no room for blocks: {0}; remove older snapshots, or make the file system larger")]
    StorageFull(String),
    /// The disk failed.
    #[error("blocks can't be written: {0}")]
    Disk(String),
    /// What is in memory makes no block.
    #[error("blocks can't be written: {0}")]
    Stored(String),
    /// Reads have less memory than a writer and its largest series take.
    #[error(
        "writing blocks takes more than the {bytes_max} bytes of memory that reads may have on a core: a MiB, and some \
         times what the largest series takes; start the node with a larger --query-memory, or --memory-limit"
    )]
    TooLarge {
        /// What reads may have.
        bytes_max: usize,
    },
    /// Samples of very different times.
    #[error("the samples are {ranges} times two hours apart, and a snapshot has at most {ranges_max} blocks")]
    TooManyRanges {
        /// How many.
        ranges: u64,
        /// How many may be.
        ranges_max: u64,
    },
    /// It may have samples that were deleted meanwhile.
    #[error("samples were deleted while they were cut to a block: it is dropped, and cut again")]
    Deleted,
    /// It was given up.
    #[error("writing blocks was given up before its end: the node stops")]
    Ended,
}
