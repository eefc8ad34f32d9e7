//! Of an index what is held while it is in use: the place of a symbol, and of an entry of the table of postings, every few
//! kilobytes, and the names of labels. Those between are read through. Made in one pass over both sections, which checks
//! their checksums and that they are sorted.

use std::ops::Range;

use super::file::PagedFile;
use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::toc::Toc;
use crate::window::FileWindow;

/// Of a section, so many bytes lie between two places that are held, but for one text.
const PLACE_EVERY: u64 = if cfg!(test) { 32 } else { 4 << 10 };
/// A text in bytes.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 20;
/// All tables of one index, in bytes: those of a block of ten million series take a tenth.
const TABLES_BYTES_MAX: usize = 64 << 20;
const READ_AHEAD: usize = 256 << 10;
const VARINT_BYTES_MAX: usize = 10;
/// An entry of the table of postings, mostly, ...
const ENTRY_BYTES_USUAL: usize = 4 << 10;
/// ... and at most.
const ENTRY_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX as usize + 4 * VARINT_BYTES_MAX;
const SYMBOLS: &str = "the symbols";
pub(crate) const TABLE: &str = "the table of postings";

/// The tables of an index.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) symbols: Vec<SymbolPlace>,
    pub(super) symbols_end: u64,
    pub(super) symbol_count: u64,
    /// Ascending. The first is the empty one, of all postings.
    pub(super) names: Vec<Name>,
    /// Entries of the table of postings: where they begin in the index.
    pub(super) entries: Vec<u64>,
}

/// A symbol whose place is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct SymbolPlace {
    pub(super) number: u64,
    pub(super) begins: u64,
}

/// A label's name in the table of postings.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Box<str>,
    /// Places of its entries, the first one among them, in [`Tables::entries`].
    pub(super) entries: Range<usize>,
    /// Where its entries end in the index.
    pub(super) end: u64,
}

/// An entry of the table of postings.
pub(crate) struct PostingsEntry<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// Where its list begins in the index.
    pub list: u64,
}

impl Tables {
    pub(super) fn read(file: &PagedFile, toc: &Toc) -> Result<Self, BlockError> {
        let mut window = FileWindow::open(file.path(), READ_AHEAD)?;
        let mut tables = Self::default();
        tables.read_symbols(&mut window, toc)?;
        tables.read_entries(&mut window, toc)?;
        Ok(tables)
    }

    /// What they take.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| size_of::<Name>() + name.text.len()).sum();
        names + size_of_val(&*self.symbols) + size_of_val(&*self.entries)
    }

    fn check_bytes(&self, at: u64, names_bytes: usize) -> Result<(), BlockSectionError> {
        let bytes = names_bytes
            + size_of_val(&*self.names)
            + size_of_val(&*self.symbols)
            + size_of_val(&*self.entries);
        let (bytes, bytes_max) = (bytes as u64, TABLES_BYTES_MAX as u64);
        let is_too_large = bytes > bytes_max;
        let problem = BlockErrorKind::TooLarge { what: "what is to be held of the index", bytes, bytes_max };
        if is_too_large { Err(BlockSectionError::new(at, problem)) } else { Ok(()) }
    }

    fn read_symbols(&mut self, window: &mut FileWindow, toc: &Toc) -> Result<(), BlockError> {
        let path = window.path().to_owned();
        let section = section(window, toc.symbols, SYMBOLS)?;
        self.symbols_end = section.end;
        self.symbol_count = section.count;
        let (mut at, mut held_at) = (section.first, None);
        let (mut before, mut text) = (Vec::new(), Vec::new());
        for number in 0..section.count {
            if held_at.is_none_or(|held_at| at - held_at >= PLACE_EVERY) {
                held_at = Some(at);
                self.symbols.push(SymbolPlace { number, begins: at });
                self.check_bytes(at, 0).map_err(|error| error.of(&path))?;
            }
            let (bytes, next) = text_at(window, at, section.end, SYMBOLS)?;
            text.clear();
            text.extend_from_slice(bytes);
            if number > 0 && before >= text {
                let problem = BlockErrorKind::NotA { what: "a symbol that comes after the one before it" };
                return Err(BlockSectionError::new(at, problem).of(&path));
            }
            std::mem::swap(&mut before, &mut text);
            at = next;
        }
        Ok(())
    }

    fn read_entries(&mut self, window: &mut FileWindow, toc: &Toc) -> Result<(), BlockError> {
        let path = window.path().to_owned();
        let section = section(window, toc.postings_table, TABLE)?;
        let (mut at, mut held_at, mut names_bytes) = (section.first, 0, 0);
        let (mut name, mut value) = (String::new(), String::new());
        for number in 0..section.count {
            let (entry, next) = entry_at(window, at, section.end)?;
            let is_new = number == 0 || name != entry.name;
            // All postings are the first list, and there is one of them.
            let is_all = entry.name.is_empty() && entry.value.is_empty();
            let follows = match number {
                0 => is_all,
                _later => (&*name, &*value) < (entry.name, entry.value) && !entry.name.is_empty(),
            };
            if !follows {
                let problem = BlockErrorKind::NotA { what: "an entry that comes after the one before it" };
                return Err(BlockSectionError::new(at, problem).of(&path));
            }
            if is_new {
                names_bytes += entry.name.len();
                let begins = self.entries.len();
                self.names.push(Name { text: entry.name.into(), entries: begins..begins, end: next });
                entry.name.clone_into(&mut name);
            }
            entry.value.clone_into(&mut value);
            let held = self.names.last_mut().expect("the first entry's name is new");
            held.end = next;
            if is_new || at - held_at >= PLACE_EVERY {
                held_at = at;
                self.entries.push(at);
                held.entries.end = self.entries.len();
                self.check_bytes(at, names_bytes).map_err(|error| error.of(&path))?;
            }
            at = next;
        }
        if self.names.is_empty() {
            return Err(BlockSectionError::new(
                section.first,
                BlockErrorKind::NotA { what: "a list of all postings" },
            )
            .of(&path));
        }
        Ok(())
    }

    /// The name's place.
    pub(super) fn name(&self, name: &str) -> Option<&Name> {
        let found = self.names.binary_search_by(|held| (*held.text).cmp(name));
        found.ok().map(|at| &self.names[at])
    }
}

