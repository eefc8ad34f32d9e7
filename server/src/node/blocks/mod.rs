//! Has ranges of two hours that are over cut to blocks, and old blocks deleted: one core of the node, a step at a time.
//!
//! Which ranges are due follows from the blocks that are there ([`crate::blocks`]). A step that fails is done again,
//! later and later; what is in its way passes, or somebody is asked to remove it. It waits for its turn among
//! reads, and for their memory.
mod cut;
mod last;
mod late;
mod unread;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::select;

use crate::api::query::Reader;
use crate::api::query::local_blocks::UnreadBlocks;
use crate::api::query::read_rejected::ReadRejected;
use crate::blocks::{
    BlockList, BlockRange, Blocks, CutProgress, LocalBlock, RetentionBounds, Schedule, USUAL_WAIT_MS_MAX,
    doomed, due,
};
use crate::node::blocks::cut::Uncut;
use crate::node::blocks::late::LateTurn;
use crate::node::shipping;
use crate::node::trusted_clock::{HeardTime, TrustedClock};
use crate::routing::fanout::{FanoutError, stats};
use silverback_block::Ulid;
use silverback_runtime::{SideThreadError, catch_panic, now, sleep, spawn_background};

/// Between two looks at what is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a step that failed is left alone, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(5 * 60);

pub(crate) use last::ship_what_is_left;

/// Who has had blocks cut, given out once the node is to end.
#[derive(Debug)]
pub(crate) struct KeeperEnd(oneshot::Receiver<Keeper>);

