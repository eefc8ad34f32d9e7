//! The end of a node that is to leave nothing behind (`--ship-on-shutdown=on`): what memory has that is in no block is cut
//! to blocks, ranges that aren't over among them, and it is waited until all blocks are in the bucket.
//!
//! It has its time, and loses nothing when that is over: what isn't cut is in the log, and what isn't uploaded on disk.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::select;

use super::cut::CutPart;
use super::{Keeper, KeeperEnd, KeeperError, Memory, Step};
use crate::api::query::Reader;
use crate::blocks::BlockRange;
use silverback_runtime::{now, sleep, timeout};
use silverback_shipper::Shipper;

/// After a look that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often what is left is logged.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// How far it has come.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Cutting,
    /// So many blocks are to be uploaded.
    Uploading(usize),
}

/// Cuts and uploads what is left, within its time. Nothing comes in any more; `reader` doesn't know yet that the node
/// ends.
pub(crate) async fn ship_what_is_left(
    keeper: KeeperEnd,
    reader: Rc<Reader>,
    shipper: &Shipper,
    limit: Duration,
) {
    let (began, stage) = (now(), Cell::new(Stage::Cutting));
    tracing::info!(
        limit_s = limit.as_secs(),
        "--ship-on-shutdown: what is in memory is cut to blocks and uploaded before the node ends"
    );
    let all = async {
        let Ok(mut keeper) = keeper.0.await else {
            tracing::warn!(
                "--ship-on-shutdown: what had blocks cut has failed: nothing is cut, the write-ahead log has all that is in \
                 no block"
            );
            return;
        };
        keeper.reader = reader;
        let failed = keeper.cut_what_is_left().await;
        let is_uploaded = keeper.wait_for_uploads(shipper, &stage).await;
        let took_ms = began.elapsed().as_millis() as u64;
        match (failed, is_uploaded) {
            (0, true) => {
                tracing::info!(took_ms, "--ship-on-shutdown: all that the node has is in the bucket")
            }
            (failed, _) => tracing::warn!(
                failed,
                took_ms,
                "--ship-on-shutdown: not all is in the bucket: what could not be cut is in the write-ahead log, damaged \
                 blocks are on disk"
            ),
        }
    };
    if timeout(limit, all).await.is_err() {
        let limit_s = limit.as_secs();
        match stage.get() {
            Stage::Cutting => tracing::warn!(
                limit_s,
                "--ship-on-shutdown: the time was over before all was cut to blocks: nothing is lost, the write-ahead log \
                 has it for the next start; a longer --shutdown-timeout gives it more"
            ),
            Stage::Uploading(left) => tracing::warn!(
                left,
                limit_s,
                "--ship-on-shutdown: the time was over before all blocks were uploaded: nothing is lost, they are on disk \
                 for the next start; a longer --shutdown-timeout gives it more"
            ),
        }
    }
}

impl Keeper {
    /// Cuts all that is in memory and in no block. How many ranges could not be cut.
    async fn cut_what_is_left(&mut self) -> usize {
        let (mut failed, memory) = (0, self.look_until_known().await);
        for range in self.not_cut(&memory) {
            if let Err(fault) = self.cut_now(range, memory.now_ms).await {
                tracing::warn!(%fault, begin_ms = range.begin_ms(), "a range can't be cut to a block");
                failed += 1;
            }
        }
        loop {
            let memory = self.look_until_known().await;
            let late = self.late_ranges(&memory);
            self.late.call();
            match self.cut_late(&memory, &late).await {
                Ok(Step::Done) => {}
                Ok(Step::Nothing) => return failed,
                // Nor can those of any other range that is left.
                Err(fault) => {
                    tracing::warn!(%fault, "samples that came late can't be cut to a block");
                    return failed + 1;
                }
            }
        }
    }

    /// Looks at what there is, again and again where that fails.
    async fn look_until_known(&mut self) -> Memory {
        loop {
            match self.look_anew().await {
                Ok(memory) => return memory,
                Err(fault) => {
                    tracing::warn!(%fault, "what is in memory and in no block isn't known: it is asked again");
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// The ranges in memory that weren't cut when they were over, oldest first.
    fn not_cut(&self, memory: &Memory) -> Vec<BlockRange> {
        let Some((oldest_ms, newest_ms)) = memory.range_ms else { return Vec::new() };
        let done = self.done();
        let all = BlockRange::between(oldest_ms.max(memory.from_ms), newest_ms);
        all.filter(|range| !done.contains(range)).collect()
    }

    /// Cuts a range as it is. One that isn't over is cut again when it is.
    async fn cut_now(&mut self, range: BlockRange, now_ms: i64) -> Result<(), KeeperError> {
        if range.end_ms() <= now_ms {
            return self.cut(range).await;
        }
        let read = self.begin_read().await?;
        // Before it is read: the block has what is counted, and perhaps more.
        let before = self.count(&read, range).await?;
        if self.held_so_far().get(&range) == Some(&before.held) {
            return Ok(());
        }
        self.write(&read, range, CutPart::SoFar, before).await.map(drop)
    }

    /// Of ranges that were cut before they were over, what the memory had.
    fn held_so_far(&self) -> BTreeMap<BlockRange, Vec<u64>> {
        let cuts = self.readable_blocks().filter_map(|block| block.cut.as_ref());
        let so_far = cuts.filter(|cut| cut.is_so_far);
        so_far.map(|cut| (BlockRange::of(cut.begin_ms), cut.held.clone())).collect()
    }

    /// Waits until all blocks are in the bucket. `false`: some can't be, because they are damaged.
    async fn wait_for_uploads(&mut self, shipper: &Shipper, stage: &Cell<Stage>) -> bool {
        shipper.retry_soon();
        // Without what was cut a moment ago it would seem that all is uploaded.
        while let Err(fault) = self.list().await {
            tracing::warn!(%fault, "which blocks are to be uploaded isn't known yet: looking again");
            sleep(RETRY_INTERVAL).await;
        }
        let mut told = now();
        loop {
            let change = shipper.next_change();
            let is_left = |ulid| !shipper.is_shipped(ulid) && !shipper.is_set_aside(ulid);
            let left = self.listed.blocks.keys().filter(|ulid| is_left(**ulid)).count();
            if left == 0 {
                break;
            }
            stage.set(Stage::Uploading(left));
            if told.elapsed() > TELL_INTERVAL {
                tracing::info!(left, "--ship-on-shutdown: blocks are left to upload");
                told = now();
            }
            select(pin!(change), pin!(sleep(TELL_INTERVAL))).await;
        }
        self.listed.damaged.is_empty() && self.listed.blocks.keys().all(|ulid| shipper.is_shipped(*ulid))
    }
}
