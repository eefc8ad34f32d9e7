//! An empty directory of a test's own, removed when the test is over.

use std::path::{Path, PathBuf};

/// The directory.
pub struct Directory(PathBuf);

impl Directory {
    /// Below the build's own, which is on a disk: `/tmp` may be in memory.
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
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