/// Starts it, where the node makes blocks; it goes on until the node is to end. `seed` distinguishes the node from others.
pub(in crate::node) fn start(reader: Rc<Reader>, clock: TrustedClock, seed: u64) -> Option<KeeperEnd> {
    let blocks = reader.node.blocks.clone()?;
    let (give, end) = oneshot::channel();
    if let Some(shipper) = reader.node.shipper.clone() {
        shipping::follow(&blocks, shipper);
    }
    spawn_background(async move {
        let restored = reader.node.restored.reached(reader.node.cpus.len());
        select(pin!(restored), pin!(reader.shutdown.requested())).await;
        // One for all of them: it has seen what it has seen.
        let clock = Rc::new(RefCell::new(clock));
        loop {
            let schedule = Schedule::new(reader.config.blocks_delay, seed);
            let keeper = Keeper::new(&reader, &blocks, Rc::clone(&clock), schedule);
            if let Some(keeper) = catch_panic(keeper.keep()).await {
                // Nobody may want it.
                drop(give.send(keeper));
                return;
            }
            // Another one begins as at a start: it compares all that memory has with what is in blocks.
            blocks.counts.failed.fetch_add(1, Ordering::Relaxed);
            blocks.held_back.note(CutProgress::Fails);
            blocks.held_back.forget_in_blocks();
            select(pin!(sleep(RETRY_MAX)), pin!(reader.shutdown.requested())).await;
        }
    });
    Some(KeeperEnd(end))
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum KeeperError {
    /// The shards don't say what they have.
    #[error(transparent)]
    Shards(#[from] FanoutError),
    /// The thread does nothing.
    #[error(transparent)]
    Thread(#[from] SideThreadError),
    /// The directory can't be looked at.
    #[error("the directory of blocks can't be read: {0}")]
    Directory(std::io::Error),
    /// A block can't be deleted.
    #[error("block {0} can't be deleted: {1}")]
    Deletion(Ulid, std::io::Error),
    /// A range can't be cut.
    #[error(transparent)]
    Cut(#[from] ReadRejected),
    /// Reads are answered from no block that has its range.
    #[error("block {0} can't be opened: memory keeps what it has")]
    Unopened(Ulid),
    /// What was written isn't what is read back.
    #[error("block {0} was damaged as soon as it was written, and was deleted: its range is cut again")]
    Damaged(Ulid),
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Done,
    /// Nothing is to be done now.
    Nothing,
}

/// What shards have in memory.
struct Memory {
    now_ms: i64,
    range_ms: Option<(i64, i64)>,
    /// What is older retention would drop.
    horizon_ms: i64,
    /// What is older retention has dropped, or may, or no block is to have any more.
    from_ms: i64,
    /// What of ranges that were cut came late.
    uncut: BTreeMap<BlockRange, Uncut>,
}

/// What has blocks cut.
pub(crate) struct Keeper {
    reader: Rc<Reader>,
    blocks: Arc<Blocks>,
    schedule: Schedule,
    clock: Rc<RefCell<TrustedClock>>,
    heard: HeardTime,
    /// What was there at the last look, ...
    listed: BlockList,
    /// ... and what of it can't be read.
    unread: UnreadBlocks,
    /// Ranges without a sample: no block says that they are done.
    empty: BTreeSet<BlockRange>,
    /// Ranges of which a block is set aside, and when they were cut again, in ms.
    cut_again: BTreeMap<BlockRange, u64>,
    /// Of these, those whose block is damaged once more.
    given_up: BTreeSet<BlockRange>,
    /// Ranges of which a block went or was set aside since it was compared with memory: the newest one's counts don't say what
    /// the others lack.
    reduced: BTreeSet<BlockRange>,
    /// Ranges whose late samples are all marked by the shards: they were cut, or compared with their blocks, since the
    /// start.
    settled: BTreeSet<BlockRange>,
    late: LateTurn,
    /// Whether retention waits longer than it usually does for what came late.
    waits_long: bool,
    retry: Retry,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Keeper {
    /// One that knows nothing yet of what is in blocks.
    fn new(
        reader: &Rc<Reader>,
        blocks: &Arc<Blocks>,
        clock: Rc<RefCell<TrustedClock>>,
        schedule: Schedule,
    ) -> Self {
        Self {
            reader: Rc::clone(reader),
            blocks: Arc::clone(blocks),
            schedule,
            clock,
            heard: HeardTime::default(),
            listed: BlockList::default(),
            unread: UnreadBlocks::default(),
            empty: BTreeSet::new(),
            cut_again: BTreeMap::new(),
            given_up: BTreeSet::new(),
            reduced: BTreeSet::new(),
            settled: BTreeSet::new(),
            late: LateTurn::default(),
            waits_long: false,
            retry: Retry::default(),
        }
    }

    async fn keep(mut self) -> Self {
        while !self.reader.shutdown.is_requested() {
            let wait = match self.step().await {
                Ok(step) => {
                    self.blocks.held_back.note(CutProgress::Goes);
                    self.retry.succeeded();
                    match step {
                        Step::Done => continue,
                        Step::Nothing => LOOK_INTERVAL,
                    }
                }
                Err(_ending) if self.reader.shutdown.is_requested() => break,
                Err(fault) => {
                    self.blocks.counts.failed.fetch_add(1, Ordering::Relaxed);
                    self.blocks.held_back.note(CutProgress::Fails);
                    self.retry.failed(&fault)
                }
            };
            select(pin!(sleep(wait)), pin!(self.reader.shutdown.requested())).await;
        }
        self
    }

    async fn step(&mut self) -> Result<Step, KeeperError> {
        let memory = self.look_anew().await.inspect_err(|_| self.blocks.held_back.forget_in_blocks())?;
        let done = self.done();
        let ranges: Vec<_> =
            due(&self.schedule, memory.now_ms, memory.range_ms, memory.from_ms, &done).collect();
        let late = self.late_ranges(&memory);
        self.blocks.counts.due.store(ranges.len() as u64, Ordering::Relaxed);
        self.listed.note_in(&self.blocks.counts);
        self.release(&memory, &ranges, &late);
        let cut = self.cut_one(ranges, &memory, &late).await;
        // Whatever became of that: a full disk gets no emptier by waiting.
        let deleted = self.delete_old(&memory).await;
        if cut? == Step::Done {
            // What could not be deleted is met again by the next step.
            return Ok(Step::Done);
        }
        match self.first_unopened(&memory) {
            Some((_, ulid)) => deleted.and(Err(KeeperError::Unopened(ulid))),
            None => deleted,
        }
    }

    /// Lets retention go on as far as all is in blocks.
    fn release(&mut self, memory: &Memory, due: &[BlockRange], late: &[BlockRange]) {
        let released_ms = self.released_ms(memory, due, late);
        self.blocks.held_back.release(released_ms);
        let unopened = self.first_unopened(memory).map(|(range, _)| range);
        let missing = late.first().copied().into_iter().chain(unopened);
        self.blocks.held_back.note_in_blocks(unread::in_blocks_ms(memory, &self.done(), missing));
        let oldest_ms = memory.range_ms.map_or(i64::MAX, |(oldest_ms, _)| oldest_ms);
        let kept_from_ms = self.blocks.held_back.released_ms().max(oldest_ms);
        let wait_ms = memory.horizon_ms.saturating_sub(kept_from_ms);
        let waits_long = wait_ms > USUAL_WAIT_MS_MAX;
        let told_ms = if waits_long { wait_ms as u64 } else { 0 };
        self.blocks.counts.wait_ms.store(told_ms, Ordering::Relaxed);
        match (waits_long, std::mem::replace(&mut self.waits_long, waits_long)) {
            (true, false) => tracing::warn!(
                waits_s = wait_ms / 1000,
                "memory's retention waits for ranges that are in no block yet: memory grows until they are cut"
            ),
            (false, true) => tracing::info!("memory's retention goes on: what it waited for is in blocks"),
            (true, true) | (false, false) => {}
        }
    }

    /// Cuts the first range that can be cut, or else what came late.
    async fn cut_one(
        &mut self,
        ranges: Vec<BlockRange>,
        memory: &Memory,
        late: &[BlockRange],
    ) -> Result<Step, KeeperError> {
        let mut first_fault = None;
        for range in ranges {
            match self.cut(range).await {
                Ok(()) => {
                    self.late.call();
                    return Ok(Step::Done);
                }
                Err(fault) if first_fault.is_some() => {
                    tracing::debug!(%fault, begin_ms = range.begin_ms(), "blocks: another range can't be cut either");
                }
                Err(fault) => first_fault = Some(fault),
            }
            if self.reader.shutdown.is_requested() {
                break;
            }
        }
        match first_fault {
            Some(fault) => Err(fault),
            None => self.cut_late(memory, late).await,
        }
    }

    /// Looks at what there is in blocks and in memory, and forgets what was known of ranges that have changed or gone.
    async fn look_anew(&mut self) -> Result<Memory, KeeperError> {
        self.list().await?;
        let memory = self.look().await?;
        self.empty.retain(|range| range.end_ms() > memory.from_ms && !memory.uncut.contains_key(range));
        self.settled.retain(|range| range.end_ms() > memory.from_ms);
        self.reduced.retain(|range| range.end_ms() > memory.from_ms);
        self.cut_again.retain(|range, _| range.end_ms() > memory.from_ms);
        Ok(memory)
    }

    /// Looks at the directory, on the thread that may wait for it.
    async fn list(&mut self) -> Result<(), KeeperError> {
        let (blocks, before) = (Arc::clone(&self.blocks), self.listed.clone());
        let listed = self.blocks.thread.run(move || blocks.dir.list(&before)).await?;
        let listed = listed.map_err(KeeperError::Directory)?;
        for (ulid, reason) in &listed.damaged {
            if !self.listed.damaged.contains_key(ulid) {
                tracing::warn!(%ulid, reason, "a block can't be read: it is left alone");
            }
        }
        let unread = self.reader.node.local_blocks.unread().await?.map_err(KeeperError::Directory)?;
        let missing = self.missing(&listed, &unread);
        (self.listed, self.unread) = (listed, unread);
        self.note_given_up();
        for range in missing.difference(&self.given_up) {
            self.settled.remove(range);
            self.reduced.insert(*range);
            self.late.call();
        }
        Ok(())
    }

    /// Ranges of blocks that are gone since the last look, or can't be read any more: what they had may be in no other.
    fn missing(&self, listed: &BlockList, unread: &UnreadBlocks) -> BTreeSet<BlockRange> {
        // One that is set aside may be no older than the last look.
        let block = |ulid| self.listed.blocks.get(ulid).or_else(|| listed.blocks.get(ulid));
        let range_of = |ulid| Some(BlockRange::of(block(ulid)?.cut.as_ref()?.begin_ms));
        let gone = self.listed.blocks.keys().filter(|ulid| !listed.blocks.contains_key(ulid));
        let is_rewritten = |range: &BlockRange| {
            // It says of itself that what memory had then is unknown.
            let cuts = listed.blocks.values().filter_map(|block| block.cut.as_ref());
            cuts.filter(|cut| cut.held.is_empty()).any(|cut| BlockRange::of(cut.begin_ms) == *range)
        };
        let gone = gone.filter_map(range_of).filter(|range| !is_rewritten(range));
        let set_aside = unread.set_aside.difference(&self.unread.set_aside).filter_map(range_of);
        let mut missing: BTreeSet<_> = gone.chain(set_aside).collect();
        // Of which time such a one is isn't known.
        if listed.damaged.keys().any(|ulid| !self.listed.damaged.contains_key(ulid)) {
            missing.extend(self.settled.iter().copied());
        }
        missing
    }

    fn note_given_up(&mut self) {
        let given_up = unread::given_up(self.set_aside(), &self.cut_again);
        for range in given_up.difference(&self.given_up) {
            tracing::error!(
                begin_ms = range.begin_ms(),
                "a range was cut again, and its block is damaged once more: it isn't cut any more, and memory drops it as if it \
                 were in a block; check the disk"
            );
        }
        self.given_up = given_up;
    }

    /// Asks the shards what they have, and what they heard of the time.
    async fn look(&mut self) -> Result<Memory, KeeperError> {
        let cores = stats(&self.reader.router).await?;
        let heard = HeardTime::of(&cores);
        let heard_since = heard.since(std::mem::replace(&mut self.heard, heard));
        let now_ms = self.clock.borrow_mut().look(self.reader.clock.now_ms(), now(), heard_since);
        let ranges_ms = cores.iter().filter_map(|core| core.shard.range_ms);
        let range_ms = ranges_ms.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let before = |time: Duration| now_ms.saturating_sub(time.as_millis() as i64);
        let config = &self.reader.config;
        // Of what retention dropped, a block may have been there and be deleted by now.
        let gone_ms = self.reader.node.local_blocks.gone_ms().max(self.blocks.held_back.released_ms());
        let from_ms = gone_ms.max(before(config.blocks_retention));
        let horizon_ms = before(config.retention);
        Ok(Memory { now_ms, range_ms, horizon_ms, from_ms, uncut: late::uncut(&cores) })
    }

    /// Ranges that were cut, or had nothing.
    fn done(&self) -> BTreeSet<BlockRange> {
        let cut = self.own_blocks().filter(|(_, block)| !block.is_late).map(|(range, _)| range);
        let others = self.empty.union(&self.given_up).copied();
        let done: BTreeSet<BlockRange> = cut.chain(others).collect();
        if let Some(newest) = done.last() {
            self.blocks.counts.cut_end_ms.fetch_max(newest.end_ms(), Ordering::Relaxed);
        }
        done
    }

    /// Blocks that aren't set aside: what is in those is to be cut again as long as memory has it.
    fn readable_blocks(&self) -> impl Iterator<Item = &LocalBlock> {
        self.listed.blocks.values().filter(|block| !self.unread.set_aside.contains(&block.ulid))
    }

    /// The blocks that this node cut and that were set aside, each with its range.
    fn set_aside(&self) -> impl Iterator<Item = (BlockRange, Ulid)> {
        let own = |ulid| {
            let cut = self.listed.blocks.get(ulid)?.cut.as_ref().filter(|cut| !cut.is_so_far)?;
            Some((BlockRange::of(cut.begin_ms), *ulid))
        };
        self.unread.set_aside.iter().filter_map(own)
    }

    /// A range is about to be cut: where a block of it is set aside, it is so for the second time.
    fn note_cut_again(&mut self, range: BlockRange) {
        if self.set_aside().any(|(of, _)| of == range) {
            let now_ms = self.reader.clock.now_ms().max(0) as u64;
            self.cut_again.entry(range).or_insert(now_ms);
        }
    }

    /// All that memory has of a range is in blocks.
    fn note_settled(&mut self, range: BlockRange) {
        self.settled.insert(range);
        self.reduced.remove(&range);
    }

    /// The blocks that this node cut of ranges that were over, each with its range. Others' say nothing of what is in
    /// memory.
    fn own_blocks(&self) -> impl Iterator<Item = (BlockRange, &LocalBlock)> {
        let own = |block: &LocalBlock| {
            let cut = block.cut.as_ref().filter(|cut| !cut.is_so_far)?;
            Some(BlockRange::of(cut.begin_ms))
        };
        self.readable_blocks().filter_map(move |block| Some((own(block)?, block)))
    }

    /// The first range of which memory has anything and a block can't be opened: reads find it in memory alone.
    fn first_unopened(&self, memory: &Memory) -> Option<(BlockRange, Ulid)> {
        let blocks = self.own_blocks().map(|(range, block)| (range, block.ulid));
        unread::first_unopened(blocks, &self.unread.unopened, memory)
    }

    async fn delete_old(&mut self, memory: &Memory) -> Result<Step, KeeperError> {
        let config = &self.reader.config;
        let bytes_max = (config.blocks_retention_bytes > 0).then_some(config.blocks_retention_bytes as u64);
        let kept = RetentionBounds {
            from_ms: memory.now_ms.saturating_sub(config.blocks_retention.as_millis() as i64),
            bytes_max,
            memory_from_ms: self.blocks.held_back.released_ms(),
        };
        let there: Vec<LocalBlock> = self.listed.blocks.values().cloned().collect();
        let blocks = Arc::clone(&self.blocks);
        let delete = move || {
            for ulid in doomed(&there, &kept, |ulid| blocks.may_go(ulid)) {
                blocks.dir.delete(ulid).map_err(|error| KeeperError::Deletion(ulid, error))?;
                blocks.counts.deleted.fetch_add(1, Ordering::Relaxed);
                blocks.changed.tell();
                tracing::info!(%ulid, "a block was deleted: it was older than --blocks-retention, or the oldest of more than --blocks-retention-size");
            }
            Ok::<_, KeeperError>(Step::Nothing)
        };
        self.blocks.thread.run(delete).await?
    }
}

/// When what failed is tried again.
#[derive(Debug, Default)]
struct Retry {
    failures: u32,
}

impl Retry {
    /// Logs the first failure in a row, and how long to wait.
    fn failed(&mut self, fault: &KeeperError) -> Duration {
        let wait = RETRY_MAX.min(RETRY_MIN * 2_u32.saturating_pow(self.failures));
        match self.failures {
            0 => tracing::warn!(%fault, "blocks: a step failed, and is tried again until it succeeds"),
            _ => tracing::debug!(%fault, wait_s = wait.as_secs(), "blocks: the step failed again"),
        }
        self.failures = self.failures.saturating_add(1);
        wait
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("blocks: the step that failed has succeeded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_tried_again_later_and_later_and_never_given_up() {
        let (mut retry, fault) = (Retry::default(), KeeperError::Cut(ReadRejected::BudgetExceeded));
        let waits: Vec<_> = (0..100).map(|_| retry.failed(&fault).as_secs()).collect();
        assert_eq!(waits[..9], [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(waits[9..].iter().all(|wait| *wait == 300));
        retry.succeeded();
        assert_eq!(retry.failed(&fault), RETRY_MIN);
    }
}
