//! The index's symbols: each text is there once, and series refer to it by number.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::window::FileWindow;

/// The place of every so manieth symbol is held; those between are read through.
const PLACE_EVERY: u64 = 32;
/// A symbol in bytes.
const SYMBOL_BYTES_MAX: u64 = 1 << 20;
/// Symbols that are kept once they were looked up. Series come sorted, so few are in use at once.
const KEPT_MAX: usize = 1 << 16;
/// A window for places all over the section.
const READ_AHEAD: usize = 16 << 10;
const VARINT_BYTES_MAX: usize = 10;

/// The symbols of an index.
#[derive(Debug)]
pub(crate) struct Symbols {
    window: FileWindow,
    end: u64,
    count: u64,
    places: Vec<u64>,
    kept: HashMap<u64, Arc<str>>,
}

impl Symbols {
    /// Reads through the section that begins at `begins`.
    pub(crate) fn open(path: &Path, begins: u64) -> Result<Self, BlockError> {
        let mut window = FileWindow::open(path, READ_AHEAD)?;
        let mut head = Cursor::new(window.exactly(begins, 8, WHAT)?, begins, WHAT);
        let (len, count) = read_head(&mut head).map_err(|error| error.of(path))?;
        let first = head.offset();
        let content = first - 4;
        let end = content + len;
        let mut sum = Cursor::new(window.exactly(end, 4, WHAT)?, end, WHAT);
        let sum = sum.u32().map_err(|error| error.of(path))?;
        window.check(content, end, sum, WHAT)?;
        let mut symbols = Self { window, end, count, places: Vec::new(), kept: HashMap::new() };
        symbols.find_places(first)?;
        Ok(symbols)
    }

    fn find_places(&mut self, first: u64) -> Result<(), BlockError> {
        let mut at = first;
        for number in 0..self.count {
            if number % PLACE_EVERY == 0 {
                self.places.push(at);
            }
            let (begins, len) = self.locate(at)?;
            at = begins + len as u64;
        }
        Ok(())
    }

    /// Where the text of the symbol at a place begins, and its length.
    fn locate(&mut self, at: u64) -> Result<(u64, usize), BlockError> {
        let of_section = usize::try_from(self.end - at).unwrap_or(usize::MAX);
        let bytes = self.window.at_most(at, VARINT_BYTES_MAX.min(of_section))?;
        let mut cursor = Cursor::new(bytes, at, WHAT);
        let found = cursor.uvarint().and_then(|bytes| {
            let begins = cursor.offset();
            if bytes > SYMBOL_BYTES_MAX {
                let problem =
                    BlockErrorKind::TooLarge { what: "a symbol", bytes, bytes_max: SYMBOL_BYTES_MAX };
                return Err(BlockSectionError::new(at, problem));
            }
            if begins + bytes > self.end {
                return Err(BlockSectionError::new(at, BlockErrorKind::EndsEarly { what: "a symbol" }));
            }
            Ok((begins, bytes as usize))
        });
        found.map_err(|error| error.of(self.window.path()))
    }

    /// The text of a symbol; `referred_at` is where it was referred to.
    pub(crate) fn look_up(&mut self, number: u64, referred_at: u64) -> Result<Arc<str>, BlockError> {
        if let Some(text) = self.kept.get(&number) {
            return Ok(Arc::clone(text));
        }
        let text = self.read(number, referred_at)?;
        if self.kept.len() == KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(number, Arc::clone(&text));
        Ok(text)
    }

    fn read(&mut self, number: u64, referred_at: u64) -> Result<Arc<str>, BlockError> {
        if number >= self.count {
            let problem = BlockErrorKind::NoSuch { what: "symbol", number };
            return Err(BlockSectionError::new(referred_at, problem).of(self.window.path()));
        }
        let mut at = self.places[(number / PLACE_EVERY) as usize];
        for _before in 0..number % PLACE_EVERY {
            let (begins, len) = self.locate(at)?;
            at = begins + len as u64;
        }
        let (begins, len) = self.locate(at)?;
        let path = self.window.path().to_owned();
        let text = std::str::from_utf8(self.window.exactly(begins, len, WHAT)?);
        text.map(Arc::from)
            .map_err(|_invalid| BlockSectionError::new(begins, BlockErrorKind::NotUtf8).of(&path))
    }
}

const WHAT: &str = "the symbols";

fn read_head(head: &mut Cursor) -> Result<(u64, u64), BlockSectionError> {
    let (len, count) = (u64::from(head.u32()?), u64::from(head.u32()?));
    // The count itself is part of the content, and each symbol takes a byte at least.
    if len < 4 + count {
        return Err(head.error(BlockErrorKind::EndsEarly { what: WHAT }));
    }
    Ok((len, count))
}
