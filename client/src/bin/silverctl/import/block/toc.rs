//! The index's head and its table of contents: where its sections begin.

use super::cursor::Cursor;
use super::fault::{BlockFault, Misread, Problem};
use super::window::Window;

const MAGIC: u32 = 0xBAAA_D700;
const VERSION: u8 = 2;
/// Magic and version.
pub const HEAD_BYTES: u64 = 5;
/// Six offsets and a checksum, at the file's end.
pub const TOC_BYTES: u64 = 6 * 8 + 4;

/// Where the sections that are read here begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toc {
    pub symbols: u64,
    pub series: u64,
    pub series_end: u64,
}

impl Toc {
    /// Reads it from an index of version 2.
    pub fn read(index: &mut Window) -> Result<Self, BlockFault> {
        let path = index.path().to_owned();
        let head = index.exactly(0, HEAD_BYTES as usize, "the head")?;
        check_head(Cursor::new(head, 0, "the head")).map_err(|misread| misread.of(&path))?;
        let begins = index.file_len().saturating_sub(TOC_BYTES);
        let bytes = index.exactly(begins, TOC_BYTES as usize, "the table of contents")?;
        parse(bytes, begins).map_err(|misread| misread.of(&path))
    }
}

fn check_head(mut head: Cursor) -> Result<(), Misread> {
    let what = "an index of version 2";
    if head.u32()? != MAGIC || head.u8()? != VERSION {
        return Err(Misread::new(0, Problem::NotA { what }));
    }
    Ok(())
}

fn parse(bytes: &[u8], begins: u64) -> Result<Toc, Misread> {
    let what = "the table of contents";
    let mut cursor = Cursor::new(bytes, begins, what);
    let mut offsets = [0; 6];
    for offset in &mut offsets {
        *offset = cursor.u64()?;
    }
    if cursor.u32()? != crc32c::crc32c(&bytes[..bytes.len() - 4]) {
        return Err(Misread::new(begins, Problem::Checksum { what }));
    }
    let [symbols, series, ..] = offsets;
    // Whichever section comes next; later versions of Prometheus leave some of them out.
    let series_end = offsets.into_iter().filter(|offset| *offset > series).min().unwrap_or(begins);
    if symbols < HEAD_BYTES || series < symbols || series_end > begins {
        return Err(Misread::new(begins, Problem::NoSuch { what: "a section at", number: series_end }));
    }
    Ok(Toc { symbols, series, series_end })
}
