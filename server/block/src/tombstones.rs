//! The file `tombstones`: what was deleted since the block was written. It may be absent.

use std::collections::HashMap;
use std::path::Path;

use crate::cursor::Cursor;
use crate::fault::{BlockFault, Misread, Problem};

pub const MAGIC: u32 = 0x0130_BA30;
pub const VERSION: u8 = 1;
const HEAD_BYTES: usize = 5;
/// The file in bytes: it is held in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;
const WHAT: &str = "the tombstones";

/// Times of deleted samples, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedRange {
    /// The first.
    pub min_ms: i64,
    /// The last.
    pub max_ms: i64,
}

impl DeletedRange {
    /// Whether a sample of that time is deleted.
    pub const fn holds(&self, at_ms: i64) -> bool {
        self.min_ms <= at_ms && at_ms <= self.max_ms
    }
}

/// Deleted ranges by the reference of their series.
#[derive(Debug, Default)]
pub struct Tombstones(HashMap<u64, Vec<DeletedRange>>);

impl Tombstones {
    pub fn read(path: &Path) -> Result<Self, BlockFault> {
        let read = || match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Misread::new(0, error)),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                let bytes = metadata.len();
                Err(Misread::new(0, Problem::TooLarge { what: WHAT, bytes, bytes_max: FILE_BYTES_MAX }))
            }
            Ok(_) => parse(&std::fs::read(path).map_err(|error| Misread::new(0, error))?),
        };
        read().map_err(|misread| misread.of(path))
    }

    /// What was deleted of a series.
    pub fn of(&self, series: u64) -> Vec<DeletedRange> {
        self.0.get(&series).cloned().unwrap_or_default()
    }
}

fn parse(bytes: &[u8]) -> Result<Tombstones, Misread> {
    let mut head = Cursor::new(bytes, 0, WHAT);
    if head.u32()? != MAGIC || head.u8()? != VERSION {
        return Err(Misread::new(0, Problem::NotA { what: "a tombstones file of version 1" }));
    }
    let stones_len = bytes.len().checked_sub(HEAD_BYTES + 4);
    let stones = head.take(stones_len.ok_or_else(|| head.misread(Problem::EndsEarly { what: WHAT }))?)?;
    if head.u32()? != crc32c::crc32c(stones) {
        return Err(Misread::new(0, Problem::Checksum { what: WHAT }));
    }
    let mut cursor = Cursor::new(stones, HEAD_BYTES as u64, WHAT);
    let mut tombstones = Tombstones::default();
    while !cursor.is_at_end() {
        let (series, min_ms, max_ms) = (cursor.uvarint()?, cursor.varint()?, cursor.varint()?);
        tombstones.0.entry(series).or_default().push(DeletedRange { min_ms, max_ms });
    }
    Ok(tombstones)
}
