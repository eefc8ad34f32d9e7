//! The file `tombstones`: what was deleted since the block was written. It may be absent.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::whole_file::put_file;
use crate::write::{put_uvarint, put_varint};

const FILE: &str = "tombstones";
pub(crate) const MAGIC: u32 = 0x0130_BA30;
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 5;
const SUM_BYTES: usize = 4;
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
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones(HashMap<u64, Vec<DeletedRange>>);

impl Tombstones {
    pub(crate) fn read(path: &Path) -> Result<Self, BlockError> {
        let read = || match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(BlockSectionError::new(0, error)),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                let bytes = metadata.len();
                Err(BlockSectionError::new(
                    0,
                    BlockErrorKind::TooLarge { what: WHAT, bytes, bytes_max: FILE_BYTES_MAX },
                ))
            }
            Ok(_) => parse(&std::fs::read(path).map_err(|error| BlockSectionError::new(0, error))?),
        };
        read().map_err(|error| error.of(path))
    }

    /// What was deleted of a series.
    pub(crate) fn of(&self, series: u64) -> Vec<DeletedRange> {
        self.of_series(series).to_vec()
    }

    /// The same, in the order in which it was deleted.
    pub(crate) fn of_series(&self, series: u64) -> &[DeletedRange] {
        self.0.get(&series).map_or(&[], Vec::as_slice)
    }

    /// Deletes a range of a series: those that it touches become one with it.
    pub(crate) fn add(&mut self, series: u64, range: DeletedRange) {
        let ranges = self.0.entry(series).or_default();
        let mut whole = range;
        ranges.retain(|other| {
            let is_apart = other.max_ms.saturating_add(1) < range.min_ms
                || range.max_ms.saturating_add(1) < other.min_ms;
            if !is_apart {
                whole.min_ms = whole.min_ms.min(other.min_ms);
                whole.max_ms = whole.max_ms.max(other.max_ms);
            }
            is_apart
        });
        ranges.push(whole);
        ranges.sort_unstable_by_key(|range| range.min_ms);
    }

    /// Writes them in place of what the block in `dir` has, durably: whoever opens it finds these or the former ones.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), BlockError> {
        let bytes = self.to_bytes();
        let path = dir.join(FILE);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let problem =
                BlockErrorKind::TooLarge { what: WHAT, bytes: bytes.len() as u64, bytes_max: FILE_BYTES_MAX };
            return Err(BlockSectionError::new(0, problem).of(&path));
        }
        put_file(dir, FILE, &bytes).map_err(|error| BlockSectionError::new(0, error).of(&path))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut series: Vec<_> = self.0.iter().collect();
        series.sort_unstable_by_key(|(series, _)| **series);
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        bytes.push(VERSION);
        for (series, ranges) in series {
            for range in ranges {
                put_uvarint(&mut bytes, *series);
                put_varint(&mut bytes, range.min_ms);
                put_varint(&mut bytes, range.max_ms);
            }
        }
        let sum = crc32c::crc32c(&bytes[HEAD_BYTES..]);
        bytes.extend_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Whether nothing was.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Tells one state of the tombstones of the block in `dir` from another, by their checksum; 0: nothing was deleted of it.
pub fn tombstones_sum(dir: &Path) -> io::Result<u32> {
    let mut file = match File::open(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(SUM_BYTES as u64)))?;
    let mut sum = Vec::new();
    file.read_to_end(&mut sum)?;
    // Of a damaged one whatever is there.
    Ok(sum.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn parse(bytes: &[u8]) -> Result<Tombstones, BlockSectionError> {
    let mut head = Cursor::new(bytes, 0, WHAT);
    head.check_head(MAGIC, VERSION, "a tombstones file of version 1")?;
    let stones_len = bytes.len().checked_sub(HEAD_BYTES + SUM_BYTES);
    let stones =
        head.take(stones_len.ok_or_else(|| head.error(BlockErrorKind::EndsEarly { what: WHAT }))?)?;
    if head.u32()? != crc32c::crc32c(stones) {
        return Err(BlockSectionError::new(0, BlockErrorKind::Checksum { what: WHAT }));
    }
    let mut cursor = Cursor::new(stones, HEAD_BYTES as u64, WHAT);
    let mut tombstones = Tombstones::default();
    while !cursor.is_at_end() {
        let (series, min_ms, max_ms) = (cursor.uvarint()?, cursor.varint()?, cursor.varint()?);
        tombstones.0.entry(series).or_default().push(DeletedRange { min_ms, max_ms });
    }
    Ok(tombstones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(added: &[(i64, i64)], expect: &[(i64, i64)]) {
        let mut tombstones = Tombstones::default();
        for (min_ms, max_ms) in added {
            tombstones.add(7, DeletedRange { min_ms: *min_ms, max_ms: *max_ms });
        }
        tombstones.add(300, DeletedRange { min_ms: i64::MIN, max_ms: i64::MAX });
        let dir = tempfile::tempdir().unwrap();
        tombstones.write(dir.path()).unwrap();
        let read = Tombstones::read(&dir.path().join("tombstones")).unwrap();
        let found: Vec<_> = read.of(7).iter().map(|range| (range.min_ms, range.max_ms)).collect();
        assert_eq!(found, expect, "{added:?}");
        assert_eq!(read.of(300).len(), 1);
        assert!(!dir.path().join("tombstones.tmp").exists());
    }

    #[test]
    fn ranges_that_touch_are_one_and_are_read_back() {
        check(&[(5, 9)], &[(5, 9)]);
        check(&[(5, 9), (1, 3)], &[(1, 3), (5, 9)]);
        check(&[(5, 9), (1, 4)], &[(1, 9)]);
        check(&[(1, 3), (7, 9), (2, 7)], &[(1, 9)]);
        check(&[(1, 3), (i64::MIN, i64::MAX)], &[(i64::MIN, i64::MAX)]);
    }

    #[test]
    fn what_was_deleted_is_told_apart_by_its_sum() {
        let dir = tempfile::tempdir().unwrap();
        let sum = || tombstones_sum(dir.path()).unwrap();
        assert_eq!(sum(), 0, "no file");
        let mut tombstones = Tombstones::default();
        tombstones.write(dir.path()).unwrap();
        assert_eq!(sum(), 0, "nothing in it");
        let mut sums = vec![0];
        for max_ms in [2, 3] {
            tombstones.add(7, DeletedRange { min_ms: 1, max_ms });
            tombstones.write(dir.path()).unwrap();
            sums.push(sum());
        }
        std::fs::write(dir.path().join(FILE), "cut").unwrap();
        sums.push(sum());
        sums.sort_unstable();
        assert!(sums.is_sorted_by(|one, next| one < next), "{sums:?}");
    }
}
