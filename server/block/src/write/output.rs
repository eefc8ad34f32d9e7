//! A file that is written from its begin to its end, with checksums over pieces of it.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::WriteError;

/// What waits in memory to be written.
pub const BUFFER_BYTES: usize = 256 << 10;

/// A new file.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    out: BufWriter<File>,
    at: u64,
    sum: u32,
}

impl Output {
    /// Makes it; one that is there already is a fault. It can be read, too.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(WriteError::io(path))?;
        Ok(Self { path: path.to_owned(), out: BufWriter::with_capacity(BUFFER_BYTES, file), at: 0, sum: 0 })
    }

    /// How much has been written, in bytes.
    pub const fn at(&self) -> u64 {
        self.at
    }

    pub fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(WriteError::io(&self.path))
    }

    /// What comes from here on is summed.
    pub const fn begin_sum(&mut self) {
        self.sum = 0;
    }

    /// Writes the sum over what came since.
    pub fn put_sum(&mut self) -> Result<(), WriteError> {
        self.put(&self.sum.to_be_bytes())
    }

    /// Writes zeros up to a multiple.
    pub fn align(&mut self, to: u64) -> Result<(), WriteError> {
        const ZEROS: [u8; 16] = [0; 16];
        let missing = self.at.next_multiple_of(to) - self.at;
        self.put(&ZEROS[..missing as usize])
    }

    /// Makes durable what came until now.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_data());
        synced.map_err(WriteError::io(&self.path))
    }

    /// Makes it durable, and says how long it is in bytes.
    pub fn finish(self) -> Result<u64, WriteError> {
        let Self { path, out, at, .. } = self;
        let file = out.into_inner().map_err(|error| WriteError::io(&path)(error.into_error()))?;
        file.sync_all().map_err(WriteError::io(&path))?;
        Ok(at)
    }

    /// Hands all of it to the system, which keeps it as long as it runs. What it is called, and its length in bytes.
    pub fn close(self) -> Result<(PathBuf, u64), WriteError> {
        let Self { path, mut out, at, .. } = self;
        out.flush().map_err(WriteError::io(&path))?;
        Ok((path, at))
    }
}

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<(), WriteError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(WriteError::io(dir))
}
