//! Whether a log's files are still there. A process goes on writing to files whose directory was removed,
//! moved or replaced, and every sync goes well; after a restart all of it would be gone.

use std::rc::Rc;
use std::time::Duration;

use crate::api::core::CoreContext;
use silverback_host::disk::DiskError;
use silverback_runtime::disk::{DirectDisk, FileId};
use silverback_runtime::{sleep, spawn_background};
use silverback_storage::shard::checkpoint::CheckpointPlace;
use silverback_storage::wal::log::DiskLog;
use silverback_storage::wal::segment::segment_name;

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Starts to watch the segment that is written, and its directory; a log whose files are gone takes no more
/// writes.
pub(crate) fn start(core: Rc<CoreContext>, log: DiskLog, place: CheckpointPlace<DirectDisk>) {
    spawn_background(async move {
        let mut seen = LogFileIds::default();
        while !core.shutdown.is_requested() {
            // At once for the first time: it finds the segment that was opened.
            match seen.look(&place).await {
                Ok(true) => {}
                Ok(false) => {
                    let dir = core.config.data_dir.join(&*place.segments.dir);
                    let reason = format!("{} was removed or replaced while the node ran", dir.display());
                    tracing::error!(reason, "no writes are accepted until a restart");
                    return log.fail(&reason);
                }
                Err(error) => {
                    silverback_host::warn_limited!(%error, "a segment of the write-ahead log can't be looked at")
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    });
}

/// What was found at the paths of the log.
#[derive(Default)]
struct LogFileIds {
    /// Its directory, which stays the same as long as the node runs. Another one may get the id of one that was removed,
    /// but hasn't the segment that is open.
    dir: Option<FileId>,
    /// The number of the segment that is written, and which file it is: it is open as long as it is written, so no
    /// other file gets its id.
    segment: Option<(u64, FileId)>,
}

impl LogFileIds {
    /// Whether the segment that is written is still at its path, in the directory in which it was.
    async fn look(&mut self, place: &CheckpointPlace<DirectDisk>) -> Result<bool, DiskError> {
        let disk = &place.segments.disk;
        let written = || place.segment_set.borrow().current.0;
        let seq = written();
        let dir = disk.file_id(&place.segments.dir).await?;
        let segment = disk.file_id(&place.segments.path(&segment_name(seq))).await?;
        let Some(dir) = dir else { return Ok(false) };
        if *self.dir.get_or_insert(dir) != dir {
            return Ok(false);
        }
        // There is none before the first one is made, and one that was left meanwhile may have been removed.
        if seq == 0 || seq != written() {
            return Ok(true);
        }
        let Some(segment) = segment else { return Ok(false) };
        let before = self.segment.replace((seq, segment));
        Ok(before.is_none_or(|(before_seq, before)| before_seq != seq || before == segment))
    }
}
