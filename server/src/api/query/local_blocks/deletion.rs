//! Deletes samples of blocks: by tombstones, which are in the block itself and hold for whoever reads it. What is
//! deleted takes as much room as before.

use super::LocalBlocks;
use super::matching::matching;
use super::open::is_gone;
use super::rows::ChunkRange;
use super::threads::{BlockJob, BlockJobError, ask};
use silverback_block::DeletedRange;
use silverback_storage::message::Selection;

/// Sets of series that there are at a time while matchers are applied.
const SETS_AT_ONCE: usize = 3;

/// Deletes what any of the selections has of all blocks, block by block, and counts those that had any of it. Fails where there
/// may be more of it, in blocks that can't be opened or are set aside.
pub(super) fn delete(
    job: &BlockJob,
    blocks: &LocalBlocks,
    selections: &[Selection],
) -> Result<usize, BlockJobError> {
    let mut changed = 0;
    // One that was cut a moment ago may have what memory had then.
    blocks.look_at_all()?;
    for selection in selections {
        let Selection { min_ms, max_ms, .. } = *selection;
        let times = ChunkRange { min_ms, max_ms };
        let in_range = blocks.in_range(times);
        // After that: what a read sets aside meanwhile is in one of the two.
        if blocks.has_set_aside(times) {
            return Err(BlockJobError::SetAside);
        }
        for block in in_range {
            let mut taken = blocks.begin_taking();
            taken.set(SETS_AT_ONCE * block.set_bytes_max())?;
            let mut series = matching(job, &block, &selection.matchers)?;
            let mut untouched = Vec::new();
            for one in &series {
                job.check()?;
                let (_, chunks) = ask(&block, |block| block.series(one))?;
                let overlaps = chunks.iter().any(|chunk| chunk.min_ms <= max_ms && chunk.max_ms >= min_ms);
                untouched.extend((!overlaps).then_some(one));
            }
            for one in untouched {
                series.remove(one);
            }
            if series.is_empty() {
                continue;
            }
            let deleted = block.delete(&series, DeletedRange { min_ms, max_ms });
            match deleted.and_then(|()| blocks.reopen(&block)) {
                Ok(()) => changed += 1,
                // It was deleted itself meanwhile.
                Err(_) if is_gone(block.dir()) => {}
                Err(fault) => return Err(BlockJobError::NotWritten(fault)),
            }
        }
    }
    Ok(changed)
}
