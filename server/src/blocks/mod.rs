//! The node's TSDB blocks on disk, `blocks/` in the data directory: which there are, which are due, which may go, and
//! who hears when their set has changed.
//!
//! Knows directories and times. Doesn't know how a block is made, nor who reads or uploads it.
#![expect(clippy::disallowed_types, reason = "threads beside the executors take it, and nobody else")]

mod changed;
mod counts;
mod directory;
mod due;
mod held_back;
mod retention;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use changed::Changed;
pub use counts::BlockCounts;
pub use directory::{BlockList, BlocksDir, LocalBlock};
pub use due::{BlockRange, Schedule, due};
pub use held_back::{CutProgress, HeldBack, Pass, USUAL_WAIT_MS_MAX};
pub use retention::{RetentionBounds, doomed};

use silverback_block::Ulid;
use silverback_runtime::SideThread;

/// Says whether a block may be deleted.
type MayGo = Box<dyn Fn(Ulid) -> bool + Send + Sync>;

/// What a node has that keeps blocks. Shared by all its cores and threads.
pub struct Blocks {
    /// Where they are.
    pub dir: BlocksDir,
    /// Announces that a block came or went.
    pub changed: Changed,
    /// What came of cuts, and what is on disk.
    pub counts: BlockCounts,
    /// What memory's retention waits for.
    pub(crate) held_back: HeldBack,
    /// Does what waits for the disk.
    pub(crate) thread: SideThread,
    may_go: OnceLock<MayGo>,
    deletions: AtomicU64,
    /// Held while a block is given its name, or a deletion is noted.
    naming: Mutex<()>,
}

impl Blocks {
    /// Those below a data directory. Starts the thread that writes them.
    pub(crate) fn start(data_dir: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: BlocksDir::below(data_dir),
            changed: Changed::default(),
            counts: BlockCounts::default(),
            held_back: HeldBack::default(),
            thread: SideThread::start("blocks")?,
            may_go: OnceLock::new(),
            deletions: AtomicU64::new(0),
            naming: Mutex::new(()),
        })
    }

    /// Samples were deleted of memory, and are deleted of the blocks that are there next: one that is cut meanwhile may have
    /// them. Waits for a block that is just given its name.
    pub(crate) fn note_deletion(&self) {
        let _no_name_is_given = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        self.deletions.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives a block its name, unless there was a deletion since there were so many of them: whoever has one that was
    /// named before finds the block.
    pub(crate) fn name_unless_deleted<T>(&self, deletions: u64, name: impl FnOnce() -> T) -> Option<T> {
        let _no_deletion_is_noted = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        (self.deletions() == deletions).then(name)
    }

    /// How often that was.
    pub(crate) fn deletions(&self) -> u64 {
        self.deletions.load(Ordering::Acquire)
    }

    /// Has somebody asked before a block is deleted because of its age or of what all of them take: who uploads them.
    /// The first who says so is asked; nobody: every block may go.
    pub fn ask_before_deleting(&self, may_go: impl Fn(Ulid) -> bool + Send + Sync + 'static) {
        // There is one that uploads.
        let _taken = self.may_go.set(Box::new(may_go));
    }

    /// Whether a block may be deleted.
    pub(crate) fn may_go(&self, block: Ulid) -> bool {
        self.may_go.get().is_none_or(|may_go| may_go(block))
    }
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { dir, counts, .. } = self;
        f.debug_struct("Blocks").field("dir", dir).field("counts", counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use silverback_test_support::Scratch;

    use super::*;

    #[test]
    fn a_block_is_given_its_name_before_a_deletion_is_noted_or_not_at_all() {
        let scratch = Scratch::new();
        let blocks = Arc::new(Blocks::start(scratch.path()).unwrap());
        let (before, is_named) = (blocks.deletions(), Arc::new(AtomicBool::new(false)));
        let noted = blocks.name_unless_deleted(before, || {
            let (blocks, named) = (Arc::clone(&blocks), Arc::clone(&is_named));
            let deletion = thread::spawn(move || {
                blocks.note_deletion();
                named.load(Ordering::Acquire)
            });
            // Time enough for it, if it didn't wait.
            thread::sleep(Duration::from_millis(100));
            is_named.store(true, Ordering::Release);
            deletion
        });
        assert!(
            noted.expect("nothing was deleted before").join().unwrap(),
            "the deletion didn't wait for the name"
        );
        assert_eq!(blocks.name_unless_deleted(before, || ()), None);
        assert_eq!(blocks.name_unless_deleted(before + 1, || ()), Some(()));
    }
}
