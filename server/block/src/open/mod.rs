//! A block of which any part is read, as reads ask for it: postings by labels, series by postings, chunks by their places.
//! Nothing is mapped into memory: a thread that reads waits for the disk in a call that can be seen, and what is held is
//! bounded by a [`BlockCache`].
//!
//! Trusts no byte. The table of contents and the tombstones are checked when the block is opened; symbols and the table of
//! postings in the one pass that makes the [`Tables`] of them, before anything is looked up; each list of postings, each
//! series and each chunk whenever it is read, so that a disk that changes its mind is found out. Knows no matcher: a caller
//! looks at values, and takes the lists of those that it wants.

mod cache;
mod file;
mod tables;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roaring::RoaringBitmap;

pub use cache::{BlockCache, CacheCounts};
pub(crate) use tables::{TABLE, entry_at};

use self::cache::{CacheEntry, CachePart, Key};
use self::file::PagedFile;
use self::tables::{Name, Tables, read_entry};
use crate::chunks::{self, Contents};
use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::meta::Meta;
use crate::series::{self, ALIGNMENT, ChunkPlace, SeriesEntry};
use crate::toc::{HEAD_BYTES, TOC_BYTES, Toc, check_head, parse};
use crate::tombstones::{DeletedRange, Tombstones};

const POSTINGS: &str = "postings";
const SYMBOL: &str = "a symbol";
/// Postings that are read at a time.
const POSTINGS_PIECE: usize = 16 << 10;
const POSTING_BYTES: usize = 4;

/// An open block. It stays readable when its directory is removed.
#[derive(Debug)]
pub struct OpenBlock {
    dir: PathBuf,
    meta: Meta,
    index: PagedFile,
    toc: Toc,
    chunks: Vec<PagedFile>,
    tombstones: Tombstones,
}

/// Where a list of postings begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingsPlace(u64);

/// Numbers of symbols: a label's name and its value.
pub type LabelNumbers = (u64, u64);

impl OpenBlock {
    /// Opens the block in `dir`, and checks what all of it hangs on.
    pub fn open(dir: &Path, cache: &Arc<BlockCache>) -> Result<Self, BlockError> {
        let meta = Meta::read(dir)?;
        let index = PagedFile::open(&dir.join("index"), cache)?;
        let toc = read_toc(&index).map_err(|error| error.of(index.path()))?;
        let mut chunks = Vec::new();
        for path in chunks::list(&dir.join("chunks"))? {
            let file = PagedFile::open(&path, cache)?;
            let mut head = Vec::new();
            let read = file.read(0, chunks::HEAD_BYTES, "the head", &mut head);
            let checked = read.and_then(|()| chunks::check_head(&head));
            checked.map_err(|error| error.of(&path))?;
            chunks.push(file);
        }
        let tombstones = Tombstones::read(&dir.join("tombstones"))?;
        Ok(Self { dir: dir.to_owned(), meta, index, toc, chunks, tombstones })
    }

    /// Where it was opened.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it says of itself.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What a set of its series takes at most, in bytes: a bit for each reference, and something for each 65,536.
    pub const fn set_bytes_max(&self) -> usize {
        let references = (self.toc.series_end - self.toc.series) / ALIGNMENT;
        (references / 8 + references / 1024 + 128) as usize
    }

    /// Whether nothing of it was deleted.
    pub fn is_whole(&self) -> bool {
        self.tombstones.is_empty()
    }

    /// What was deleted of a series.
    pub fn deleted(&self, series: u32) -> &[DeletedRange] {
        self.tombstones.of_series(u64::from(series))
    }

    /// Deletes a range of these series for good. What is open already keeps what it had: opened again the block has
    /// it no longer.
    pub fn delete(&self, series: &RoaringBitmap, range: DeletedRange) -> Result<(), BlockError> {
        let mut tombstones = self.tombstones.clone();
        series.iter().for_each(|series| tombstones.add(u64::from(series), range));
        tombstones.write(&self.dir)
    }

    /// The names of labels, ascending.
    pub fn label_names(&self, mut visit: impl FnMut(&str)) -> Result<(), BlockError> {
        self.tables()?.names.iter().skip(1).for_each(|name| visit(&name.text));
        Ok(())
    }

