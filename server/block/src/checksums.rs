//! Whether the bytes of a block are those that were written: all checksums of its index, and of each chunk that a series
//! of it names. Goes on by steps, so that whoever has them made may wait between two of them, and holds little whatever
//! the block is. Decodes no sample: [`verify`](crate::verify()) does.

use std::path::Path;
use std::vec;

use crate::chunks::ChunkFiles;
use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::open::{TABLE, entry_at};
use crate::series::{self, ChunkPlace, SeriesWalk};
use crate::toc::Toc;
use crate::window::FileWindow;

/// Of a file, so much is held.
const READ_AHEAD: usize = 1 << 20;
const POSTINGS_READ_AHEAD: usize = 256 << 10;
/// A series in bytes, to be looked into: one has a chunk for each minute or two.
const SERIES_BYTES_MAX: u64 = 4 << 20;

/// One reading of a block that compares all checksums.
#[derive(Debug)]
pub struct ChecksumPass {
    toc: Toc,
    index: FileWindow,
    chunks: ChunkFiles,
    stage: Stage,
}

/// What is read next.
#[derive(Debug)]
enum Stage {
    Symbols(Stretch),
    Series { walk: SeriesWalk, chunks: vec::IntoIter<ChunkPlace> },
    PostingsTable(Stretch),
    Postings(Box<Lists>),
    Done,
}

/// The lists of postings that the table names.
#[derive(Debug)]
struct Lists {
    window: FileWindow,
    /// Where the next entry of the table begins, and where they end.
    at: u64,
    end: u64,
    entries_left: u64,
    list: Option<Stretch>,
}

impl ChecksumPass {
    /// Opens the block in `dir`, and checks the head of its index and its table of contents.
    pub fn open(dir: &Path) -> Result<Self, BlockError> {
        let mut index = FileWindow::open(&dir.join("index"), READ_AHEAD)?;
        let toc = Toc::read(&mut index)?;
        let chunks = ChunkFiles::list(&dir.join("chunks"))?;
        let symbols = Stretch::open(&mut index, toc.symbols, "the symbols")?;
        Ok(Self { toc, index, chunks, stage: Stage::Symbols(symbols) })
    }

    /// Reads on, some `bytes` or a little more. How many it were; `None`: nothing is left, and all is as it was written.
    pub fn step(&mut self, bytes: u64) -> Result<Option<u64>, BlockError> {
        let mut read = 0;
        while read < bytes {
            match self.piece(bytes - read)? {
                Some(piece) => read += piece,
                None => return Ok(None),
            }
        }
        Ok(Some(read))
    }

    fn piece(&mut self, bytes: u64) -> Result<Option<u64>, BlockError> {
        let Self { toc, index, chunks: files, stage } = self;
        match stage {
            Stage::Symbols(symbols) => {
                let read = symbols.step(index, bytes)?;
                if symbols.is_at_end() {
                    *stage = Stage::Series { walk: SeriesWalk::new(toc), chunks: Vec::new().into_iter() };
                }
                Ok(Some(read))
            }
            Stage::Series { walk, chunks } => {
                if let Some(place) = chunks.next() {
                    return files.check(place).map(Some);
                }
                let Some((read, places)) = series_of(walk, index)? else {
                    *stage = Stage::PostingsTable(Stretch::open(index, toc.postings_table, TABLE)?);
                    return Ok(Some(0));
                };
                *chunks = places.into_iter();
                Ok(Some(read))
            }
            Stage::PostingsTable(table) => {
                let read = table.step(index, bytes)?;
                if table.is_at_end() {
                    *stage = Stage::Postings(Box::new(Lists::open(index, toc)?));
                }
                Ok(Some(read))
            }
            Stage::Postings(lists) => {
                let read = lists.step(index, bytes)?;
                if read.is_none() {
                    *stage = Stage::Done;
                }
                Ok(read)
            }
            Stage::Done => Ok(None),
        }
    }
}

