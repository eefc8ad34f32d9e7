//! Snapshots: all series of the node as TSDB blocks of two hours each, below `snapshots/` in the data directory.
//!
//! How blocks are made is [`range_blocks`](super::range_blocks)'; here it is of which ranges ([`ranges`]), and under which
//! names ([`write`]). Who may ask, and how it is answered, is the HTTP API's.
mod ranges;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::api::query::Reader;
use crate::api::query::range_blocks::{random, write_ranges};
use crate::api::query::read_rejected::ReadRejected;
use crate::migration::Turn;
use crate::routing::ReadInFlight;
use crate::routing::fanout::read_all;
use silverback_model::utc::format_rfc3339;
use silverback_runtime::SideThread;
use silverback_storage::message::{CardinalityRequest, SeriesWanted};
use write::{SnapshotLocation, write};

pub(crate) use ranges::SnapshotScope;

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

impl Snapshots {
    /// Starts the thread that writes them.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { turn: Turn::default(), writer: SideThread::start("snapshots")? })
    }
}

/// Writes a snapshot to its end. Dropped before, it leaves nothing behind.
pub(crate) async fn snapshot(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    asked: SnapshotScope,
) -> Result<Snapshot, ReadRejected> {
    let of_shards = read_all(&reader.router, read.lease(), &CardinalityRequest { limit: 1 }).await?;
    let ranges_ms = of_shards.iter().filter_map(|of_shard| of_shard.range_ms);
    let times_ms = ranges_ms.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let ranges = ranges::ranges(times_ms, asked).map_err(ReadRejected::Writing)?;
    let now_ms = reader.clock.now_ms();
    let place = SnapshotLocation {
        data_dir: reader.config.data_dir.clone(),
        name: name_at(now_ms),
        now_ms,
        random: random(),
    };
    let thread = &reader.node.snapshots.writer;
    write_ranges(reader, &read, (ranges, SeriesWanted::Chunks), thread, move |orders| write(place, orders))
        .await
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
