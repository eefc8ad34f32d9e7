//! The seam to files: what the log needs of a disk, so that a simulated one can stand in.
//!
//! Paths are relative to the data directory, with `/` between their parts. A file is written in
//! whole blocks at places that its user chooses; what was written is durable once
//! [`File::sync_data`] has returned, and a name once [`Disk::sync_dir`] of its directory has.
//! Knows nothing of what is in a file.
//!
//! The node's own, on an executor, is the runtime's; [`blocking`] is for commands that work offline and
//! for tests; [`lock`] keeps a second process away; [`room`] says what is left.

pub mod blocking;
pub mod lock;
pub mod names;
pub mod parts;
pub mod room;

use std::future::Future;
use std::io;

use silverback_model::named;

/// A data directory.
pub trait Disk: Clone + 'static {
    /// An open file of it.
    type File: File;

    /// The unit of writes in bytes, a power of two: what the disk writes whole or not at all.
    fn block_bytes(&self) -> usize;

    /// The names in a directory, in no order that means something.
    fn list(&self, dir: &str) -> impl Future<Output = Result<Vec<Box<str>>, DiskError>>;

    /// Makes a directory; one that is there already is no error. The parents must be there.
    fn create_dir(&self, dir: &str) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes a file of length zero, in place of one that is there.
    fn create(&self, path: &str) -> impl Future<Output = Result<Self::File, DiskError>>;

    /// Opens a file to read and write.
    fn open(&self, path: &str) -> impl Future<Output = Result<Self::File, DiskError>>;

    /// Opens an existing file for [`File::write_durable`], which may cost less than with one of [`Self::open`].
    fn open_durable(&self, path: &str) -> impl Future<Output = Result<Self::File, DiskError>> {
        self.open(path)
    }

    /// Gives a file or a directory another name, in place of a file that has it.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = Result<(), DiskError>>;

    /// Removes a file; one that is gone already is no error.
    fn remove(&self, path: &str) -> impl Future<Output = Result<(), DiskError>>;

    /// Removes a directory and all in it; one that is gone already is no error.
    fn remove_dir(&self, dir: &str) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str) -> impl Future<Output = Result<(), DiskError>>;
}

/// An open file. One write or sync at a time.
pub trait File: 'static {
    /// Its length in bytes.
    fn size_bytes(&self) -> impl Future<Output = Result<u64, DiskError>>;

    /// Writes `parts` one after the other from `offset`, a multiple of the block, and zeros up to
    /// the end of the last block. The file grows as needed.
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> impl Future<Output = Result<(), DiskError>>;

    /// Reads `len` bytes from `offset` into `buffer`, in place of what it holds; fewer where the
    /// file ends before.
    fn read_at(
        &self,
        offset: u64,
        len: usize,
        buffer: &mut Vec<u8>,
    ) -> impl Future<Output = Result<(), DiskError>>;

    /// Waits until no write of a process that is gone is on its way to the file any more, as far as the file
    /// system knows. A process that is killed may leave one behind, and it is not to come after those of
    /// the process that follows.
    fn settle(&self) -> impl Future<Output = Result<(), DiskError>> {
        async { Ok(()) }
    }

    /// Makes what was written durable, the file's length included.
    fn sync_data(&self) -> impl Future<Output = Result<(), DiskError>>;

    /// Writes as [`Self::write_at`] does, and makes that durable as [`Self::sync_data`] does.
    fn write_durable(&self, offset: u64, parts: &[&[u8]]) -> impl Future<Output = Result<(), DiskError>> {
        async move {
            self.write_at(offset, parts).await?;
            self.sync_data().await
        }
    }

    /// Closes it. A file that is dropped is closed too, its errors unseen.
    fn close(self) -> impl Future<Output = Result<(), DiskError>>;
}

named! {
    /// What was done to a file when it failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Operation {
        /// List, open or stat.
        Open = "opening",
        /// Make a file or a directory.
        Create = "creating",
        /// Read.
        Read = "reading",
        /// Write.
        Write = "writing",
        /// Sync of data or of names.
        Sync = "syncing",
        /// Rename.
        Rename = "renaming",
        /// Remove.
        Remove = "removing",
    }
}

/// A failed operation, in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {path}: {reason}", operation.as_str())]
pub struct DiskError {
    /// What was tried.
    pub operation: Operation,
    /// On what.
    pub path: Box<str>,
    /// What kind of failure it was.
    pub kind: io::ErrorKind,
    /// The system's words.
    pub reason: Box<str>,
}

impl DiskError {
    /// From what the system said.
    pub fn new(operation: Operation, path: &str, error: &io::Error) -> Self {
        Self { operation, path: path.into(), kind: error.kind(), reason: error.to_string().into() }
    }

    /// Whether it can succeed once there is room again.
    pub fn is_full(&self) -> bool {
        matches!(self.kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}