/// Checks the next series: its length, and where its chunks are.
fn series_of(
    walk: &mut SeriesWalk,
    index: &mut FileWindow,
) -> Result<Option<(u64, Vec<ChunkPlace>)>, BlockError> {
    let Some((begins, len)) = walk.step(index)? else { return Ok(None) };
    let end = begins.content + len as u64;
    let path = index.path().to_owned();
    // Before it is held: its length may be what is damaged.
    let sum = sum_at(index, end, series::WHAT)?;
    index.check(begins.content, end, sum, series::WHAT)?;
    if len as u64 > SERIES_BYTES_MAX {
        let problem =
            BlockErrorKind::TooLarge { what: series::WHAT, bytes: len as u64, bytes_max: SERIES_BYTES_MAX };
        return Err(BlockSectionError::new(begins.content, problem).of(&path));
    }
    let entry = series::parse(index.exactly(begins.content, len + 4, series::WHAT)?, begins);
    let entry = entry.map_err(|error| error.of(&path))?;
    Ok(Some((len as u64 + 4, entry.chunks)))
}

impl Lists {
    fn open(index: &mut FileWindow, toc: &Toc) -> Result<Self, BlockError> {
        let path = index.path().to_owned();
        let begins = toc.postings_table;
        let mut head = Cursor::new(index.exactly(begins, 8, TABLE)?, begins, TABLE);
        let read = head.u32().and_then(|len| Ok((len, head.u32()?)));
        let (len, entries) = read.map_err(|error| error.of(&path))?;
        let window = FileWindow::open(&path, POSTINGS_READ_AHEAD)?;
        let end = begins + 4 + u64::from(len);
        Ok(Self { window, at: begins + 8, end, entries_left: entries.into(), list: None })
    }

    fn step(&mut self, index: &mut FileWindow, bytes: u64) -> Result<Option<u64>, BlockError> {
        if let Some(list) = &mut self.list {
            let read = list.step(&mut self.window, bytes)?;
            if list.is_at_end() {
                self.list = None;
            }
            return Ok(Some(read));
        }
        if self.entries_left == 0 {
            return Ok(None);
        }
        self.entries_left -= 1;
        let (entry, next) = entry_at(index, self.at, self.end)?;
        let begins = entry.list;
        let read = next - self.at;
        self.at = next;
        self.list = Some(Stretch::open(&mut self.window, begins, "postings")?);
        Ok(Some(read))
    }
}

/// A section or a list: its length, its content, and the checksum of that.
#[derive(Debug)]
struct Stretch {
    begins: u64,
    at: u64,
    end: u64,
    sum: u32,
    wanted: u32,
    what: &'static str,
}

impl Stretch {
    fn open(window: &mut FileWindow, begins: u64, what: &'static str) -> Result<Self, BlockError> {
        let at = begins.checked_add(4);
        let at = at.ok_or_else(|| {
            BlockSectionError::new(begins, BlockErrorKind::EndsEarly { what }).of(window.path())
        })?;
        let end = at + u64::from(sum_at(window, begins, what)?);
        let wanted = sum_at(window, end, what)?;
        Ok(Self { begins, at, end, sum: 0, wanted, what })
    }

    const fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Reads on, and compares the checksum at the end.
    fn step(&mut self, window: &mut FileWindow, bytes: u64) -> Result<u64, BlockError> {
        let piece = (self.end - self.at).min(bytes).min(POSTINGS_READ_AHEAD as u64);
        self.sum = crc32c::crc32c_append(self.sum, window.exactly(self.at, piece as usize, self.what)?);
        self.at += piece;
        if self.is_at_end() && self.sum != self.wanted {
            let problem = BlockErrorKind::Checksum { what: self.what };
            return Err(BlockSectionError::new(self.begins, problem).of(window.path()));
        }
        Ok(piece)
    }
}

/// Four bytes, big endian: a length or a checksum.
fn sum_at(window: &mut FileWindow, at: u64, what: &'static str) -> Result<u32, BlockError> {
    let read = Cursor::new(window.exactly(at, 4, what)?, at, what).u32();
    read.map_err(|error| error.of(window.path()))
}
