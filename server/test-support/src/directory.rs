//! An empty directory of a test's own, removed when the test is over.

use std::path::{Path, PathBuf};

/// The directory.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Below `parent`: the build's own (`CARGO_TARGET_TMPDIR`) is on a disk, and `/tmp` may be in memory.
    ///
    /// # Panics
    ///
    /// Where it can't be made.
    pub fn new(parent: &str, name: &str) -> Self {
        let path = Path::new(parent).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory of the build's own");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Only a test's leavings, which the next build's tests don't meet.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
