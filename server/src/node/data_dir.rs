//! The data directory as a node finds it: locked, with an identity, its logs laid out for the
//! node's number of shards. All of it before an executor runs.

use std::io;
use std::path::Path;

use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use crate::disk::blocking::BlockingDisk;
use crate::disk::lock::{DirectoryLock, LockError};
use crate::disk::{Disk, DiskError, File};
use crate::limits::CELL_COUNT;
use crate::wal::layout::{self, Layout};

/// The file that says whose the directory is.
const IDENTITY: &str = "node";

/// Of all that lies in the directory.
const FORMAT: u32 = 1;

/// Nothing here is written in place: any block will do.
const BLOCK_BYTES: usize = 512;

/// A data directory that is this process' own.
#[derive(Debug)]
pub struct DataDir {
    /// What was drawn for it once.
    pub identity: Identity,
    /// Where its logs lie.
    pub layout: Layout,
    /// Held as long as the node runs.
    _lock: DirectoryLock,
}

/// What a data directory keeps for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    format: u32,
    /// Series ids and the log's checksums depend on it: nobody outside can look for labels whose ids
    /// collide, or send bytes that look like a piece of the log.
    pub seed: u64,
    cells: usize,
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
    /// The identity can't be read.
    #[error(
        "{IDENTITY} in the data directory can't be read ({0}): restore it from a backup; without it the logs mean nothing"
    )]
    Identity(String),
    /// Written by another version.
    #[error("the data directory has format {0}, this version reads {FORMAT}")]
    OtherFormat(u32),
    /// Made with another number of cells.
    #[error("the data directory has {0} cells, this version has {CELL_COUNT}")]
    OtherCells(usize),
}

impl DataDir {
    /// Locks a directory, and makes in it what isn't there yet.
    pub fn open(root: &Path, shards: usize) -> Result<Self, DataDirError> {
        let lock = DirectoryLock::take(root)?;
        let disk = BlockingDisk::new(root, BLOCK_BYTES);
        let identity = block_on(find_or_make_identity(&disk))?;
        let layout = block_on(layout::prepare(&disk, shards))?;
        Ok(Self { identity, layout, _lock: lock })
    }
}

async fn find_or_make_identity<D: Disk>(disk: &D) -> Result<Identity, DataDirError> {
    if let Some(identity) = read_identity(disk).await? {
        return Ok(identity);
    }
    let identity = Identity { format: FORMAT, seed: random_seed(), cells: CELL_COUNT };
    let text = serde_json::to_string(&identity).expect("numbers are JSON");
    let unfinished = format!("{IDENTITY}.tmp");
    let file = disk.create(&unfinished).await?;
    file.write_at(0, &[text.as_bytes()]).await?;
    file.sync_data().await?;
    file.close().await?;
    disk.rename(&unfinished, IDENTITY).await?;
    disk.sync_dir(".").await?;
    Ok(identity)
}

/// The identity of a data directory; `None` where it has none yet.
pub async fn read_identity<D: Disk>(disk: &D) -> Result<Option<Identity>, DataDirError> {
    let file = match disk.open(IDENTITY).await {
        Ok(file) => file,
        Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.read_at(0, BLOCK_BYTES, &mut bytes).await?;
    file.close().await?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let identity: Identity =
        serde_json::from_slice(text).map_err(|error| DataDirError::Identity(error.to_string()))?;
    match identity {
        Identity { format, .. } if format != FORMAT => Err(DataDirError::OtherFormat(format)),
        Identity { cells, .. } if cells != CELL_COUNT => Err(DataDirError::OtherCells(cells)),
        Identity { .. } => Ok(Some(identity)),
    }
}

fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
