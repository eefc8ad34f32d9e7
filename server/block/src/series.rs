//! The index's series: label sets by symbols, and where their chunks are.

use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::toc::Toc;
use crate::window::FileWindow;

/// Every series begins at a multiple of this; its reference is its offset divided by it.
pub(crate) const ALIGNMENT: u64 = 16;
/// One series in bytes: some millions of chunks.
const SERIES_BYTES_MAX: u64 = 64 << 20;
pub(crate) const VARINT_BYTES_MAX: usize = 10;
pub(crate) const WHAT: &str = "a series";

/// Where a chunk is, and the times that it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The time of its first sample.
    pub min_ms: i64,
    /// The time of its last sample.
    pub max_ms: i64,
    /// The file in its upper half, the offset in that in its lower.
    pub reference: u64,
}

/// A series as it stands in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesEntry {
    /// Where in the index it begins.
    pub begins: u64,
    /// Numbers of symbols, of names and values.
    pub labels: Vec<(u64, u64)>,
    /// Times ascending.
    pub chunks: Vec<ChunkPlace>,
}

impl SeriesEntry {
    /// What tombstones and postings call it.
    pub(crate) const fn reference(&self) -> u64 {
        self.begins / ALIGNMENT
    }
}

/// Goes through the series of an index, one after the other.
#[derive(Debug)]
pub(crate) struct SeriesWalk {
    at: u64,
    end: u64,
}

impl SeriesWalk {
    pub(crate) const fn new(toc: &Toc) -> Self {
        Self { at: toc.series, end: toc.series_end }
    }

    /// The next one; `None` at the section's end.
    pub(crate) fn next(&mut self, index: &mut FileWindow) -> Result<Option<SeriesEntry>, BlockError> {
        let Some((begins, len)) = self.step(index)? else { return Ok(None) };
        let path = index.path().to_owned();
        let bytes = index.exactly(begins.content, len + 4, WHAT)?;
        let entry = parse(bytes, begins);
        entry.map(Some).map_err(|error| error.of(&path))
    }

    /// Goes past the next one. `false` at the section's end.
    pub(crate) fn skip(&mut self, index: &mut FileWindow) -> Result<bool, BlockError> {
        Ok(self.step(index)?.is_some())
    }

    /// Where the next one begins, and its length.
    pub(crate) fn step(&mut self, index: &mut FileWindow) -> Result<Option<(Begins, usize)>, BlockError> {
        let entry = self.at.next_multiple_of(ALIGNMENT);
        if entry >= self.end {
            return Ok(None);
        }
        let path = index.path().to_owned();
        let left = usize::try_from(self.end - entry).unwrap_or(usize::MAX);
        let located = locate(index.at_most(entry, VARINT_BYTES_MAX.min(left))?, entry, self.end);
        let (begins, len) = located.map_err(|error| error.of(&path))?;
        self.at = begins.content + len as u64 + 4;
        Ok(Some((begins, len)))
    }
}

/// Where a series begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begins {
    /// Its length.
    entry: u64,
    /// What is counted in that.
    pub content: u64,
}

impl Begins {
    fn check_len(self, len: u64, section_end: u64) -> Result<usize, BlockSectionError> {
        if len > SERIES_BYTES_MAX {
            let problem = BlockErrorKind::TooLarge { what: WHAT, bytes: len, bytes_max: SERIES_BYTES_MAX };
            return Err(BlockSectionError::new(self.entry, problem));
        }
        if self.content + len + 4 > section_end {
            return Err(BlockSectionError::new(self.entry, BlockErrorKind::EndsEarly { what: WHAT }));
        }
        Ok(len as usize)
    }
}

/// Where the content of a series is that begins at `entry`, whose first bytes are `head`, and its length.
pub(crate) fn locate(
    head: &[u8],
    entry: u64,
    section_end: u64,
) -> Result<(Begins, usize), BlockSectionError> {
    let mut head = Cursor::new(head, entry, WHAT);
    let len = head.uvarint()?;
    let begins = Begins { entry, content: head.offset() };
    begins.check_len(len, section_end).map(|len| (begins, len))
}

/// `bytes` are the content and its checksum.
pub(crate) fn parse(bytes: &[u8], begins: Begins) -> Result<SeriesEntry, BlockSectionError> {
    let (content, sum) = bytes.split_at(bytes.len() - 4);
    if sum != crc32c::crc32c(content).to_be_bytes() {
        return Err(BlockSectionError::new(begins.entry, BlockErrorKind::Checksum { what: WHAT }));
    }
    let mut cursor = Cursor::new(content, begins.content, WHAT);
    // The counts aren't trusted with memory: what they count is read one by one.
    let mut labels = Vec::new();
    for _label in 0..cursor.uvarint()? {
        labels.push((cursor.uvarint()?, cursor.uvarint()?));
    }
    let mut chunks = Vec::new();
    for _chunk in 0..cursor.uvarint()? {
        let chunk = read_chunk(&mut cursor, chunks.last())?;
        chunks.push(chunk);
    }
    Ok(SeriesEntry { begins: begins.entry, labels, chunks })
}

/// The first is written whole, the others against the one before.
fn read_chunk(cursor: &mut Cursor, before: Option<&ChunkPlace>) -> Result<ChunkPlace, BlockSectionError> {
    let begins = cursor.offset();
    let overflows = |what| move || BlockSectionError::new(begins, BlockErrorKind::Overflows { what });
    let times = overflows("a chunk's time");
    let min_ms = match before {
        None => cursor.varint()?,
        Some(before) => before.max_ms.checked_add_unsigned(cursor.uvarint()?).ok_or_else(times)?,
    };
    let max_ms = min_ms.checked_add_unsigned(cursor.uvarint()?).ok_or_else(times)?;
    let reference = match before {
        None => cursor.uvarint()?,
        Some(before) => {
            let step = cursor.varint()?;
            before.reference.checked_add_signed(step).ok_or_else(overflows("a chunk's reference"))?
        }
    };
    Ok(ChunkPlace { min_ms, max_ms, reference })
}
