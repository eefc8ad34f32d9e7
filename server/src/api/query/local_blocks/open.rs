//! Which blocks are open, and the border between them and memory.
//!
//! The border is fixed when a read begins: the floor of memory, or the end of the newest range before that of which there is
//! a block. What is before it is read from blocks, too: memory has some of it still, and may have what no block has.
//! Retention goes past the floor of a read that has begun only after half an hour: then the read fails
//! ([`LocalBlocks::is_dropped`]), it finds nothing wrong.
#![expect(clippy::disallowed_types, reason = "threads beside the executors take it, and nobody else")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silverback_block::{BlockCache, BlockError, CacheCounts, Meta, OpenBlock, Ulid};
use silverback_host::counters;
use silverback_model::limits::CHUNK_RANGE_MS;
use silverback_runtime::{SideThread, SideThreadError};
use silverback_storage::message::{ReadTicket, Selection, ShardReadError};

use super::deletion;
use super::floor::{FloorFile, border_after, floor_for, horizon_of};
use super::memory::{BlockMemory, TakenMemory};
use super::page::BlockRead;
use super::rewrite::{self, Halt, RewriteLocation};
use super::rows::ChunkRange;
use super::threads::{BlockJob, BlockJobError, Threads, run_on};
use crate::api::query::read_rejected::ReadRejected;
use crate::routing::{FanoutError, Overloaded};
use silverback_storage::message::Batch;

/// Below the data directory.
const DIR: &str = "blocks";
/// No time is before it: there is no block.
const NEVER: i64 = i64::MAX;
/// Blocks of late samples alone say nothing of what memory may drop, unless it has long.
const LONG_GONE_MS: i64 = 2 * CHUNK_RANGE_MS;

/// The blocks in the data directory.
#[derive(Debug)]
pub(crate) struct LocalBlocks {
    dir: PathBuf,
    /// Where the oldest block begins, ...
    oldest_ms: AtomicI64,
    /// ... and from when on memory is read: [`Self::border`].
    border_ms: AtomicI64,
    floor_ms: AtomicI64,
    /// Retention may have dropped what is older.
    dropped_ms: AtomicI64,
    floor_file: FloorFile,
    known: Known,
    /// Held while the directory is looked at: of two looks the older one's list is not to win.
    looking: Mutex<()>,
    cache: Arc<BlockCache>,
    memory: Arc<BlockMemory>,
    threads: Threads,
    /// Looks at the directory and writes the floor: reads don't keep it waiting.
    upkeep: SideThread,
    /// Deletes samples of blocks: it may take long.
    deleting: SideThread,
    /// Writes blocks again.
    rewriting: SideThread,
    open: AtomicUsize,
    reads: AtomicU64,
    damaged: AtomicU64,
    rewritten: AtomicU64,
}

/// Blocks by the names of their directories. Only threads beside the executors take the lock.
#[derive(Debug, Default)]
struct Known(Mutex<Set>);

#[derive(Debug, Default)]
struct Set {
    open: BTreeMap<OsString, Arc<OpenBlock>>,
    /// What was found to be damaged, and isn't opened again before the next start, and of which time it is, where that is known.
    set_aside: BTreeMap<OsString, Option<ChunkRange>>,
}

/// Blocks that are there and that reads aren't answered from.
#[derive(Debug, Default)]
pub(crate) struct UnreadBlocks {
    /// They can't be opened now, and are tried again.
    pub(crate) unopened: BTreeSet<Ulid>,
    /// They are damaged.
    pub(crate) set_aside: BTreeSet<Ulid>,
}

fn ulid_of(name: &OsString) -> Option<Ulid> {
    Ulid::from_string(name.to_str()?).ok()
}

