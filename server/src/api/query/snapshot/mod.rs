//! Snapshots: all series of the node as TSDB blocks of two hours each, below `snapshots/` in the data directory.
//!
//! The core that is asked reads the series as any read does, one range of two hours after the other ([`feed`]); a
//! thread beside the executors cuts their chunks to the range and writes the block ([`write`]). What waits between the
//! two is bounded. Who may ask, and how it is answered, is the HTTP API's.
mod feed;
mod write;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::migration::Turn;
use silverback_model::utc::format_rfc3339;
use silverback_runtime::SideThread;

pub(crate) use feed::{Asked, snapshot};

/// Below the data directory.
const DIR: &str = "snapshots";
/// After the name of one that isn't whole.
const UNFINISHED: &str = "tmp";

/// What a node has to write snapshots.
#[derive(Debug)]
pub struct Snapshots {
    /// Whose turn it is to have one written.
    pub(crate) turn: Turn,
    writer: SideThread,
}

/// A snapshot that is there, whole and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Its directory's.
    pub(crate) name: String,
    pub(crate) blocks: usize,
    /// Of all blocks: a series counts in each that it is in.
    pub(crate) series: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
}

/// Why there is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFault {
    /// The disk is nearly full.
    #[error(
        "a snapshot has no room: {free_bytes} bytes of the data directory's file system are free, and {spare_bytes} are \
         left to the write-ahead log; remove older snapshots, or make the file system larger"
    )]
    NoRoom {
        /// What is free.
        free_bytes: u64,
        /// What is to stay free.
        spare_bytes: u64,
    },
    /// The disk is full.
    #[error("a snapshot has no room: {0}; remove older snapshots, or make the file system larger")]
    Full(String),
    /// The disk failed.
    #[error("the snapshot can't be written: {0}")]
    Disk(String),
    /// What is in memory makes no block.
    #[error("the snapshot can't be written: {0}")]
    Stored(String),
    /// Its series take more memory than reads have.
    #[error(
        "a snapshot of these series takes more than the {bytes_max} bytes of memory that reads may have on a core: start \
         the node with a larger --query-memory, or --memory-limit"
    )]
    TooLarge {
        /// What reads may have.
        bytes_max: usize,
    },
    /// Samples of very different times.
    #[error("the samples lie {ranges} times two hours apart, and a snapshot has at most {ranges_max} blocks")]
    TooManyRanges {
        /// How many.
        ranges: u64,
        /// How many may be.
        ranges_max: u64,
    },
    /// It was given up.
    #[error("the snapshot was given up before its end: the node stops")]
    Ended,
}

impl Snapshots {
    /// Starts the thread that writes them.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { turn: Turn::default(), writer: SideThread::start("snapshots")? })
    }
}

/// Removes what a node that ended left unfinished. Before anything is served. What can't be removed takes room and keeps
/// nobody from starting; files are others' and stay.
pub(crate) fn remove_unfinished(data_dir: &Path) {
    let dir = data_dir.join(DIR);
    match fs::read_dir(&dir) {
        Ok(entries) => entries.for_each(|entry| match entry.and_then(|entry| remove_if_unfinished(&entry)) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "a snapshot that wasn't finished can't be removed");
            }
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, dir = %dir.display(), "the snapshots can't be looked at"),
    }
}

fn remove_if_unfinished(entry: &fs::DirEntry) -> io::Result<()> {
    let path = entry.path();
    if entry.file_type()?.is_dir() && path.extension().is_some_and(|extension| extension == UNFINISHED) {
        fs::remove_dir_all(&path)?;
        tracing::info!(path = %path.display(), "a snapshot that wasn't finished was removed");
    }
    Ok(())
}

/// As Prometheus names them: the time, and a number that nothing else has.
fn name_at(now_ms: i64) -> String {
    let time: String = format_rfc3339(now_ms - now_ms.rem_euclid(1000)).replace(['-', ':'], "");
    format!("{time}-{:016x}", random())
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn unfinished_dir(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join(DIR).join(format!("{name}.{UNFINISHED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_its_time_and_is_never_the_same() {
        let [first, second] = [0, 0].map(|_| name_at(1_767_225_600_999));
        assert_eq!(
            first.split_once('-').map(|(time, hex)| (time, hex.len())),
            Some(("20260101T000000Z", 16))
        );
        assert_ne!(first, second);
    }

    #[test]
    fn what_is_unfinished_goes_at_a_start_and_what_is_whole_stays() {
        let scratch = silverback_test_support::Scratch::new();
        remove_unfinished(&scratch.join("nothing"));
        let [whole, unfinished] = ["a-1", "b-2.tmp"].map(|name| scratch.join(DIR).join(name));
        for dir in [&whole, &unfinished] {
            fs::create_dir_all(dir.join("block")).unwrap();
        }
        let of_others = scratch.join(DIR).join("c-3.tmp");
        fs::write(&of_others, "an archive").unwrap();
        remove_unfinished(&scratch.join(""));
        assert!(whole.exists() && of_others.exists() && !unfinished.exists());
        fs::remove_dir_all(scratch.join(DIR)).unwrap();
        fs::write(scratch.join(DIR), "no directory").unwrap();
        remove_unfinished(&scratch.join(""));
    }
}
