//! Series that are written once and read again: their chunks' places, and the numbers of their labels' texts.

use std::path::Path;

use super::BlockWriteError;
use super::memory::WriterMemory;
use super::output::OutputFile;
use super::scratch::{self, ScratchFile, ScratchReader};

/// While it is written: each record with its length, 32 bits, in front.
#[derive(Debug)]
pub(super) struct Spool(OutputFile);

/// Goes through the records.
#[derive(Debug)]
pub(super) struct SpoolRecords<'a> {
    reading: ScratchReader<'a>,
    record: Vec<u8>,
}

impl Spool {
    pub(super) fn create(dir: &Path, memory: WriterMemory) -> Result<Self, BlockWriteError> {
        scratch::create(&dir.join("series.spool"), memory.buffer_bytes()).map(Self)
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.0.at()
    }

    /// Adds a record in parts.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> Result<(), BlockWriteError> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let max = u64::from(u32::MAX);
        let len = u32::try_from(len)
            .map_err(|_large| BlockWriteError::TooMuch { what: "a series' chunks", max })?;
        self.0.put(&len.to_be_bytes())?;
        parts.iter().try_for_each(|part| self.0.put(part))
    }

    pub(super) fn finish(mut self) -> Result<ScratchFile, BlockWriteError> {
        self.0.written()
    }
}

impl<'a> SpoolRecords<'a> {
    pub(super) const fn read(spool: &'a ScratchFile, buffer_bytes: usize) -> Self {
        Self { reading: spool.read(buffer_bytes), record: Vec::new() }
    }

    /// The next record; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, BlockWriteError> {
        if self.reading.is_at_end() {
            return Ok(None);
        }
        self.record.clear();
        self.reading.take_into(4, &mut self.record)?;
        let len = self.record.iter().fold(0, |len: usize, byte| len << 8 | usize::from(*byte));
        self.record.clear();
        self.reading.take_into(len, &mut self.record)?;
        Ok(Some(&self.record))
    }
}
