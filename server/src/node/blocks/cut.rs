//! One cut: a range of the memory, or what came of it late, to a block, which has its name once all of it is on disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Keeper, KeeperError};
use crate::api::query::range_blocks::{
    BlockTarget, Orders, RangeBlocksError, UnfinishedDir, check_room, failed, random, write_ranges,
};
use crate::blocks::{BlockRange, Blocks};
use crate::routing::fanout::{FanoutError, read_all};
use crate::routing::{Asker, ReadInFlight};
use silverback_block::{BlockOrigin, BlockWriteError, BlockWriter, Cut, FinishedBlock, Ulid, WriterMemory};
use silverback_runtime::now;
use silverback_storage::message::{CutReply, CutStep, HeldSamples, SeriesWanted};

/// What of a range is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutPart {
    /// All of it: there is no block of it yet.
    First,
    /// All of it that there is before the range is over.
    SoFar,
    /// All of it again, in a block of late samples: it isn't known which came late.
    Again,
    /// The series that took late samples.
    Late,
}

/// What is cut, and under which name.
struct PlannedCut {
    blocks: Arc<Blocks>,
    data_dir: PathBuf,
    ulid: Ulid,
    range: BlockRange,
    part: CutPart,
    before: RangeCounts,
}

/// What there was of a range before it was read.
#[derive(Debug, Clone)]
pub(super) struct RangeCounts {
    /// What the memory had, and what was deleted of its blocks: as long as these numbers stay the same nothing came or went,
    /// nor went and came in its place.
    pub(super) held: Vec<u64>,
    /// Deletions before that was counted.
    deletions: u64,
}

/// What the shards have of a range that is in no block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uncut {
    /// Series that took samples of it late.
    pub(super) series: u64,
    /// Whether there may be others.
    pub(super) is_unknown: bool,
}

impl Keeper {
    pub(super) async fn begin_read(&self) -> Result<ReadInFlight, KeeperError> {
        Ok(self.reader.begin_read(&Asker::default()).await?)
    }

    /// What comes of the range from now on is for the cut after this one.
    pub(super) async fn begin_cut(
        &self,
        read: &ReadInFlight,
        range: BlockRange,
    ) -> Result<Uncut, FanoutError> {
        let replies = self.ask(read, CutStep::Begin { begin_ms: range.begin_ms() }).await?;
        Ok(replies.into_iter().fold(Uncut::default(), |sum, reply| match reply {
            CutReply::Begun(own) => {
                Uncut { series: sum.series + own.series, is_unknown: sum.is_unknown | own.is_unknown }
            }
            CutReply::Counted(_) | CutReply::Ended => sum,
        }))
    }

    /// What there is of the range.
    pub(super) async fn count(
        &self,
        read: &ReadInFlight,
        range: BlockRange,
    ) -> Result<RangeCounts, KeeperError> {
        // First: what is deleted from here on is in what is counted, and perhaps not in the block.
        let deletions = self.blocks.naming.deletions();
        let mut held = HeldSamples::default();
        for reply in self.ask(read, CutStep::Count { begin_ms: range.begin_ms() }).await? {
            if let CutReply::Counted(own) = reply {
                held.merge(own);
            }
        }
        let (blocks, of_range): (_, Vec<_>) = (Arc::clone(&self.blocks), self.blocks_of(range).collect());
        let deleted = self.blocks.thread.run(move || blocks.dir.deleted_of(&of_range)).await?;
        Ok(RangeCounts { held: vec![held.0, deleted.map_err(KeeperError::Directory)?], deletions })
    }

    /// A block has all that the cut began with.
    pub(super) async fn end_cut(&self, read: &ReadInFlight, range: BlockRange) -> Result<(), FanoutError> {
        self.ask(read, CutStep::End { begin_ms: range.begin_ms() }).await.map(drop)
    }

    async fn ask(&self, read: &ReadInFlight, step: CutStep) -> Result<Vec<CutReply>, FanoutError> {
        read_all(&self.reader.router, read.lease(), &step).await
    }

    /// Cuts a range of which there is no block; one without samples is noted as that.
    pub(super) async fn cut(&mut self, range: BlockRange) -> Result<(), KeeperError> {
        self.note_cut_again(range);
        let read = self.begin_read().await?;
        self.begin_cut(&read, range).await?;
        // Before it is read: the block has what is counted, and perhaps more.
        let before = self.count(&read, range).await?;
        let is_there = self.write(&read, range, CutPart::First, before).await?;
        self.end_cut(&read, range).await?;
        self.note_settled(range);
        if !is_there {
            self.empty.insert(range);
        }
        Ok(())
    }