counters! {
    /// What is counted of blocks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct OpenBlockCounts {
        /// Blocks on disk that reads are answered from.
        open: usize => Gauge "silverback_blocks_open",
        /// Blocks that were found to be damaged and are not read any more.
        damaged: u64 => Counter "silverback_blocks_set_aside_total",
        /// Blocks that were written again without what was deleted of them.
        rewritten: u64 => Counter "silverback_blocks_rewritten_total",
        /// Selections that were read from blocks on disk, too.
        reads: u64 => Counter "silverback_block_reads_total",
        /// What reads of blocks hold.
        read_bytes: usize => Gauge "silverback_block_read_bytes",
        /// Pieces of blocks' files that were wanted and in memory.
        cache_hits: u64 => Counter "silverback_block_cache_hits_total",
        /// Pieces of blocks' files that were read from disk.
        cache_misses: u64 => Counter "silverback_block_cache_misses_total",
        /// What is kept in memory of blocks' files.
        cache_bytes: usize => Gauge "silverback_block_cache_bytes",
    }
}

impl LocalBlocks {
    /// Opens the blocks that are there, before executors start. The cache of their files and their reads may take so many
    /// bytes each. `horizon_ms` is what retention may drop at its first pass, where nothing is known of what it dropped.
    pub(crate) fn start(data_dir: &Path, bytes_each: usize, horizon_ms: i64) -> io::Result<Arc<Self>> {
        let floor_file = FloorFile::of(data_dir);
        let written_ms = floor_file.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "how far memory goes back can't be read: it is taken to be the retention");
            None
        });
        let floor_ms = written_ms.unwrap_or_else(|| floor_for(horizon_ms));
        let blocks = Self {
            dir: data_dir.join(DIR),
            oldest_ms: AtomicI64::new(NEVER),
            border_ms: AtomicI64::new(i64::MIN),
            floor_ms: AtomicI64::new(floor_ms),
            dropped_ms: AtomicI64::new(written_ms.map_or(i64::MIN, horizon_of)),
            floor_file,
            known: Known::default(),
            looking: Mutex::default(),
            cache: BlockCache::new(bytes_each),
            memory: BlockMemory::new(bytes_each),
            threads: Threads::start()?,
            upkeep: SideThread::start("blocks-upkeep")?,
            deleting: SideThread::start("blocks-delete")?,
            rewriting: SideThread::start("blocks-rewrite")?,
            open: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
        };
        let _what_cannot_be_opened_is_tried_again = blocks.look_at_all();
        Ok(Arc::new(blocks))
    }

    /// Opens what came since the last look, and closes what went. Reads that have begun go on with what they have.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let own = Arc::clone(self);
        if let Err(fault) = self.upkeep.run(move || drop(own.look_at_all())).await {
            silverback_host::warn_limited!(%fault, "the directory of blocks was not looked at");
        }
    }

    /// The same, and which blocks reads are still not answered from.
    pub(crate) async fn unread(self: &Arc<Self>) -> Result<io::Result<UnreadBlocks>, SideThreadError> {
        let own = Arc::clone(self);
        let look = move || {
            let unopened = own.look()?;
            let set_aside = own.known.with(|set| set.set_aside.keys().filter_map(ulid_of).collect());
            Ok(UnreadBlocks { unopened, set_aside })
        };
        self.upkeep.run(look).await
    }

    /// What of a selection is read from blocks, if anything is: what is older than the border. Costs two loads.
    pub(crate) fn question<B: Batch>(
        &self,
        selection: &Selection,
        wanted: &B::Wanted,
    ) -> Option<BlockRead<B>> {
        // Before the border, which may be raised with it.
        let floor_ms = self.floor_ms.load(Ordering::Acquire);
        let border_ms = self.border_for(selection.min_ms, selection.max_ms)?;
        Some(BlockRead { selection: selection.clone(), wanted: wanted.clone(), border_ms, floor_ms })
    }

    /// Deletes what any of the selections has of all blocks, for good, and returns from how many of these. What is to be done
    /// `before` it looks which there are is done on a thread that may wait.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        ticket: &ReadTicket,
        selections: &Arc<[Selection]>,
        before: impl FnOnce() + Send + 'static,
    ) -> Result<usize, FanoutError> {
        let (own, selections) = (Arc::clone(self), Arc::clone(selections));
        let delete = move |job: &BlockJob| {
            before();
            deletion::delete(job, &own, &selections)
        };
        match run_on(&self.deleting, ticket, delete).await {
            Ok(Ok(blocks)) => Ok(blocks),
            Ok(Err(stop)) => Err(self.error_of(stop).await),
            Err(SideThreadError::Busy) => Err(Overloaded.into()),
            Err(SideThreadError::Panicked) => Err(ShardReadError::Panicked.into()),
        }
    }

    /// Writes all blocks again of which anything was deleted, without that, and returns how many these were. Dropped
    /// before its end, it leaves blocks as they were, or written again.
    pub(crate) async fn clean(self: &Arc<Self>, place: RewriteLocation) -> Result<usize, ReadRejected> {
        let (own, ticket) = (Arc::clone(self), ReadTicket::issue());
        let cleaned = run_on(&self.rewriting, &ticket, move |job| rewrite::clean(job, &own, &place)).await?;
        match cleaned {
            Ok(blocks) => Ok(blocks),
            Err(Halt::Read(stop)) => Err(self.error_of(stop).await.into()),
            Err(Halt::Write(fault)) => Err(ReadRejected::Writing(fault)),
        }
    }

    pub(super) fn count_rewritten(&self) {
        self.rewritten.fetch_add(1, Ordering::Relaxed);
    }

    /// All that are open.
    pub(super) fn all(&self) -> Vec<Arc<OpenBlock>> {
        self.known.with(|set| set.open.values().cloned().collect())
    }

    /// Whether reads are answered from a block.
    pub(super) fn is_open(&self, ulid: Ulid) -> bool {
        self.known.with(|set| set.open.contains_key(&OsString::from(ulid.to_string())))
    }

    /// Whether a block that was set aside has anything of these times, or may have: the next start reads it again if the damage
    /// is where a start doesn't look, or if somebody has restored the file.
    pub(super) fn has_set_aside(&self, times: ChunkRange) -> bool {
        let overlaps = |own: &ChunkRange| own.min_ms <= times.max_ms && own.max_ms >= times.min_ms;
        self.known.with(|set| set.set_aside.values().any(|own| own.as_ref().is_none_or(overlaps)))
    }

    /// Opens a block again that was changed.
    pub(super) fn reopen(&self, block: &OpenBlock) -> Result<(), BlockError> {
        let opened = Arc::new(OpenBlock::open(block.dir(), &self.cache)?);
        let name = block.dir().file_name().unwrap_or_default().to_owned();
        self.known.with(|set| {
            // It may have been set aside meanwhile.
            set.open.entry(name).and_modify(|open| *open = opened);
        });
        Ok(())
    }

    /// Before when blocks are read, where any of these times is.
    pub(crate) fn border_for(&self, min_ms: i64, max_ms: i64) -> Option<i64> {
        let (oldest_ms, border_ms) = (self.oldest_ms(), self.border_ms.load(Ordering::Acquire));
        (oldest_ms < border_ms && min_ms < border_ms && oldest_ms <= max_ms).then_some(border_ms)
    }

    /// Where the oldest block begins, in ms; `i64::MAX` without any.
    pub(crate) fn oldest_ms(&self) -> i64 {
        self.oldest_ms.load(Ordering::Acquire)
    }

    /// How far a pass of retention may go that would like to drop what is older than its horizon. The floor is raised where
    /// it comes near, for reads that begin from now on; this pass goes by the one that there was.
    pub(crate) async fn before_pass(self: &Arc<Self>, horizon_ms: i64) -> i64 {
        let floor_ms = self.floor_ms.load(Ordering::Acquire);
        let wanted_ms = floor_for(horizon_ms);
        if wanted_ms > floor_ms {
            let own = Arc::clone(self);
            match self.upkeep.run(move || own.raise_floor(wanted_ms)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => silverback_host::warn_limited!(
                    %error,
                    "how far memory goes back can't be written down: nothing is dropped beyond what is"
                ),
                Err(fault) => {
                    silverback_host::warn_limited!(%fault, "how far memory goes back was not written down")
                }
            }
        }
        let horizon_ms = horizon_ms.min(floor_ms);
        self.dropped_ms.fetch_max(horizon_ms, Ordering::AcqRel);
        horizon_ms
    }

    /// Whether retention may have dropped samples from this time on.
    pub(crate) fn is_dropped(&self, from_ms: i64) -> bool {
        self.gone_ms() > from_ms
    }

    /// Retention has dropped what is older, or may, since the start or before it.
    pub(crate) fn gone_ms(&self) -> i64 {
        self.dropped_ms.load(Ordering::Acquire)
    }

    /// How they do.
    pub(crate) fn counts(&self) -> OpenBlockCounts {
        let CacheCounts { hits, misses, bytes } = self.cache.counts();
        OpenBlockCounts {
            open: self.open.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            rewritten: self.rewritten.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            read_bytes: self.memory.taken_bytes(),
            cache_hits: hits,
            cache_misses: misses,
            cache_bytes: bytes,
        }
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    pub(super) fn begin_taking(&self) -> TakenMemory {
        self.memory.begin()
    }

    pub(super) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The blocks that may have something in a range, those of late samples last: a read of an hour has nothing to do with
    /// all the others.
    pub(super) fn in_range(&self, range: ChunkRange) -> Vec<Arc<OpenBlock>> {
        let mut blocks = self.all();
        blocks.retain(|block| range.meets(block.meta()));
        blocks.sort_by_key(|block| (block.meta().is_of_part(), block.meta().min_ms));
        blocks
    }

    /// What a read reports of a stop. A block that is damaged is set aside.
    pub(super) async fn error_of(self: &Arc<Self>, stop: BlockJobError) -> FanoutError {
        match stop {
            BlockJobError::Damaged(_, fault) if fault.may_pass() => {
                silverback_host::warn_limited!(%fault, "a block could not be read");
                ShardReadError::BlockUnreadable.into()
            }
            BlockJobError::Damaged(block, fault) => {
                let own = Arc::clone(self);
                match self.upkeep.run(move || own.set_aside(&block, &fault)).await {
                    Ok(true) => ShardReadError::BlockDamaged.into(),
                    Ok(false) => ShardReadError::BlockUnreadable.into(),
                    Err(busy) => {
                        // The next read that meets it tries again.
                        silverback_host::warn_limited!(%busy, "a damaged block was not set aside");
                        ShardReadError::BlockDamaged.into()
                    }
                }
            }
            BlockJobError::NotAllOpen => ShardReadError::BlockUnreadable.into(),
            BlockJobError::SetAside => ShardReadError::BlockSetAside.into(),
            BlockJobError::NotWritten(fault) => {
                tracing::warn!(%fault, "samples were to be deleted of a block, and were not");
                ShardReadError::BlockNotWritten.into()
            }
            BlockJobError::GivenUp => ShardReadError::Cancelled.into(),
            BlockJobError::BudgetExceeded => Overloaded.into(),
            BlockJobError::TooLarge { bytes_max } => ShardReadError::TooLarge { bytes_max }.into(),
        }
    }

    fn raise_floor(&self, floor_ms: i64) -> io::Result<()> {
        // Other cores ask for the same.
        if floor_ms > self.floor_ms.load(Ordering::Acquire) {
            self.floor_file.write(floor_ms)?;
            self.floor_ms.fetch_max(floor_ms, Ordering::AcqRel);
            self.known.with(|set| self.tell(set));
        }
        Ok(())
    }

    /// Whether it is damaged: one that was deleted while it was read is not.
    fn set_aside(&self, block: &OpenBlock, fault: &BlockError) -> bool {
        if is_gone(block.dir()) {
            drop(self.look_at_all());
            return false;
        }
        let name = block.dir().file_name().unwrap_or_default();
        self.known.with(|set| {
            // Another read may have found it, too.
            if set.open.remove(name).is_some() {
                self.note_damage(set, name.to_owned(), Some(times_of(block.meta())), fault);
                self.tell(set);
            }
        });
        true
    }

    fn note_damage(&self, set: &mut Set, name: OsString, times: Option<ChunkRange>, fault: &BlockError) {
        tracing::warn!(block = %name.display(), %fault, "a block is damaged and is set aside: it is not read any more");
        set.set_aside.insert(name, times);
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens what came since the last look, and closes what went. Fails where there is anything that can't be opened now.
    pub(super) fn look_at_all(&self) -> Result<(), BlockJobError> {
        match self.look() {
            Ok(unopened) if unopened.is_empty() => Ok(()),
            Ok(_logged) => Err(BlockJobError::NotAllOpen),
            Err(error) => {
                silverback_host::warn_limited!(%error, dir = %self.dir.display(), "the directory of blocks can't be looked at");
                Err(BlockJobError::NotAllOpen)
            }
        }
    }

    /// Returns what can't be opened now.
    fn look(&self) -> io::Result<BTreeSet<Ulid>> {
        let _one_at_a_time = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let (names, mut unopened) = (names(&self.dir)?, BTreeSet::new());
        let is_new = |set: &mut Set, name: &OsString| {
            !set.open.contains_key(name) && !set.set_aside.contains_key(name)
        };
        for name in &names {
            if !self.known.with(|set| is_new(set, name)) {
                continue;
            }
            let dir = self.dir.join(name);
            // Without the lock: a disk may be slow.
            let opened = OpenBlock::open(&dir, &self.cache);
            let times =
                if opened.is_err() { Meta::read(&dir).ok().map(|meta| times_of(&meta)) } else { None };
            self.known.with(|set| match opened {
                Ok(block) => drop(set.open.insert(name.clone(), Arc::new(block))),
                // It went while it was opened.
                Err(_) if is_gone(&dir) => {}
                Err(fault) if fault.may_pass() => {
                    silverback_host::warn_limited!(%fault, "a block can't be opened now: it is tried again");
                    unopened.extend(ulid_of(name));
                }
                Err(fault) => self.note_damage(set, name.clone(), times, &fault),
            });
        }
        self.known.with(|set| {
            set.open.retain(|name, _| names.contains(name));
            set.set_aside.retain(|name, _| names.contains(name));
            self.tell(set);
        });
        Ok(unopened)
    }

    /// Lets executors know.
    fn tell(&self, set: &Set) {
        self.open.store(set.open.len(), Ordering::Relaxed);
        let metas = || set.open.values().map(|block| block.meta());
        let oldest_ms = metas().map(|meta| meta.min_ms).min();
        let floor_ms = self.floor_ms.load(Ordering::Acquire);
        let spans = metas().map(|meta| (meta.min_ms..meta.end_ms, meta.is_of_part()));
        // Nothing is before such a border.
        self.border_ms.store(border(floor_ms, spans).unwrap_or(i64::MIN), Ordering::Release);
        self.oldest_ms.store(oldest_ms.unwrap_or(NEVER), Ordering::Release);
    }
}

fn times_of(meta: &Meta) -> ChunkRange {
    ChunkRange { min_ms: meta.min_ms, max_ms: meta.end_ms.saturating_sub(1) }
}

/// Whether a block was deleted. A disk that fails says nothing of that.
pub(super) fn is_gone(dir: &Path) -> bool {
    matches!(std::fs::symlink_metadata(dir), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// From when on memory is read: the floor, or an earlier border where no block has the range before the floor.
/// `None`: no block has what is before it.
fn border(floor_ms: i64, blocks: impl Iterator<Item = (std::ops::Range<i64>, bool)>) -> Option<i64> {
    let ends = blocks.filter_map(|(times_ms, is_late)| {
        let tells =
            times_ms.start < floor_ms && (!is_late || times_ms.end <= floor_ms.saturating_sub(LONG_GONE_MS));
        tells.then(|| border_after(times_ms.end.min(floor_ms)))
    });
    ends.max()
}

/// The directories that may be blocks.
fn names(dir: &Path) -> io::Result<BTreeSet<OsString>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        // What isn't whole yet, or is on its way out, has more to its name.
        if name.to_str().is_some_and(|name| Ulid::from_string(name).is_ok()) {
            names.insert(name);
        }
    }
    Ok(names)
}

impl Known {
    fn with<T>(&self, act: impl FnOnce(&mut Set) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