/// A section that counts what is in it.
struct Section {
    first: u64,
    count: u64,
    end: u64,
}

/// Reads a section's head, and checks its checksum.
fn section(window: &mut FileWindow, begins: u64, what: &'static str) -> Result<Section, BlockError> {
    let path = window.path().to_owned();
    let mut head = Cursor::new(window.exactly(begins, 8, what)?, begins, what);
    let read = head.u32().and_then(|len| Ok((u64::from(len), u64::from(head.u32()?))));
    let (len, count) = read.map_err(|error| error.of(&path))?;
    // The count itself is part of the content, and what it counts takes a byte at least.
    if len < 4 + count {
        return Err(BlockSectionError::new(begins, BlockErrorKind::EndsEarly { what }).of(&path));
    }
    let content = begins + 4;
    let end = content + len;
    let sum = Cursor::new(window.exactly(end, 4, what)?, end, what).u32();
    window.check(content, end, sum.map_err(|error| error.of(&path))?, what)?;
    Ok(Section { first: content + 4, count, end })
}

/// The text at a place of a section, and where the next one begins.
fn text_at<'a>(
    window: &'a mut FileWindow,
    at: u64,
    end: u64,
    what: &'static str,
) -> Result<(&'a [u8], u64), BlockError> {
    let path = window.path().to_owned();
    let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut head = Cursor::new(window.at_most(at, VARINT_BYTES_MAX.min(left))?, at, what);
    let located = head.uvarint().and_then(|len| {
        let begins = head.offset();
        check_text(len, at)?;
        match begins + len > end {
            true => Err(BlockSectionError::new(at, BlockErrorKind::EndsEarly { what })),
            false => Ok((begins, len as usize)),
        }
    });
    let (begins, len) = located.map_err(|error| error.of(&path))?;
    Ok((window.exactly(begins, len, what)?, begins + len as u64))
}

fn check_text(bytes: u64, at: u64) -> Result<(), BlockSectionError> {
    let problem = BlockErrorKind::TooLarge { what: "a text", bytes, bytes_max: TEXT_BYTES_MAX };
    if bytes > TEXT_BYTES_MAX { Err(BlockSectionError::new(at, problem)) } else { Ok(()) }
}

/// The entry at a place of the table of postings, and where the next one begins.
pub(crate) fn entry_at(
    window: &mut FileWindow,
    at: u64,
    end: u64,
) -> Result<(PostingsEntry<'_>, u64), BlockError> {
    let path = window.path().to_owned();
    let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
    let len = entry_len(window.at_most(at, ENTRY_BYTES_USUAL.min(left))?, at, left);
    let len = match len {
        Ok(len) => len,
        // Its texts are longer than most.
        Err(_early) => entry_len(window.at_most(at, ENTRY_BYTES_MAX.min(left))?, at, left)
            .map_err(|error| error.of(&path))?,
    };
    let mut cursor = Cursor::new(window.exactly(at, len, TABLE)?, at, TABLE);
    let entry = read_entry(&mut cursor).map_err(|error| error.of(&path))?;
    Ok((entry, at + len as u64))
}

fn entry_len(bytes: &[u8], at: u64, left: usize) -> Result<usize, BlockSectionError> {
    let mut cursor = Cursor::new(&bytes[..bytes.len().min(left)], at, TABLE);
    read_entry(&mut cursor)?;
    Ok((cursor.offset() - at) as usize)
}

/// Reads an entry of the table of postings.
pub(super) fn read_entry<'a>(cursor: &mut Cursor<'a>) -> Result<PostingsEntry<'a>, BlockSectionError> {
    let at = cursor.offset();
    if cursor.uvarint()? != 2 {
        return Err(BlockSectionError::new(
            at,
            BlockErrorKind::NotA { what: "an entry of a name and a value" },
        ));
    }
    let mut text = || {
        let at = cursor.offset();
        let len = cursor.uvarint()?;
        check_text(len, at)?;
        let bytes = cursor.take(len as usize)?;
        str::from_utf8(bytes).map_err(|_invalid| BlockSectionError::new(at, BlockErrorKind::NotUtf8))
    };
    let (name, value) = (text()?, text()?);
    Ok(PostingsEntry { name, value, list: cursor.uvarint()? })
}
