//! Reading the files, and noting what each was like when it was read: by that it is seen whether one has changed since.

use std::collections::BTreeMap;
use std::fs::metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use silverback_host::read_named_text;

use super::error::AccessError;

/// Such files are small; a larger one isn't one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What tells one state of a file from another: where it is, its length, when it was written; `None`: it isn't there.
pub(super) type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The files that were read, as they were just before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FileStamps {
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl FileStamps {
    /// The text of a file.
    pub(super) fn text(&mut self, path: &Path) -> Result<String, AccessError> {
        // Before it is read: what is written meanwhile is another state.
        self.stamps.insert(path.to_owned(), stamp(path));
        let unreadable = |error: io::Error| AccessError::new(path, format!("it can't be read: {error}"));
        read_named_text(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => AccessError::new(path, "it is larger than 1 MiB"),
            _other => unreadable(error),
        })
    }

    /// The text of a file that a field of another one names. What is no file's name isn't shown: it may be what should
    /// are in that file.
    pub(super) fn text_named(
        &mut self,
        naming: &Path,
        field: &str,
        name: &str,
    ) -> Result<String, AccessError> {
        let path = naming.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let text = self.text(&path);
        match self.stamps.get(&path) {
            Some(Some(_stamp)) => text,
            Some(None) | None => text.map_err(|_unshown| {
                let wrong = "it names no file that can be read (relative to this one)";
                AccessError::new(naming, format_args!("{field}: {wrong}"))
            }),
        }
    }

    /// The same files as they are now.
    pub(super) fn looked_at_again(&self) -> Self {
        Self { stamps: self.stamps.keys().map(|path| (path.clone(), stamp(path))).collect() }
    }

    /// Takes in files that another reading has come to and this one hasn't.
    pub(super) fn add_missing(&mut self, other: &Self) {
        for (path, stamp) in &other.stamps {
            self.stamps.entry(path.clone()).or_insert(*stamp);
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}
