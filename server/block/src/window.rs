//! A file that is read through a window: one buffer, filled a bit further than was asked for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{BlockError, BlockErrorKind, BlockSectionError};

/// A file, and the piece of it that is in memory.
#[derive(Debug)]
pub struct FileWindow {
    path: PathBuf,
    file: File,
    file_len: u64,
    read_ahead: usize,
    begins: u64,
    bytes: Vec<u8>,
}

impl FileWindow {
    /// Opens a file. At least `read_ahead` bytes are read at a time.
    pub fn open(path: &Path, read_ahead: usize) -> Result<Self, BlockError> {
        let (file, file_len) = open_with_len(path)?;
        Ok(Self { path: path.to_owned(), file, file_len, read_ahead, begins: 0, bytes: Vec::new() })
    }

    /// The file's.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long it was when it was opened, in bytes.
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Exactly these bytes; `what` they are is said where the file ends before they do.
    pub fn exactly(&mut self, offset: u64, len: usize, what: &'static str) -> Result<&[u8], BlockError> {
        let ends_early = BlockSectionError::new(offset, BlockErrorKind::EndsEarly { what });
        if offset.checked_add(len as u64).is_none_or(|end| end > self.file_len) {
            return Err(ends_early.of(&self.path));
        }
        self.at_most(offset, len)
    }

    /// These bytes, fewer where the file ends.
    pub fn at_most(&mut self, offset: u64, len: usize) -> Result<&[u8], BlockError> {
        let left = self.file_len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        if !self.holds(offset, len) {
            self.fill(offset, len)?;
        }
        let from = (offset - self.begins) as usize;
        Ok(&self.bytes[from..from + len])
    }

    fn holds(&self, offset: u64, len: usize) -> bool {
        let end = self.begins + self.bytes.len() as u64;
        self.begins <= offset && offset.checked_add(len as u64).is_some_and(|wanted| wanted <= end)
    }

    fn fill(&mut self, offset: u64, len: usize) -> Result<(), BlockError> {
        let left = self.file_len.saturating_sub(offset);
        let ahead = usize::try_from(left).unwrap_or(usize::MAX).min(self.read_ahead.max(len));
        self.begins = offset;
        self.bytes.resize(ahead, 0);
        let filled = self.file.read_exact_at(&mut self.bytes, offset);
        filled.map_err(|error| {
            // Half-read bytes are none.
            self.bytes.clear();
            BlockSectionError::new(offset, error).of(&self.path)
        })
    }

    /// Checks the checksum over a stretch of the file, piece by piece.
    pub fn check(&mut self, from: u64, to: u64, sum: u32, what: &'static str) -> Result<(), BlockError> {
        let (mut at, mut actual) = (from, 0);
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(usize::MAX).min(self.read_ahead);
            actual = crc32c::crc32c_append(actual, self.exactly(at, len, what)?);
            at += len as u64;
        }
        if actual == sum {
            return Ok(());
        }
        Err(BlockSectionError::new(from, BlockErrorKind::Checksum { what }).of(&self.path))
    }
}

/// A file, and how long it is.
pub(crate) fn open_with_len(path: &Path) -> Result<(File, u64), BlockError> {
    let open = || {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok((file, len))
    };
    let opened: std::io::Result<_> = open();
    opened.map_err(|error| BlockSectionError::new(0, error).of(path))
}
