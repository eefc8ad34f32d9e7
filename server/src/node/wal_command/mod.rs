//! `silverback wal`: the logs of a data directory, looked at while no node runs on it. Never writes
//! to them.
#![expect(clippy::disallowed_methods, reason = "a command without executors")]
mod counts;
mod cross_check;
mod inspect;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use futures::executor::block_on;

use crate::node::identity::{self, Identity, IdentityError};
use silverback_host::disk::DiskError;
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::lock::{DirectoryLock, LockError};
use silverback_storage::wal::layout::{self, Generation, LogsMissingError};
use silverback_storage::wal::replay::{LogPlace, ReplayError};

pub use inspect::{Detail, inspect};
pub use verify::{Soundness, verify};

/// Only read: any block will do.
const BLOCK_BYTES: usize = 512;

/// Why the logs can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum WalCommandError {
    /// Nobody ever ran a node there.
    #[error("{} isn't a data directory: no node has ever run on it", .0.display())]
    NoDataDir(PathBuf),
    /// There is no log.
    #[error("{} has no write-ahead log", .0.display())]
    NoLog(PathBuf),
    /// There was one.
    #[error(transparent)]
    LogsMissing(#[from] LogsMissingError),
    /// A node runs on it.
    #[error("{0}: the logs can be looked at once it has stopped")]
    Lock(#[from] LockError),
    /// The identity can't be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file is another version's or another node's.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Nobody takes the output.
    #[error("writing the answer: {0}")]
    Output(#[from] io::Error),
}

/// The newest logs of a data directory that no node uses meanwhile.
struct OfflineLogs {
    disk: BlockingDisk,
    identity: Identity,
    /// Of the identity's two files, in words.
    identity_damage: Vec<String>,
    generation: Generation,
    _lock: DirectoryLock,
}

impl OfflineLogs {
    fn open(root: &Path) -> Result<Self, WalCommandError> {
        let disk = BlockingDisk::new(root, BLOCK_BYTES);
        // Before the lock: it would leave its file in any directory.
        let (identity, identity_damage) = block_on(identity::inspect(&disk))?;
        let Some(identity) = identity else { return Err(WalCommandError::NoDataDir(root.into())) };
        let lock = DirectoryLock::take(root)?;
        let generation = block_on(layout::newest(&disk))?;
        if let Some(gone) = LogsMissingError::judge(identity.logs, generation) {
            return Err(gone.into());
        }
        let Some(generation) = generation else { return Err(WalCommandError::NoLog(root.into())) };
        Ok(Self { disk, identity, identity_damage, generation, _lock: lock })
    }

    /// The place of one shard's log.
    fn place(&self, shard: usize) -> LogPlace<BlockingDisk> {
        self.identity.log_place(&self.disk, self.generation, shard)
    }
}
