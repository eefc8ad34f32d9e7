//! The node's TSDB blocks on disk, `blocks/` in the data directory: which there are, which are due, which may go, and
//! who hears when their set has changed.
//!
//! Knows directories and times. Doesn't know how a block is made, nor who reads or uploads it.
mod changed;
mod counts;
mod directory;
mod due;
mod held_back;
mod naming;
mod retention;

use std::io;
use std::path::Path;
use std::sync::OnceLock;

pub use changed::Changed;
pub use counts::BlockCounts;
pub use directory::{BlockList, BlocksDir, LocalBlock};
pub use due::{BlockRange, Schedule, due};
pub use held_back::{CutProgress, HeldBack, Pass, USUAL_WAIT_MS_MAX};
pub(crate) use naming::Naming;
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
    /// Keeps a block that is cut from a deletion.
    pub(crate) naming: Naming,
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
            naming: Naming::default(),
        })
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
