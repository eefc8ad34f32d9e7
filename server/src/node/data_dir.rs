//! The data directory as a node finds it: locked, with an identity, its logs laid out for the
//! node's number of shards. All of it before an executor runs.
#![expect(clippy::disallowed_methods, reason = "the directory is opened before executors start")]

use std::fs::File;
use std::io;
use std::path::Path;

use futures::executor::block_on;

use crate::api::query::snapshot::remove_unfinished;
use crate::blocks::BlocksDir;
use crate::node::identity::{self, Identity, IdentityError};
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::lock::{DirectoryLock, LockError};
use silverback_host::disk::{Disk, DiskError, Operation};
use silverback_storage::wal::WalRecovery;
use silverback_storage::wal::layout::{self, Generation, Layout, LogsMissingError};

/// Nothing here is written in place: any block will do.
const BLOCK_BYTES: usize = 512;

/// A data directory that is this process' own.
#[derive(Debug)]
pub struct DataDir {
    /// What was drawn for it once.
    pub identity: Identity,
    /// Where its logs are.
    pub layout: Layout,
    /// Held as long as the node runs.
    _lock: DirectoryLock,
}

/// Why a data directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process uses it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Whose it is can't be known, or isn't this version's.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The logs were removed, and the recovery is strict.
    #[error(
        "{0}. Nothing was changed. Put it back where it was; or start with `--wal-recovery=salvage`, which continues \
         without it; or, to start afresh, empty the whole data directory"
    )]
    LogsMissing(#[from] LogsMissingError),
}

impl DataDir {
    /// Locks a directory, and makes in it what isn't there yet. Where its logs are gone, a strict recovery
    /// changes nothing.
    pub(crate) fn open(root: &Path, shards: usize, recovery: WalRecovery) -> Result<Self, DataDirError> {
        let lock = DirectoryLock::take(root)?;
        let disk = BlockingDisk::new(root, BLOCK_BYTES);
        let newest = block_on(layout::newest(&disk))?;
        let has_logs = newest.is_some();
        if !has_logs {
            // Its own name too: without this a crash can lose the directory, and all that is in it.
            sync_parents(root, |dir| File::open(dir)?.sync_all())?;
        }
        let identity = block_on(identity::find_or_make(&disk, has_logs))?;
        if let Some(gone) = LogsMissingError::judge(identity.logs, newest) {
            match recovery {
                WalRecovery::Strict => return Err(gone.into()),
                WalRecovery::Salvage => tracing::error!(%gone, "the node starts without them"),
            }
        }
        remove_unfinished(root);
        BlocksDir::below(root).remove_leftovers();
        let layout = block_on(layout::prepare(&disk, shards))?;
        let identity = match layout {
            Layout::Same(own) => block_on(note_logs(&disk, identity, own)),
            Layout::Changed { .. } => identity,
        };
        Ok(Self { identity, layout, _lock: lock })
    }
}

/// Notes in the identity that these logs are there, once each of them says which segment is its newest: those
/// of an older version don't before a node has gone on in them. What the identity is afterwards: where it can't
/// be written, less is known, and nothing is lost.
pub(crate) async fn note_logs<D: Disk>(disk: &D, identity: Identity, logs: Generation) -> Identity {
    if identity.logs == Some(logs) {
        return identity;
    }
    let noted = match logs.is_marked(disk).await {
        Ok(true) => identity::note_logs(disk, identity, logs).await,
        Ok(false) => return identity,
        Err(error) => Err(error),
    };
    noted.unwrap_or_else(|error| {
        tracing::warn!(%error, "that the data directory has write-ahead logs is not noted yet");
        identity
    })
}

/// Makes the names durable by which a directory is found, up to the root of the file system. A parent that
/// may not be opened was not made by this node.
fn sync_parents(root: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> Result<(), DiskError> {
    let failed = |path: &Path, error| DiskError::new(Operation::Sync, &path.to_string_lossy(), &error);
    let root = root.canonicalize().map_err(|error| failed(root, error))?;
    for parent in root.ancestors().skip(1) {
        match sync(parent) {
            Ok(()) => {}
            // Some file systems that aren't written have no sync for directories.
            Err(error) if is_foreign(error.kind()) => break,
            Err(error) => return Err(failed(parent, error)),
        }
    }
    Ok(())
}

fn is_foreign(error: io::ErrorKind) -> bool {
    matches!(
        error,
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn each_parent_is_synced_up_to_one_that_is_not_ours() {
        let root = std::env::temp_dir().join(format!("silverback-parents-{}/a/b", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let root = root.canonicalize().unwrap();
        let synced = RefCell::new(Vec::<PathBuf>::new());
        let foreign = root.ancestors().nth(3).unwrap();
        let sync = |dir: &Path| {
            synced.borrow_mut().push(dir.into());
            if dir == foreign { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
        };
        sync_parents(&root, sync).unwrap();
        assert_eq!(synced.take(), root.ancestors().skip(1).take(3).collect::<Vec<_>>());
        let failing = |_: &Path| Err(io::Error::from_raw_os_error(5));
        let told = sync_parents(&root, failing).unwrap_err().to_string();
        assert!(told.starts_with(&format!("syncing {}: ", root.parent().unwrap().display())), "{told}");
        sync_parents(&root, |dir| File::open(dir)?.sync_all()).unwrap();
        std::fs::remove_dir_all(root.ancestors().nth(2).unwrap()).unwrap();
    }
}
