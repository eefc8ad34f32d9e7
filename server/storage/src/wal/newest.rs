//! Which segment of a log is its newest, by the name of an empty file beside it: `newest-<number>`.
//!
//! Each segment says what must be before it. That there was one at the end, or any at all, is said here:
//! by the first moment that a log has its directory, and from then on whenever a segment is made. The name is
//! raised once a segment is on disk and before anything is written to it, and lowered before a segment goes
//! that is the newest: so a newest one that is missing was taken away by somebody else.

use std::cell::RefCell;
use std::io;

use crate::wal::segment::{newest_name, parse_segment_name};
use crate::wal::segments::{SegmentPlace, SegmentSet};
use silverback_host::disk::{Disk, DiskError, File};

/// Says in a log's new directory that it has no segment.
pub(super) async fn mark_none<D: Disk>(disk: &D, dir: &str) -> Result<(), DiskError> {
    disk.create(&format!("{dir}/{}", newest_name(0))).await?.close().await?;
    disk.sync_dir(dir).await
}

/// Says that segment `seq`, which is on disk, is the newest.
pub(super) async fn mark<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    seq: u64,
) -> Result<(), DiskError> {
    let former = segment_set.borrow_mut().marked.replace(seq);
    if former == Some(seq) {
        return Ok(());
    }
    let marked = change(place, former, seq).await;
    if marked.is_err() {
        segment_set.borrow_mut().marked = former;
    }
    marked
}

/// Says that another segment is the newest before the file of this name goes, if it is that one.
pub(super) async fn unmark<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &RefCell<SegmentSet>,
    name: &str,
) -> Result<(), DiskError> {
    let Some(seq) = parse_segment_name(name) else { return Ok(()) };
    let newest_left = {
        let segment_set = segment_set.borrow();
        if segment_set.marked != Some(seq) {
            return Ok(());
        }
        segment_set.segments().filter(|other| *other != seq).max().unwrap_or(0)
    };
    mark(place, segment_set, newest_left).await
}

async fn change<D: Disk>(place: &SegmentPlace<D>, former: Option<u64>, seq: u64) -> Result<(), DiskError> {
    let path = place.path(&newest_name(seq));
    // Another name for the same file takes no room, and is there or not.
    let is_renamed = match former {
        Some(former) => rename(&place.disk, &place.path(&newest_name(former)), &path).await?,
        // An older version made the log.
        None => false,
    };
    if !is_renamed {
        place.disk.create(&path).await?.close().await?;
    }
    place.disk.sync_dir(&place.dir).await
}

/// Whether the file was there.
async fn rename<D: Disk>(disk: &D, from: &str, to: &str) -> Result<bool, DiskError> {
    match disk.rename(from, to).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
