//! A data directory through io_uring, past the page cache where its file system can do that: what
//! the node itself runs on. Only on an executor; names are changed on its thread for blocking calls.

mod file;
mod file_id;
#[expect(unsafe_code, reason = "it calls the system")]
mod probe;

use std::io;
use std::path::Path;

use glommio::GlommioError;
use glommio::io::OpenOptions;

use crate::blocking;
pub use file::DirectFile;
use file::Handle;
pub use file_id::FileId;

use silverback_host::disk::names::Root;
use silverback_host::disk::{Disk, DiskError, Operation};

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, where the file system has nothing else.
    Buffered,
}

/// A data directory. It is opened once, and every executor has a clone.
#[derive(Debug, Clone)]
pub struct DirectDisk {
    root: Root,
    mode: Mode,
    block_bytes: usize,
    /// Whether its file system keeps what `O_DSYNC` promises.
    syncs_writes: bool,
}

impl DirectDisk {
    /// Finds out what the file system of the directory at `root` can do. Blocks for a moment.
    pub fn open(root: &Path) -> Result<Self, DiskError> {
        let found = probe::probe(root)
            .map_err(|error| DiskError::new(Operation::Create, &root.to_string_lossy(), &error))?;
        Ok(Self { syncs_writes: found.syncs_writes, ..Self::open_as(root, found.mode, found.block_bytes) })
    }

    /// The directory at `root` in this mode and with blocks of so many bytes, a power of two,
    /// whatever its file system is best at. For tests and measurements.
    pub fn open_as(root: &Path, mode: Mode, block_bytes: usize) -> Self {
        assert!(block_bytes.is_power_of_two() && block_bytes <= probe::BLOCK_BYTES_MAX);
        Self { root: Root::new(root), mode, block_bytes, syncs_writes: false }
    }

    /// How its files are written.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Which file `path` leads to; `None` where it leads to none.
    pub async fn file_id(&self, path: &str) -> Result<Option<FileId>, DiskError> {
        let place = path.to_owned();
        let found = self.names(move |root| FileId::of(&root.join(&place))).await;
        found.map_err(|error| DiskError::new(Operation::Open, path, &error))
    }

    /// Opens it twice, to write alone first. glommio reads the first file of a device that an executor
    /// opens, to try polled I/O, and takes the end of an empty file for success: every read and write
    /// on that device then fails. A file that can't be read settles it: no polling, for which an
    /// executor would never rest.
    async fn file(&self, path: &str, unread: &OpenOptions, flags: i32) -> io::Result<DirectFile> {
        self.handle(path, unread).await?.close().await?;
        let mut both = OpenOptions::new();
        let handle = self.handle(path, both.read(true).write(true).custom_flags(flags)).await?;
        Ok(DirectFile::new(handle, path, self.block_bytes))
    }

    async fn handle(&self, path: &str, options: &OpenOptions) -> io::Result<Handle> {
        let place = self.root.join(path);
        Ok(match self.mode {
            Mode::Direct => Handle::Direct(options.dma_open(place).await.map_err(io_error)?),
            Mode::Buffered => Handle::Buffered(options.buffered_open(place).await.map_err(io_error)?),
        })
    }

    /// Changes or lists names, on the executor's thread for blocking calls.
    async fn names<T: Send + 'static>(&self, call: impl FnOnce(Root) -> T + Send + 'static) -> T {
        let root = self.root.clone();
        blocking::call(move || call(root)).await
    }
}

impl Disk for DirectDisk {
    type File = DirectFile;

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    async fn list(&self, dir: &str) -> Result<Vec<Box<str>>, DiskError> {
        let dir = dir.to_owned();
        self.names(move |root| root.list(&dir)).await
    }

    async fn create_dir(&self, dir: &str) -> Result<(), DiskError> {
        let dir = dir.to_owned();
        self.names(move |root| root.create_dir(&dir)).await
    }

    async fn create(&self, path: &str) -> Result<DirectFile, DiskError> {
        self.file(path, OpenOptions::new().write(true).create(true).truncate(true), 0)
            .await
            .map_err(|error| DiskError::new(Operation::Create, path, &error))
    }

    async fn open(&self, path: &str) -> Result<DirectFile, DiskError> {
        self.file(path, OpenOptions::new().write(true), 0)
            .await
            .map_err(|error| DiskError::new(Operation::Open, path, &error))
    }

    async fn open_durable(&self, path: &str) -> Result<DirectFile, DiskError> {
        if self.mode == Mode::Buffered || !self.syncs_writes {
            return self.open(path).await;
        }
        let opened = self.file(path, OpenOptions::new().write(true), libc::O_DSYNC).await;
        opened.map(DirectFile::syncing_writes).map_err(|error| DiskError::new(Operation::Open, path, &error))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.names(move |root| root.rename(&from, &to)).await
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        let path = path.to_owned();
        self.names(move |root| root.remove(&path)).await
    }

    async fn remove_dir(&self, dir: &str) -> Result<(), DiskError> {
        let dir = dir.to_owned();
        self.names(move |root| root.remove_dir(&dir)).await
    }

    async fn sync_dir(&self, dir: &str) -> Result<(), DiskError> {
        // Not glommio's `Directory::sync`, which is an fdatasync.
        let dir = dir.to_owned();
        self.names(move |root| root.sync_dir(&dir)).await
    }
}

/// The system's own error, without what glommio says around it.
fn io_error(error: GlommioError<()>) -> io::Error {
    match error {
        GlommioError::IoError(error) | GlommioError::EnhancedIoError { source: error, .. } => error,
        other => io::Error::other(other.to_string()),
    }
}
