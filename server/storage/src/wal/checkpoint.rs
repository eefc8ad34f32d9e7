//! Writing a checkpoint: a file of frames like a segment's, that has its name only once it is whole.
//!
//! What is in it comes from the shard, piece by piece; when it is due is decided elsewhere.

use std::cell::RefCell;
use std::rc::Rc;

use crate::wal::Lsn;
use crate::wal::frame::{FRAME_HEADER_BYTES, encode_header};
use crate::wal::record::CheckpointFrame;
use crate::wal::segment::{CheckpointHeader, SegmentHeader, checkpoint_name, parse_checkpoint_name};
use crate::wal::segments::{SegmentPlace, SegmentSet, recycle};
use silverback_host::disk::{Disk, DiskError, File};

/// A checkpoint on its way.
#[derive(Debug)]
pub(crate) struct CheckpointWriter<D: Disk> {
    place: SegmentPlace<D>,
    file: D::File,
    first: Lsn,
    at: u64,
    frames: u64,
}

/// The name that it has until it is whole.
fn unfinished(first: Lsn) -> String {
    format!("{}.tmp", checkpoint_name(first))
}

impl<D: Disk> CheckpointWriter<D> {
    /// Begins one after which a replay goes on with group `first`.
    pub(crate) async fn create(place: &SegmentPlace<D>, first: Lsn) -> Result<Self, DiskError> {
        let file = place.disk.create(&place.path(&unfinished(first))).await?;
        let SegmentHeader { shard, shards, block_bytes, .. } = place.header;
        let header = CheckpointHeader { shard, shards, first_group: first, block_bytes }.encode(place.seed);
        let at = place.disk.block_bytes() as u64;
        let writer = Self { place: place.clone(), file, first, at, frames: 0 };
        match writer.file.write_at(0, &[&header]).await {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.discard().await;
                Err(error)
            }
        }
    }

    /// Adds a frame.
    pub(crate) async fn write(&mut self, snapshot: &mut CheckpointFrame) -> Result<(), DiskError> {
        let payload = snapshot.parts();
        let header = encode_header(self.place.key, self.first.0, Lsn(self.frames), &payload);
        let parts: Vec<&[u8]> = std::iter::once(header.as_slice()).chain(payload.iter().copied()).collect();
        self.file.write_at(self.at, &parts).await?;
        let bytes = (FRAME_HEADER_BYTES + snapshot.bytes()) as u64;
        self.at += bytes.next_multiple_of(self.place.disk.block_bytes() as u64);
        self.frames += 1;
        snapshot.clear();
        Ok(())
    }

    /// Makes it durable and gives it its name; from then on it counts. Returns its size in bytes.
    pub(crate) async fn finish(self) -> Result<u64, DiskError> {
        let Self { place, file, first, at, .. } = self;
        let finished = make_whole(&place, file, first).await;
        if finished.is_err() {
            place.remove_unfinished(&place.path(&unfinished(first))).await;
        }
        finished.map(|()| at)
    }

    /// Gives up, and the room back.
    pub(crate) async fn discard(self) {
        let Self { place, file, first, .. } = self;
        if let Err(error) = file.close().await {
            tracing::debug!(%error, "a checkpoint that came to nothing was not closed properly");
        }
        place.remove_unfinished(&place.path(&unfinished(first))).await;
    }
}

async fn make_whole<D: Disk>(place: &SegmentPlace<D>, file: D::File, first: Lsn) -> Result<(), DiskError> {
    file.sync_data().await?;
    file.close().await?;
    place.disk.rename(&place.path(&unfinished(first)), &place.path(&checkpoint_name(first))).await?;
    place.disk.sync_dir(&place.dir).await
}

/// Removes what a checkpoint has made superfluous: older checkpoints, and segments whose groups
/// all come before `first`; spares of `spare_bytes_max` together stay.
pub(crate) async fn truncate<D: Disk>(
    place: &SegmentPlace<D>,
    segment_set: &Rc<RefCell<SegmentSet>>,
    first: Lsn,
    spare_bytes_max: u64,
) -> Result<(), DiskError> {
    for name in place.disk.list(&place.dir).await? {
        if parse_checkpoint_name(&name).is_some_and(|older| older < first) {
            place.disk.remove(&place.path(&name)).await?;
        }
    }
    recycle(place, segment_set, Lsn(first.0 - 1), spare_bytes_max).await
}
