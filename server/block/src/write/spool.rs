//! Records that are written once and read again, some times: what would take too much memory.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::WriteError;
use super::output::{BUFFER_BYTES, Output};

/// While it is written: each record with its length, 32 bits, in front.
#[derive(Debug)]
pub struct Spool(Output);

/// Records that were written.
#[derive(Debug)]
pub struct WrittenSpool {
    path: PathBuf,
    bytes: u64,
}

/// Goes through them.
#[derive(Debug)]
pub struct Records<'a> {
    spool: &'a WrittenSpool,
    file: BufReader<File>,
    left: u64,
    record: Vec<u8>,
}

impl Spool {
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        Output::create(path).map(Self)
    }

    pub const fn written_bytes(&self) -> u64 {
        self.0.at()
    }

    /// Adds a record in parts.
    pub fn put(&mut self, parts: &[&[u8]]) -> Result<(), WriteError> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let max = u64::from(u32::MAX);
        let len =
            u32::try_from(len).map_err(|_large| WriteError::TooMuch { what: "a series' chunks", max })?;
        self.0.put(&len.to_be_bytes())?;
        parts.iter().try_for_each(|part| self.0.put(part))
    }

    pub fn finish(self) -> Result<WrittenSpool, WriteError> {
        let (path, bytes) = self.0.close()?;
        Ok(WrittenSpool { path, bytes })
    }
}

impl WrittenSpool {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<Records<'_>, WriteError> {
        let file = File::open(&self.path).map_err(WriteError::io(&self.path))?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Records { spool: self, file, left: self.bytes, record: Vec::new() })
    }

    pub fn remove(self) -> Result<(), WriteError> {
        std::fs::remove_file(&self.path).map_err(WriteError::io(&self.path))
    }
}

impl Records<'_> {
    /// The next record; `None` after the last.
    pub fn next(&mut self) -> Result<Option<&[u8]>, WriteError> {
        if self.left == 0 {
            return Ok(None);
        }
        let failed = |error| WriteError::io(&self.spool.path)(error);
        let mut len = [0; 4];
        self.file.read_exact(&mut len).map_err(failed)?;
        let len = u32::from_be_bytes(len);
        let ended = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let after = self.left.checked_sub(4 + u64::from(len)).ok_or_else(ended).map_err(failed)?;
        self.left = after;
        self.record.resize(len as usize, 0);
        self.file.read_exact(&mut self.record).map_err(failed)?;
        Ok(Some(&self.record))
    }
}
