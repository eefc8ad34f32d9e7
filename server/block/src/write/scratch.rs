//! Files that a writer writes, reads again and needs no longer: they have no name from their begin on, so that nothing is
//! left of them however it ends.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::BlockWriteError;
use super::output::OutputFile;
use crate::error::{BlockErrorKind, BlockSectionError};

/// Makes one. Errors name it by where it was made.
pub(super) fn create(path: &Path, buffer_bytes: usize) -> Result<OutputFile, BlockWriteError> {
    let output = OutputFile::create(path, buffer_bytes)?;
    std::fs::remove_file(path).map_err(BlockWriteError::io(path))?;
    Ok(output)
}

/// What has been written of a file.
#[derive(Debug)]
pub(super) struct ScratchFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// Reads a piece of it from its begin to its end.
#[derive(Debug)]
pub(super) struct ScratchReader<'a> {
    of: &'a ScratchFile,
    /// How far the buffer reaches in the file, and how far the piece does.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Of the buffer, what was taken.
    taken: usize,
    buffer_bytes: usize,
}

impl ScratchFile {
    pub(super) const fn new(path: PathBuf, file: File, bytes: u64) -> Self {
        Self { path, file, bytes }
    }

    /// Where it was made.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads all of it, so many bytes at a time.
    pub(super) const fn read(&self, buffer_bytes: usize) -> ScratchReader<'_> {
        self.read_piece(0, self.bytes, buffer_bytes)
    }

    /// Reads from one place to another.
    pub(super) const fn read_piece(&self, from: u64, to: u64, buffer_bytes: usize) -> ScratchReader<'_> {
        ScratchReader { of: self, at: from, end: to, buffer: Vec::new(), taken: 0, buffer_bytes }
    }
}

impl ScratchReader<'_> {
    pub(super) const fn is_at_end(&self) -> bool {
        self.taken == self.buffer.len() && self.at == self.end
    }

    /// The next bytes, some of them, and no more than so many; none only at the end.
    pub(super) fn some(&mut self, max: usize) -> Result<&[u8], BlockWriteError> {
        if self.taken == self.buffer.len() && self.at < self.end {
            self.fill()?;
        }
        let from = self.taken;
        self.taken = self.buffer.len().min(from.saturating_add(max));
        Ok(&self.buffer[from..self.taken])
    }

    /// Puts the next bytes, so many, after those that are there.
    pub(super) fn take_into(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<(), BlockWriteError> {
        let mut left = bytes;
        while left > 0 {
            let some = self.some(left)?;
            if some.is_empty() {
                return Err(self.ended());
            }
            out.extend_from_slice(some);
            left -= some.len();
        }
        Ok(())
    }

    /// Goes past so many bytes.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), BlockWriteError> {
        let held = (self.buffer.len() - self.taken) as u64;
        if bytes <= held {
            self.taken += bytes as usize;
            return Ok(());
        }
        let to = self.at.checked_add(bytes - held).filter(|to| *to <= self.end);
        self.at = to.ok_or_else(|| self.ended())?;
        self.taken = self.buffer.len();
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, BlockWriteError> {
        if self.taken == self.buffer.len() {
            if self.at == self.end {
                return Err(self.ended());
            }
            self.fill()?;
        }
        self.taken += 1;
        Ok(self.buffer[self.taken - 1])
    }

    /// A number as [`super::put_uvarint`] writes it.
    pub(super) fn uvarint(&mut self) -> Result<u64, BlockWriteError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong(BlockErrorKind::VarintTooLong))
    }

    /// The same, of 32 bits.
    pub(super) fn uvarint_32(&mut self, what: &'static str) -> Result<u32, BlockWriteError> {
        let value = self.uvarint()?;
        u32::try_from(value).map_err(|_large| self.wrong(BlockErrorKind::Overflows { what }))
    }

    /// What is wrong where it is.
    pub(super) fn wrong(&self, problem: BlockErrorKind) -> BlockWriteError {
        let at = self.at - (self.buffer.len() - self.taken) as u64;
        BlockSectionError::new(at, problem).of(&self.of.path).into()
    }

    fn ended(&self) -> BlockWriteError {
        BlockWriteError::io(&self.of.path)(Error::from(ErrorKind::UnexpectedEof))
    }

    fn fill(&mut self) -> Result<(), BlockWriteError> {
        let len = (self.end - self.at).min(self.buffer_bytes.max(1) as u64);
        self.buffer.resize(len as usize, 0);
        self.taken = self.buffer.len();
        self.of.file.read_exact_at(&mut self.buffer, self.at).map_err(BlockWriteError::io(&self.of.path))?;
        self.at += len;
        self.taken = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::put_uvarint;

    #[test]
    fn what_was_written_is_read_again_in_pieces_and_has_no_name() {
        let scratch = tempfile::tempdir().unwrap();
        let mut output = create(&scratch.path().join("a"), 3).unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        let mut bytes = Vec::new();
        put_uvarint(&mut bytes, u64::MAX);
        put_uvarint(&mut bytes, 5);
        bytes.extend_from_slice(b"hello, world");
        output.put(&bytes).unwrap();
        let written = output.written().unwrap();
        for buffer_bytes in [0, 1, 4, 100] {
            let mut reading = written.read(buffer_bytes);
            assert_eq!((reading.uvarint().unwrap(), reading.uvarint_32("a test").unwrap()), (u64::MAX, 5));
            let mut taken = Vec::new();
            reading.take_into(5, &mut taken).unwrap();
            reading.skip(2).unwrap();
            assert!(!reading.is_at_end());
            reading.take_into(5, &mut taken).unwrap();
            assert_eq!(taken, b"helloworld");
            assert!(reading.is_at_end() && reading.some(9).unwrap().is_empty());
            for fault in [reading.take_into(1, &mut taken), reading.skip(1), reading.uvarint().map(drop)] {
                assert!(matches!(fault, Err(BlockWriteError::Io { .. })), "{fault:?}");
            }
            let fault = written.read(buffer_bytes).uvarint_32("a test").unwrap_err();
            assert!(fault.to_string().contains("a test overflows"), "{fault}");
            let mut of_piece = written.read_piece(11, 13, buffer_bytes);
            taken.clear();
            assert!(of_piece.take_into(3, &mut taken).is_err());
            assert_eq!(taken, b"he");
        }
    }
}
