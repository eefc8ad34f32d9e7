//! Whether a log's files are still there. A process goes on writing to files whose directory was removed,
//! moved or replaced, and every sync goes well; after a restart all of it would be gone.

use std::rc::Rc;
use std::time::Duration;

use crate::api::core::Core;
use silverback_host::disk::DiskError;
use silverback_runtime::disk::{DirectDisk, FileId};
use silverback_runtime::{sleep, spawn_background};
use silverback_storage::shard::checkpoint::CheckpointPlace;
use silverback_storage::wal::log::DiskLog;
use silverback_storage::wal::segment::segment_name;

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Starts to look after the segment that is written; a log whose segment is gone takes no more writes.
pub(crate) fn start(core: Rc<Core>, log: DiskLog, place: CheckpointPlace<DirectDisk>) {
    spawn_background(async move {
        let mut seen = None;
        while !core.shutdown.is_requested() {
            sleep(LOOK_INTERVAL).await;
            match look(&mut seen, &place).await {
                Ok(true) => {}
                Ok(false) => {
                    let dir = core.config.data_dir.join(&*place.segments.dir);
                    let reason = format!("{} was removed or replaced while the node ran", dir.display());
                    tracing::error!(reason, "no writes are taken in until a restart");
                    return log.fail(&reason);
                }
                Err(error) => {
                    silverback_host::warn_limited!(%error, "a segment of the write-ahead log can't be looked at")
                }
            }
        }
    });
}

/// Whether the segment that is written is still at its path. `seen` is its number, and which file it was
/// when it was first looked at: it is open as long as it is written, so no other file gets its id.
async fn look(
    seen: &mut Option<(u64, FileId)>,
    place: &CheckpointPlace<DirectDisk>,
) -> Result<bool, DiskError> {
    let written = || place.segment_set.borrow().current.0;
    let seq = written();
    let found = place.segments.disk.file_id(&place.segments.path(&segment_name(seq))).await?;
    // There is none before the first one is made, and one that was left meanwhile may have been let go of.
    if seq == 0 || seq != written() {
        return Ok(true);
    }
    let Some(found) = found else { return Ok(false) };
    let (first_seq, first) = *seen.get_or_insert((seq, found));
    *seen = Some((seq, found));
    Ok(first_seq != seq || first == found)
}
