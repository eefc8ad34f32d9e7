//! A small file system in memory, to be filled to its end.

use std::path::Path;
use std::process::Command;

/// A mount that is taken away again, whatever the test comes to.
#[derive(Debug)]
pub struct Mount<'a> {
    path: &'a Path,
}

impl<'a> Mount<'a> {
    /// Nothing where mounting isn't allowed.
    pub fn tmpfs(path: &'a Path, bytes: usize) -> Option<Self> {
        let size = format!("size={bytes}");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).status();
        status.is_ok_and(|status| status.success()).then_some(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.path
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(self.path).status();
        assert!(std::thread::panicking() || status.is_ok_and(|status| status.success()));
    }
}
