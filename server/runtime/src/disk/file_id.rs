//! Which file a path leads to, to learn whether it is still the same one.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file among all of the machine, as long as somebody has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Of the file at `path`; `None` where there is none.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match path.metadata() {
            Ok(found) => Ok(Some(Self { device: found.dev(), inode: found.ino() })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_whose_directory_was_moved_replaced_or_removed_is_another_one_or_none() {
        let root = std::env::temp_dir().join(format!("silverback-file-id-{}", std::process::id()));
        let (dir, other) = (root.join("dir"), root.join("other"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        let id = || FileId::of(&dir.join("file")).unwrap();
        let first = id();
        assert!(first.is_some() && id() == first);
        fs::rename(&dir, &other).unwrap();
        assert_eq!(id(), None);
        fs::write(&dir, "no directory").unwrap();
        assert_eq!(id(), None);
        fs::remove_file(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        assert!(id().is_some() && id() != first);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(id(), None);
    }
}
