//! The index's head and its table of contents: where its sections begin.

use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::window::FileWindow;

pub(crate) const MAGIC: u32 = 0xBAAA_D700;
pub(crate) const VERSION: u8 = 2;
/// Magic and version.
pub(crate) const HEAD_BYTES: u64 = 5;
/// Six offsets and a checksum, at the file's end.
pub(crate) const TOC_BYTES: u64 = 6 * 8 + 4;

/// Where the sections that are read here begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Toc {
    pub symbols: u64,
    pub series: u64,
    pub series_end: u64,
    /// The table of postings. An index that is read from its first series to its last may have none.
    pub postings_table: u64,
}

impl Toc {
    /// Reads it from an index of version 2.
    pub(crate) fn read(index: &mut FileWindow) -> Result<Self, BlockError> {
        let path = index.path().to_owned();
        let head = index.exactly(0, HEAD_BYTES as usize, "the head")?;
        check_head(head).map_err(|error| error.of(&path))?;
        let begins = index.file_len().saturating_sub(TOC_BYTES);
        let bytes = index.exactly(begins, TOC_BYTES as usize, "the table of contents")?;
        parse(bytes, begins).map_err(|error| error.of(&path))
    }
}

pub(crate) fn check_head(head: &[u8]) -> Result<(), BlockSectionError> {
    Cursor::new(head, 0, "the head").check_head(MAGIC, VERSION, "an index of version 2")
}

pub(crate) fn parse(bytes: &[u8], begins: u64) -> Result<Toc, BlockSectionError> {
    let what = "the table of contents";
    let mut cursor = Cursor::new(bytes, begins, what);
    let mut offsets = [0; 6];
    for offset in &mut offsets {
        *offset = cursor.u64()?;
    }
    if cursor.u32()? != crc32c::crc32c(&bytes[..bytes.len() - 4]) {
        return Err(BlockSectionError::new(begins, BlockErrorKind::Checksum { what }));
    }
    let [symbols, series, .., postings_table] = offsets;
    // Whichever section comes next; later versions of Prometheus leave some of them out.
    let series_end = offsets.into_iter().filter(|offset| *offset > series).min().unwrap_or(begins);
    // Each is after the one before.
    if ![HEAD_BYTES, symbols, series, series_end, begins].is_sorted() {
        return Err(BlockSectionError::new(
            begins,
            BlockErrorKind::NotA { what: "a table of an index's sections" },
        ));
    }
    Ok(Toc { symbols, series, series_end, postings_table })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file is 1,000 bytes long up to the table.
    fn check(offsets: [u64; 6], expect: Option<(u64, u64, u64)>) {
        let mut bytes: Vec<u8> = offsets.into_iter().flat_map(u64::to_be_bytes).collect();
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        let toc = parse(&bytes, 1000).ok();
        assert_eq!(toc.map(|toc| (toc.symbols, toc.series, toc.series_end)), expect, "{offsets:?}");
    }

    #[test]
    fn series_end_where_the_next_section_begins() {
        check([5, 100, 200, 210, 220, 230], Some((5, 100, 200)));
        check([5, 100, 0, 0, 220, 230], Some((5, 100, 220)));
        check([5, 100, 0, 0, 50, 60], Some((5, 100, 1000)));
    }

    #[test]
    fn sections_that_no_index_has_are_refused() {
        check([4, 100, 200, 200, 200, 200], None);
        check([5, 4, 200, 200, 200, 200], None);
        check([5, u64::MAX, 200, 200, 200, 200], None);
        check([5, 1001, 200, 200, 200, 200], None);
        check([5, 100, 1001, 1001, 1001, 1001], None);
        check([2000, 2000, 2000, 2000, 2000, 2000], None);
    }
}
