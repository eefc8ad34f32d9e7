//! A data directory by blocking calls, whose futures are ready at once: for commands that work
//! offline, and for tests. Not for an executor, which it would hold up.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::names::Root;
use super::{Disk, DiskError, File, Operation, parts};

/// A data directory. Files go through the page cache.
#[derive(Debug, Clone)]
pub struct BlockingDisk {
    root: Root,
    block_bytes: usize,
}

/// An open file of a [`BlockingDisk`].
#[derive(Debug)]
pub struct BlockingFile {
    file: fs::File,
    path: Box<str>,
    block_bytes: usize,
}

impl BlockingDisk {
    /// The directory at `root`, with blocks of `block_bytes`, a power of two.
    pub fn new(root: &Path, block_bytes: usize) -> Self {
        assert!(block_bytes.is_power_of_two());
        Self { root: Root::new(root), block_bytes }
    }

    fn file(&self, path: &str, options: &fs::OpenOptions) -> io::Result<BlockingFile> {
        let file = options.open(self.root.join(path))?;
        Ok(BlockingFile { file, path: path.into(), block_bytes: self.block_bytes })
    }
}

impl Disk for BlockingDisk {
    type File = BlockingFile;

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    async fn list(&self, dir: &str) -> Result<Vec<Box<str>>, DiskError> {
        self.root.list(dir)
    }

    async fn create_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.root.create_dir(dir)
    }

    async fn create(&self, path: &str) -> Result<BlockingFile, DiskError> {
        let mut options = fs::OpenOptions::new();
        self.file(path, options.read(true).write(true).create(true).truncate(true))
            .map_err(|error| DiskError::new(Operation::Create, path, &error))
    }

    async fn open(&self, path: &str) -> Result<BlockingFile, DiskError> {
        self.file(path, fs::OpenOptions::new().read(true).write(true))
            .map_err(|error| DiskError::new(Operation::Open, path, &error))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.root.rename(from, to)
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        self.root.remove(path)
    }

    async fn remove_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.root.remove_dir(dir)
    }

    async fn sync_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.root.sync_dir(dir)
    }
}

impl BlockingFile {
    fn error(&self, operation: Operation) -> impl Fn(io::Error) -> DiskError {
        move |error| DiskError::new(operation, &self.path, &error)
    }
}

impl File for BlockingFile {
    async fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(self.error(Operation::Open))
    }

    async fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        // What the system wouldn't mind, a disk with direct I/O would.
        debug_assert!(
            offset.is_multiple_of(self.block_bytes as u64),
            "{}: a write within a block",
            self.path
        );
        let mut block = vec![0; parts::len(parts).next_multiple_of(self.block_bytes)];
        parts::copy(parts, 0, &mut block);
        self.file.write_all_at(&block, offset).map_err(self.error(Operation::Write))
    }

    async fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<(), DiskError> {
        let size = self.size_bytes().await?;
        let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        buffer.resize(len.min(there), 0);
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(Operation::Read)(error)),
            }
        }
        buffer.truncate(filled);
        Ok(())
    }

    async fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.error(Operation::Sync))
    }

    async fn close(self) -> Result<(), DiskError> {
        Ok(())
    }
}
