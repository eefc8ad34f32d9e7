//! What a clean stop leaves beside a log: the number of its last group.
//!
//! After a crash a group at the end that isn't whole may be a write that was cut short. Up to the group that
//! is named here all was on disk when the node stopped: what is missing of that is damage, whatever comes
//! later. So the file stays true while the log goes on, and nobody has to remove it.

use std::io;

use crate::wal::Lsn;
use crate::wal::replay::LogPlace;
use crate::wal::segment::{CLOSING_NAME, ClosingHeader, FILE_HEADER_BYTES, HeaderError};
use crate::wal::segments::SegmentPlace;
use silverback_host::disk::{Disk, DiskError, File};

/// Writes that the groups up to `last` are on disk.
pub(super) async fn write<D: Disk>(place: &SegmentPlace<D>, last: Lsn) -> Result<(), DiskError> {
    let path = place.path(&format!("{CLOSING_NAME}.tmp"));
    let written = write_to(place, &path, last).await;
    if written.is_err() {
        place.remove_unfinished(&path).await;
    }
    written
}

async fn write_to<D: Disk>(place: &SegmentPlace<D>, path: &str, last: Lsn) -> Result<(), DiskError> {
    let file = place.disk.create(path).await?;
    file.write_at(0, &[&ClosingHeader { last, of: place.header }.encode(place.seed)]).await?;
    file.sync_data().await?;
    file.close().await?;
    place.disk.rename(path, &place.path(CLOSING_NAME)).await?;
    place.disk.sync_dir(&place.dir).await
}

/// What is known of the last clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// There was none.
    Never,
    /// The last group that was on disk then.
    At(Lsn),
    /// The file is there and damaged: what is missing at the end of the log can't be told from what never was there.
    Unknown(HeaderError),
}

/// What was on disk when the log was last closed.
pub(super) async fn read<D: Disk>(place: &LogPlace<D>) -> Result<Closed, DiskError> {
    let path = place.path(CLOSING_NAME);
    let file = match place.disk.open(&path).await {
        Ok(file) => file,
        Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(Closed::Never),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.read_at(0, FILE_HEADER_BYTES, &mut bytes).await?;
    file.close().await?;
    match ClosingHeader::decode(&bytes, place.seed) {
        Ok(last) => Ok(Closed::At(last)),
        Err(error) => {
            unread(&path, error);
            Ok(Closed::Unknown(error))
        }
    }
}

fn unread(path: &str, error: HeaderError) {
    tracing::warn!(path, %error, "what a clean stop left beside the write-ahead log can't be read: a group that is missing at the end can't be told from one that never was there");
}