    /// The values of a label, ascending, each with its postings, until `visit` wants no more.
    pub fn label_values(
        &self,
        name: &str,
        mut visit: impl FnMut(&str, PostingsPlace) -> bool,
    ) -> Result<(), BlockError> {
        let tables = self.tables()?;
        let Some(name) = named(&tables, name) else { return Ok(()) };
        let mut piece = Vec::new();
        for place in name.entries.clone() {
            let goes_on =
                self.visit_entries(&tables, name, place, &mut piece, |value, place| visit(value, place))?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Where the postings of a label are; `None`: no series has it.
    pub fn find(&self, name: &str, value: &str) -> Result<Option<PostingsPlace>, BlockError> {
        let tables = self.tables()?;
        let Some(name) = named(&tables, name) else { return Ok(None) };
        let (mut low, mut high) = (name.entries.start, name.entries.end);
        let mut piece = Vec::new();
        // The last place whose value isn't greater: there or after it the value is, if anywhere.
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let mut first = None;
            self.visit_entries(&tables, name, middle, &mut piece, |found, _| {
                first = Some(found <= value);
                false
            })?;
            if first == Some(true) { low = middle } else { high = middle }
        }
        let mut found = None;
        self.visit_entries(&tables, name, low, &mut piece, |one, place| {
            found = (one == value).then_some(place);
            one < value
        })?;
        Ok(found)
    }

    /// All series.
    pub fn all_series(&self) -> Result<RoaringBitmap, BlockError> {
        let tables = self.tables()?;
        let (mut all, mut piece) = (None, Vec::new());
        let name = &tables.names[0];
        self.visit_entries(&tables, name, name.entries.start, &mut piece, |_, place| {
            all = Some(place);
            false
        })?;
        self.postings(all.expect("tables have a first entry"))
    }

    /// The series of a list of postings.
    pub fn postings(&self, PostingsPlace(begins): PostingsPlace) -> Result<RoaringBitmap, BlockError> {
        let read = || -> Result<RoaringBitmap, BlockSectionError> {
            let mut head = Vec::new();
            self.index.read(begins, 8, POSTINGS, &mut head)?;
            let mut cursor = Cursor::new(&head, begins, POSTINGS);
            let (len, count) = (u64::from(cursor.u32()?), u64::from(cursor.u32()?));
            if len != 4 + POSTING_BYTES as u64 * count || begins + 8 + len > self.index.len() {
                return Err(BlockSectionError::new(begins, BlockErrorKind::EndsEarly { what: POSTINGS }));
            }
            let mut sum = crc32c::crc32c(&head[4..]);
            let (mut bitmap, mut piece, mut left) = (RoaringBitmap::new(), Vec::new(), count as usize);
            let mut at = begins + 8;
            while left > 0 {
                let now = left.min(POSTINGS_PIECE);
                piece.clear();
                self.index.read(at, now * POSTING_BYTES, POSTINGS, &mut piece)?;
                sum = crc32c::crc32c_append(sum, &piece);
                let series = piece
                    .chunks_exact(POSTING_BYTES)
                    .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
                let unsorted = |_not_sorted| {
                    BlockSectionError::new(at, BlockErrorKind::NotA { what: "a sorted list of postings" })
                };
                bitmap.append(series).map_err(unsorted)?;
                at += piece.len() as u64;
                left -= now;
            }
            piece.clear();
            self.index.read(at, 4, POSTINGS, &mut piece)?;
            match sum.to_be_bytes() == piece[..] {
                true => Ok(bitmap),
                false => Err(BlockSectionError::new(begins, BlockErrorKind::Checksum { what: POSTINGS })),
            }
        };
        read().map_err(|error| error.of(self.index.path()))
    }

    /// A series by its posting, with labels as numbers of symbols.
    pub fn series(&self, series: u32) -> Result<(Vec<LabelNumbers>, Vec<ChunkPlace>), BlockError> {
        let begins = u64::from(series) * ALIGNMENT;
        let read = || -> Result<SeriesEntry, BlockSectionError> {
            if begins < self.toc.series || begins >= self.toc.series_end {
                return Err(BlockSectionError::new(
                    begins,
                    BlockErrorKind::NoSuch { what: "series", number: series.into() },
                ));
            }
            let mut bytes = Vec::new();
            self.index.read_at_most(begins, series::VARINT_BYTES_MAX, &mut bytes)?;
            let (at, len) = series::locate(&bytes, begins, self.toc.series_end)?;
            bytes.clear();
            self.index.read(at.content, len + 4, series::WHAT, &mut bytes)?;
            series::parse(&bytes, at)
        };
        let SeriesEntry { labels, chunks, .. } = read().map_err(|error| error.of(self.index.path()))?;
        Ok((labels, chunks))
    }

    /// Appends the text of a symbol.
    pub fn symbol(&self, number: u64, out: &mut String) -> Result<(), BlockError> {
        let tables = self.tables()?;
        let mut read = || -> Result<(), BlockSectionError> {
            if number >= tables.symbol_count {
                return Err(BlockSectionError::new(
                    self.toc.symbols,
                    BlockErrorKind::NoSuch { what: "symbol", number },
                ));
            }
            let place = tables.symbols.partition_point(|place| place.number <= number) - 1;
            let end = tables.symbols.get(place + 1).map_or(tables.symbols_end, |next| next.begins);
            let place = tables.symbols[place];
            let mut piece = Vec::new();
            self.index.read(place.begins, (end - place.begins) as usize, SYMBOL, &mut piece)?;
            let mut cursor = Cursor::new(&piece, place.begins, SYMBOL);
            for _before in place.number..number {
                let len = cursor.uvarint()?;
                cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
            }
            let len = cursor.uvarint()?;
            let begins = cursor.offset();
            let text = cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
            let text = str::from_utf8(text)
                .map_err(|_invalid| BlockSectionError::new(begins, BlockErrorKind::NotUtf8))?;
            out.push_str(text);
            Ok(())
        };
        read().map_err(|error| error.of(self.index.path()))
    }

    /// Appends a chunk's samples, their count in front, and returns what they are.
    pub fn chunk(&self, place: ChunkPlace, out: &mut Vec<u8>) -> Result<Contents, BlockError> {
        let (number, offset) = chunks::split(place);
        let Some(file) = self.chunks.get(number) else {
            let problem = BlockErrorKind::NoSuch { what: "chunk file", number: number as u64 };
            return Err(BlockSectionError::new(0, problem).of(&self.dir.join("chunks")));
        };
        let begins = out.len();
        let mut read = || -> Result<Contents, BlockSectionError> {
            file.read_at_most(offset, chunks::VARINT_BYTES_MAX, out)?;
            let (at, len) = chunks::locate(&out[begins..], offset)?;
            out.truncate(begins);
            file.read(at, 1 + len + 4, chunks::WHAT, out)?;
            let chunk = chunks::parse(&out[begins..], offset)?;
            let unknown = || {
                BlockSectionError::new(
                    offset,
                    BlockErrorKind::NotA { what: "a chunk in an encoding that is decoded here" },
                )
            };
            let contents = chunk.contents.ok_or_else(unknown)?;
            out.remove(begins);
            out.truncate(begins + len);
            Ok(contents)
        };
        let read = read();
        read.map_err(|error| {
            out.truncate(begins);
            error.of(file.path())
        })
    }

    /// The fault of a chunk whose bytes are those that were written, and no samples all the same.
    pub fn chunk_error(&self, place: ChunkPlace, error: impl Error + Send + Sync + 'static) -> BlockError {
        let (number, offset) = chunks::split(place);
        let path = self.chunks.get(number).map_or(&*self.dir, PagedFile::path);
        BlockSectionError::new(offset, BlockErrorKind::Samples(error.into())).of(path)
    }

    /// The fault of a series that can't be as its index has it.
    pub fn series_error(&self, series: u32, what: &'static str) -> BlockError {
        BlockSectionError::new(u64::from(series) * ALIGNMENT, BlockErrorKind::NotA { what })
            .of(self.index.path())
    }

    fn tables(&self) -> Result<Arc<Tables>, BlockError> {
        let (cache, key) = (self.index.cache(), Key { file: self.index.number(), part: CachePart::Tables });
        if let Some(CacheEntry::Tables(tables)) = cache.get(key) {
            return Ok(tables);
        }
        let tables = Arc::new(Tables::read(&self.index, &self.toc)?);
        if cache.put(key, CacheEntry::Tables(Arc::clone(&tables))) {
            return Ok(tables);
        }
        // They would be made again for each look at them.
        let (bytes, bytes_max) = (tables.bytes() as u64, cache.bytes_max() as u64);
        let problem = BlockErrorKind::TooLarge { what: "what is to be held of the index", bytes, bytes_max };
        Err(BlockSectionError::new(self.toc.symbols, problem).of(self.index.path()))
    }

    /// The entries of a name from a place that is held up to the next one, until `visit` wants no more. Whether it
    /// wants more.
    fn visit_entries(
        &self,
        tables: &Tables,
        name: &Name,
        place: usize,
        piece: &mut Vec<u8>,
        mut visit: impl FnMut(&str, PostingsPlace) -> bool,
    ) -> Result<bool, BlockError> {
        let mut read = || -> Result<bool, BlockSectionError> {
            let begins = tables.entries[place];
            let is_last = place + 1 == name.entries.end;
            let end = if is_last { name.end } else { tables.entries[place + 1] };
            piece.clear();
            self.index.read(begins, (end - begins) as usize, POSTINGS, piece)?;
            let mut cursor = Cursor::new(piece, begins, POSTINGS);
            while !cursor.is_at_end() {
                let entry = read_entry(&mut cursor)?;
                if !visit(entry.value, PostingsPlace(entry.list)) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        read().map_err(|error| error.of(self.index.path()))
    }
}

/// A name that is a label's, not that of all postings.
fn named<'a>(tables: &'a Tables, name: &str) -> Option<&'a Name> {
    if name.is_empty() { None } else { tables.name(name) }
}

fn read_toc(index: &PagedFile) -> Result<Toc, BlockSectionError> {
    let mut bytes = Vec::new();
    index.read(0, HEAD_BYTES as usize, "the head", &mut bytes)?;
    check_head(&bytes)?;
    bytes.clear();
    let begins = index.len().saturating_sub(TOC_BYTES);
    index.read(begins, TOC_BYTES as usize, "the table of contents", &mut bytes)?;
    let toc = parse(&bytes, begins)?;
    match toc.series_end <= toc.postings_table && toc.postings_table < begins {
        true => Ok(toc),
        false => Err(BlockSectionError::new(
            begins,
            BlockErrorKind::NotA { what: "an index with a table of postings" },
        )),
    }
}