    /// Writes a block, where it would have a sample.
    pub(super) async fn write(
        &self,
        read: &ReadInFlight,
        range: BlockRange,
        part: CutPart,
        before: RangeCounts,
    ) -> Result<bool, KeeperError> {
        let (reader, began) = (&self.reader, now());
        let ulid = Ulid::from_parts(reader.clock.now_ms().max(0) as u64, u128::from(random()));
        let place = PlannedCut {
            blocks: Arc::clone(&self.blocks),
            data_dir: reader.config.data_dir.clone(),
            ulid,
            range,
            part,
            before,
        };
        let wanted = match part {
            CutPart::First | CutPart::SoFar | CutPart::Again => SeriesWanted::Chunks,
            CutPart::Late => SeriesWanted::UncutChunks,
        };
        let what = (std::iter::once(range.times_ms()), wanted);
        let write = move |orders| write(&place, orders);
        let written = write_ranges(reader, read, what, &self.blocks.thread, write).await;
        let took_us = began.elapsed().as_micros() as u64;
        self.blocks.counts.cut_us.fetch_add(took_us, Ordering::Relaxed);
        let Some(FinishedBlock { meta, bytes }) = written? else { return Ok(false) };
        self.check_undamaged(ulid).await?;
        let (stats, took_ms) = (meta.stats, took_us / 1000);
        let (series, samples) = (stats.num_series, stats.num_samples);
        let counts = &self.blocks.counts;
        let words = match part {
            CutPart::First => {
                counts.cut_end_ms.fetch_max(range.end_ms(), Ordering::Relaxed);
                "a range of two hours was cut to a block"
            }
            CutPart::SoFar => "a range that isn't over was cut to a block",
            CutPart::Again | CutPart::Late => {
                counts.late.fetch_add(1, Ordering::Relaxed);
                "samples that came late were cut to a block"
            }
        };
        tracing::info!(%ulid, series, samples, bytes, took_ms, "{words}");
        counts.cut.fetch_add(1, Ordering::Relaxed);
        counts.cut_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.changed.tell();
        Ok(true)
    }

    /// Deletes a block that was written a moment ago and can't be opened because it is damaged: its range is cut again, and each
    /// time would leave one more. One that can't be opened for another reason is the next look's.
    async fn check_undamaged(&self, ulid: Ulid) -> Result<(), KeeperError> {
        let is_damaged = match self.reader.node.local_blocks.unread().await {
            Ok(Ok(unread)) => unread.set_aside.contains(&ulid),
            Ok(Err(_)) | Err(_) => false,
        };
        if !is_damaged {
            return Ok(());
        }
        let blocks = Arc::clone(&self.blocks);
        let deleted = self.blocks.thread.run(move || blocks.dir.delete(ulid)).await?;
        deleted.map_err(|error| KeeperError::Deletion(ulid, error))?;
        Err(KeeperError::Damaged(ulid))
    }
}

fn write(place: &PlannedCut, orders: Orders) -> Result<Option<FinishedBlock>, RangeBlocksError> {
    let PlannedCut { blocks, data_dir, ulid, .. } = place;
    check_room(data_dir)?;
    blocks.dir.make().map_err(failed(blocks.dir.path()))?;
    let unfinished = UnfinishedDir::new(blocks.dir.unfinished(*ulid));
    let mut target = CutTarget { place, block: None };
    orders.write(data_dir, &mut target)?;
    let Some(block) = target.block else { return Ok(None) };
    // A deletion that comes later finds it by its name.
    let name = || unfinished.rename(&blocks.dir.block(*ulid));
    blocks.naming.unless_deleted(place.before.deletions, name).ok_or(RangeBlocksError::Deleted)??;
    Ok(Some(block))
}

struct CutTarget<'a> {
    place: &'a PlannedCut,
    block: Option<FinishedBlock>,
}

impl BlockTarget for CutTarget<'_> {
    fn begin(&mut self, memory: WriterMemory) -> Result<BlockWriter, BlockWriteError> {
        let PlannedCut { blocks, ulid, .. } = self.place;
        BlockWriter::create(blocks.dir.unfinished(*ulid), *ulid, memory)
    }

    fn origin(&self) -> BlockOrigin {
        let (is_late, is_so_far) = match self.place.part {
            CutPart::First => (false, false),
            CutPart::SoFar => (false, true),
            CutPart::Again | CutPart::Late => (true, false),
        };
        let (begin_ms, held) = (self.place.range.begin_ms(), self.place.before.held.clone());
        BlockOrigin { is_late, cut: Some(Cut { begin_ms, held, is_so_far }), rewritten: None }
    }

    fn put(&mut self, block: FinishedBlock) {
        self.block = Some(block);
    }
}
