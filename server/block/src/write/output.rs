//! A file that is written from its begin to its end, with checksums over pieces of it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::BlockWriteError;
use super::scratch::ScratchFile;

/// A new file.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
    /// What waits to be written after what was.
    buffer: Vec<u8>,
    buffer_bytes: usize,
    written: u64,
    /// Of it, what was made durable on the way.
    synced: u64,
    sum: u32,
}

/// Where a section begins whose length and count come once all of it is there.
#[derive(Debug)]
#[must_use = "a section without its end has no length"]
pub(super) struct Section {
    at: u64,
    what: &'static str,
}

/// After so many bytes what came is made durable, so that no sync has much to write: commits share the disk with it.
const SYNC_EVERY_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 16 << 20 };
/// A section's length and its count, in front of it.
const SECTION_HEAD_BYTES: u64 = 8;

impl OutputFile {
    /// Makes it; one that is there already is a fault. It can be read, too. So many bytes wait in memory at most.
    pub(super) fn create(path: &Path, buffer_bytes: usize) -> Result<Self, BlockWriteError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(BlockWriteError::io(path))?;
        let buffer = Vec::with_capacity(buffer_bytes);
        Ok(Self { path: path.to_owned(), file, buffer, buffer_bytes, written: 0, synced: 0, sum: 0 })
    }

    /// How much has been put, in bytes.
    pub(super) const fn at(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), BlockWriteError> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        if self.buffer.len() + bytes.len() > self.buffer_bytes {
            self.flush()?;
        }
        if bytes.len() > self.buffer_bytes {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// What comes from here on is summed.
    pub(super) const fn begin_sum(&mut self) {
        self.sum = 0;
    }

    /// Writes the sum over what came since.
    pub(super) fn put_sum(&mut self) -> Result<(), BlockWriteError> {
        self.put(&self.sum.to_be_bytes())
    }

    /// Begins a section of what there is `what` of, which an error names where there is too much: `u32 length | u32 count | … |
    /// u32 sum`.
    pub(super) fn begin_section(&mut self, what: &'static str) -> Result<Section, BlockWriteError> {
        let at = self.at();
        self.put(&[0; SECTION_HEAD_BYTES as usize])?;
        self.begin_sum();
        Ok(Section { at, what })
    }

    /// Ends it: it has so many of what it counts.
    pub(super) fn end_section(&mut self, section: Section, count: u64) -> Result<(), BlockWriteError> {
        let Section { at, what } = section;
        let content_bytes = self.at() - at - SECTION_HEAD_BYTES;
        let max = u64::from(u32::MAX);
        let of_32_bits =
            |value| u32::try_from(value).map_err(|_large| BlockWriteError::TooMuch { what, max });
        let (len, count) = (of_32_bits(content_bytes + 4)?, of_32_bits(count)?.to_be_bytes());
        if let Some(begin) = at.checked_sub(self.written) {
            // Short ones, of which there are many: cheaper than to combine two sums.
            let (length_at, count_at) = (begin as usize, begin as usize + 4);
            self.buffer[length_at..count_at].copy_from_slice(&len.to_be_bytes());
            self.buffer[count_at..count_at + 4].copy_from_slice(&count);
            self.sum = crc32c::crc32c(&self.buffer[count_at..]);
        } else {
            self.flush()?;
            let head = [len.to_be_bytes(), count].concat();
            self.file.write_all_at(&head, at).map_err(BlockWriteError::io(&self.path))?;
            self.sum = crc32c::crc32c_combine(crc32c::crc32c(&count), self.sum, content_bytes as usize);
        }
        self.put_sum()
    }

    /// Writes zeros up to a multiple.
    pub(super) fn align(&mut self, to: u64) -> Result<(), BlockWriteError> {
        const ZEROS: [u8; 16] = [0; 16];
        let missing = self.at().next_multiple_of(to) - self.at();
        self.put(&ZEROS[..missing as usize])
    }

    /// Makes durable what came until now.
    pub(super) fn sync(&mut self) -> Result<(), BlockWriteError> {
        self.flush()?;
        self.synced = self.written;
        self.file.sync_data().map_err(BlockWriteError::io(&self.path))
    }

    /// The same, where that is much.
    pub(super) fn sync_much(&mut self) -> Result<(), BlockWriteError> {
        if self.written - self.synced > SYNC_EVERY_BYTES { self.sync() } else { Ok(()) }
    }

    /// Makes it durable, and says how long it is in bytes.
    pub(super) fn finish(mut self) -> Result<u64, BlockWriteError> {
        self.flush()?;
        self.file.sync_all().map_err(BlockWriteError::io(&self.path))?;
        Ok(self.at())
    }

    /// Hands what came until now to the system, to be read while more comes.
    pub(super) fn written(&mut self) -> Result<ScratchFile, BlockWriteError> {
        self.flush()?;
        let file = self.file.try_clone().map_err(BlockWriteError::io(&self.path))?;
        Ok(ScratchFile::new(self.path.clone(), file, self.written))
    }

    fn flush(&mut self) -> Result<(), BlockWriteError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let flushed = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        flushed
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BlockWriteError> {
        self.file.write_all(bytes).map_err(BlockWriteError::io(&self.path))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), BlockWriteError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(BlockWriteError::io(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buffer_bytes: usize, content: &[&[u8]], count: u64) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a");
        let mut output = OutputFile::create(&path, buffer_bytes).unwrap();
        output.put(b"before").unwrap();
        let section = output.begin_section("a test").unwrap();
        content.iter().for_each(|bytes| output.put(bytes).unwrap());
        output.end_section(section, count).unwrap();
        output.put(b"after").unwrap();
        let mut own = (count as u32).to_be_bytes().to_vec();
        own.extend(content.concat());
        let len = (own.len() as u32).to_be_bytes();
        let sum = crc32c::crc32c(&own).to_be_bytes();
        assert_eq!(output.finish().unwrap(), (6 + 4 + own.len() + 4 + 5) as u64);
        assert_eq!(std::fs::read(path).unwrap(), [b"before", &len[..], &own, &sum, b"after"].concat());
    }

    #[test]
    fn a_section_has_its_length_count_and_sum_whether_it_waits_in_memory_or_is_written() {
        for buffer_bytes in [0, 1, 7, 8, 13, 14, 15, 20, 40, 1000] {
            check(buffer_bytes, &[], 0);
            check(buffer_bytes, &[b"ab", b"", b"cdefghijklmnop", b"q"], 4);
            check(buffer_bytes, &[&[7; 300], b"x"], 301);
        }
    }

    #[test]
    fn a_section_of_more_than_its_count_holds_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let mut output = OutputFile::create(&scratch.path().join("a"), 64).unwrap();
        let section = output.begin_section("the lists").unwrap();
        let fault = output.end_section(section, 1 << 32).unwrap_err();
        assert_eq!(fault.to_string(), "the lists of a block are more than 4294967295");
    }
}
