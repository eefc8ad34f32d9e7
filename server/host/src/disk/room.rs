//! How much room a file system has, and a place where all cores read what was last seen of it. Who asks,
//! and when, is not known here.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};

use crate::counters;

counters! {
    /// The room of the file system that the data directory is on. What is kept for the superuser isn't free.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct FileSystemRoom {
        /// What the file system of the data directory holds, whoever uses it.
        size_bytes: u64 => Gauge "silverback_disk_size_bytes",
        /// What of that the node may still fill.
        free_bytes: u64 => Gauge "silverback_disk_free_bytes",
    }
}

impl FileSystemRoom {
    /// Of the file system that a path is on. Takes as long as the file system does, which is forever
    /// where it hangs: not for an executor.
    pub fn of(path: &Path) -> io::Result<Self> {
        let told = statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(told.fragment_size());
        Ok(Self { size_bytes: bytes(told.blocks()), free_bytes: bytes(told.blocks_available()) })
    }
}

/// What was last seen. Written every few seconds by one core, read by whichever is asked for it.
#[derive(Debug, Default)]
pub struct RoomSeen {
    /// 0: nothing is known.
    size_bytes: AtomicU64,
    free_bytes: AtomicU64,
}

impl RoomSeen {
    /// Notes what was seen; `None`: it can't be read any more.
    pub fn set(&self, room: Option<FileSystemRoom>) {
        let FileSystemRoom { size_bytes, free_bytes } = room.unwrap_or_default();
        // A reader between the two sees sizes of two moments, and each is true of one.
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
    }

    /// `None` where nothing is known. A file system without a size, as some made up by the kernel are, is
    /// none that fills up.
    pub fn get(&self) -> Option<FileSystemRoom> {
        let size_bytes = self.size_bytes.load(Ordering::Relaxed);
        let free_bytes = self.free_bytes.load(Ordering::Relaxed);
        (size_bytes > 0).then_some(FileSystemRoom { size_bytes, free_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{families, render};

    #[test]
    fn a_file_system_has_a_size_and_no_more_room_than_that() {
        let room = FileSystemRoom::of(&std::env::temp_dir()).unwrap();
        assert!(room.size_bytes > 1 << 20 && room.free_bytes <= room.size_bytes, "{room:?}");
        assert!(FileSystemRoom::of(Path::new("/proc/no such directory")).is_err());
    }

    #[test]
    fn what_was_seen_is_told_until_it_cannot_be_seen_any_more() {
        let seen = RoomSeen::default();
        assert_eq!(seen.get(), None);
        let room = FileSystemRoom { size_bytes: 100, free_bytes: 0 };
        seen.set(Some(room));
        assert_eq!(seen.get(), Some(room), "a full disk is one");
        seen.set(None);
        assert_eq!(seen.get(), None);
    }

    #[test]
    fn its_room_has_metrics() {
        let room = FileSystemRoom { size_bytes: 300, free_bytes: 20 };
        let text = render(&families(FileSystemRoom::METRICS, &room).collect::<Vec<_>>());
        assert!(text.contains("\nsilverback_disk_size_bytes 300\n"), "{text}");
        assert!(text.contains("\nsilverback_disk_free_bytes 20\n"), "{text}");
    }
}
