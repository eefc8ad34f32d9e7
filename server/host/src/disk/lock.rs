//! The lock of a data directory: one process at a time uses it. The system takes it back when the
//! process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The file in the data directory that is locked; it holds the process id of who has the lock.
const FILE_NAME: &str = "lock";

/// A data directory that no other process uses, as long as this lives.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

/// Why a data directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses it.
    #[error("another silverback{} uses {}", told(pid), directory.display())]
    Held {
        /// The data directory.
        directory: PathBuf,
        /// The other process, when it has said so already.
        pid: Option<u32>,
    },
    /// The lock file can't be made, locked or written.
    #[error("locking {}: {error}", directory.display())]
    Io {
        /// The data directory.
        directory: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

fn told(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

impl DirectoryLock {
    /// Locks the data directory at `root`, or returns at once who has it.
    pub fn take(root: &Path) -> Result<Self, LockError> {
        let failed = |error| LockError::Io { directory: root.into(), error };
        let mut options = OpenOptions::new();
        // Not truncated before it is locked: it may hold the other's process id.
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(root.join(FILE_NAME)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { directory: root.into(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        match writeln!(file, "{}", std::process::id()) {
            Ok(()) => {}
            // The lock holds without the number, which is for people.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { file })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // To close the file isn't enough while a child that was just forked has it, too. Nothing is to be done about an
        // error: the system takes the lock back with the process.
        let _ends_with_the_process = self.file.unlock();
    }
}

fn holder(file: &mut File) -> Option<u32> {
    /// Longer than any process id.
    const BYTES_MAX: u64 = 16;

    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use silverback_test_support::Directory;

    #[test]
    fn a_lock_is_given_back_at_once_also_while_children_are_started() {
        let directory = Directory::new("/tmp", "silverback-lock");
        let children = std::thread::spawn(|| {
            (0..100).for_each(|_| drop(Command::new("true").output().unwrap()));
        });
        let mut taken = 0;
        while !children.is_finished() {
            let lock = DirectoryLock::take(directory.path())
                .unwrap_or_else(|error| panic!("{taken} times, then {error}"));
            drop(lock);
            taken += 1;
        }
        children.join().unwrap();
        assert!(taken > 10, "{taken} times");
    }
}
