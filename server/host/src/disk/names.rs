//! What is done to names in a data directory, by blocking calls. Knows nothing of what is in a file.
#![expect(
    clippy::disallowed_methods,
    reason = "a directory is synced when a file is made or removed: rare, and ahead of time"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DiskError, Operation};

/// A data directory by its place in the file system.
#[derive(Debug, Clone)]
pub struct Root(Arc<Path>);

impl Root {
    /// The one at `path`.
    pub fn new(path: &Path) -> Self {
        Self(path.into())
    }

    /// Where `path` is in the file system.
    pub fn join(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// The names in a directory, in no order.
    pub fn list(&self, dir: &str) -> Result<Vec<Box<str>>, DiskError> {
        let names = || -> io::Result<Vec<Box<str>>> {
            fs::read_dir(self.join(dir))?
                // A name that isn't text was not given by this node; it is shown as well as it can be.
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into()))
                .collect()
        };
        names().map_err(|error| DiskError::new(Operation::Open, dir, &error))
    }

    /// Makes a directory; one that is there already is no error.
    pub fn create_dir(&self, dir: &str) -> Result<(), DiskError> {
        match fs::create_dir(self.join(dir)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.join(dir).is_dir() => Ok(()),
            made => made.map_err(|error| DiskError::new(Operation::Create, dir, &error)),
        }
    }

    /// Gives a file or a directory another name, in place of a file that has it.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::rename(self.join(from), self.join(to))
            .map_err(|error| DiskError::new(Operation::Rename, from, &error))
    }

    /// Removes a file; one that is gone already is no error.
    pub fn remove(&self, path: &str) -> Result<(), DiskError> {
        removed(path, fs::remove_file(self.join(path)))
    }

    /// Removes a directory and all in it; one that is gone already is no error.
    pub fn remove_dir(&self, dir: &str) -> Result<(), DiskError> {
        removed(dir, fs::remove_dir_all(self.join(dir)))
    }

    /// By `fsync`: what `fdatasync` means for a directory is each file system's own choice.
    pub fn sync_dir(&self, dir: &str) -> Result<(), DiskError> {
        File::open(self.join(dir))
            .and_then(|directory| directory.sync_all())
            .map_err(|error| DiskError::new(Operation::Sync, dir, &error))
    }
}

fn removed(path: &str, result: io::Result<()>) -> Result<(), DiskError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| DiskError::new(Operation::Remove, path, &error)),
    }
}
