//! Reads a file of frames from its first block on, in large pieces, and judges what it meets.
//!
//! Knows frames, not what is in them, and nothing of the files before and after.

use crate::wal::Lsn;
use crate::wal::frame::{FrameCheck, FrameHeader, FrameKey, check};
use silverback_host::disk::{DiskError, File};

/// Read at a time.
const READ_BYTES: usize = 1 << 20;

/// A file of frames. Frames of another file number don't count: a recycled segment holds them.
#[derive(Debug)]
pub struct FrameReader<F> {
    file: F,
    key: FrameKey,
    file_number: u64,
    block_bytes: u64,
    size: u64,
    /// Where the next frame is looked for.
    at: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

/// What is where a frame was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundFrame<'a> {
    /// A whole frame of this file.
    Frame(FrameHeader, &'a [u8]),
    /// The file's end, zeros, or what is left of the file's former life: nothing was written here,
    /// or nothing that can be known.
    Nothing,
    /// What begins like a frame of this file, with the number of its group, and isn't whole.
    Broken(Lsn),
}

impl<F: File> FrameReader<F> {
    /// Begins after the file's first block.
    pub async fn open(file: F, key: FrameKey, file_number: u64, block_bytes: u64) -> Result<Self, DiskError> {
        let size = file.size_bytes().await?;
        let (buffer, buffer_at) = (Vec::new(), 0);
        Ok(Self { file, key, file_number, block_bytes, size, at: block_bytes, buffer, buffer_at })
    }

    /// Where the next frame is looked for.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What frames begin at multiples of.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    /// The file's size.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What is at the present place. Goes past a frame, and stays before anything else.
    pub async fn next(&mut self) -> Result<FoundFrame<'_>, DiskError> {
        let mut enough = self.block_bytes as usize;
        let bytes_left = self.size.saturating_sub(self.at);
        let (header, payload) = loop {
            self.load(enough).await?;
            let bytes = self.loaded();
            match check(self.key, self.file_number, bytes, bytes_left) {
                FrameCheck::Whole { header, payload } => break (header, payload),
                // More is loaded once: a file that gives less has become shorter.
                FrameCheck::NeedsBytes(total) if total > enough => enough = total,
                FrameCheck::Nothing => return Ok(FoundFrame::Nothing),
                FrameCheck::NeedsBytes(_) | FrameCheck::Invalid => return Ok(self.judge_invalid()),
            }
        };
        let begins = (self.at - self.buffer_at) as usize;
        self.at = self.at.saturating_add((payload.end as u64).next_multiple_of(self.block_bytes));
        Ok(FoundFrame::Frame(header, &self.buffer[begins + payload.start..begins + payload.end]))
    }

    /// Goes on at the next block, to look for a frame there. False at the file's end.
    pub fn skip_block(&mut self) -> bool {
        self.at = self.at.saturating_add(self.block_bytes);
        self.at < self.size
    }

    /// The bytes that are loaded from the present place on.
    fn loaded(&self) -> &[u8] {
        let loaded = self.buffer_at..self.buffer_at + self.buffer.len() as u64;
        if loaded.contains(&self.at) { &self.buffer[(self.at - self.buffer_at) as usize..] } else { &[] }
    }

    /// Loads so many bytes from the present place, as far as the file goes.
    async fn load(&mut self, enough: usize) -> Result<(), DiskError> {
        let left = usize::try_from(self.size.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if self.loaded().len() >= enough.min(left) {
            return Ok(());
        }
        self.buffer_at = self.at;
        self.file.read_at(self.at, enough.max(READ_BYTES).min(left), &mut self.buffer).await
    }

    /// Bytes of a former life mean as little as zeros. A header that names this file was written to
    /// it, whatever became of the rest.
    fn judge_invalid(&self) -> FoundFrame<'static> {
        match FrameHeader::peek(self.loaded()) {
            Some(header) if header.file_number == self.file_number => FoundFrame::Broken(header.group),
            Some(_) | None => FoundFrame::Nothing,
        }
    }

    /// Closes the file.
    pub async fn close(self) -> Result<(), DiskError> {
        self.file.close().await
    }
}
