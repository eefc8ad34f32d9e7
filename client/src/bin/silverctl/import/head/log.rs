//! Records out of the segments of a write-ahead log, as Prometheus writes them: pages of 32 KiB, a record in one
//! fragment or several, each with its length and a checksum.
//!
//! Reads what there is while Prometheus goes on writing: a record that isn't whole at the log's end is its end. Knows
//! nothing of what records hold.

use std::io::Read;
use std::path::PathBuf;

use silverback_block::cursor::Cursor;
use silverback_block::error::{BlockError, BlockErrorKind, BlockSectionError};
use silverback_block::window::FileWindow;

const PAGE_BYTES: u64 = 32 << 10;
const HEAD_BYTES: usize = 7;
/// Of a fragment's first byte.
const KIND_BITS: u8 = 0b0000_0111;
const SNAPPY_BIT: u8 = 0b0000_1000;
const ZSTD_BIT: u8 = 0b0001_0000;
/// A record in bytes, compressed or not; Prometheus' own hold a scrape.
const RECORD_BYTES_MAX: usize = 64 << 20;
const READ_AHEAD: usize = 1 << 20;
const WHAT: &str = "a record of the log";

/// The segments, one of them open.
#[derive(Debug)]
pub(super) struct HeadLog {
    segments: std::vec::IntoIter<PathBuf>,
    open: Option<Segment>,
    compressed: Vec<u8>,
    record: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    window: FileWindow,
    at: u64,
}

/// A record, not decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadRecord<'a> {
    /// What it holds; its kind is the first byte.
    pub bytes: &'a [u8],
    /// Where in its segment it begins.
    pub begins: u64,
}

/// A piece of a record.
struct Fragment {
    place: FragmentPosition,
    compression: Compression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FragmentPosition {
    Full,
    First,
    Middle,
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Snappy,
    Zstd,
}

/// What comes next in a segment.
enum Next {
    Fragment(Fragment),
    /// Nothing: the segment is over.
    End,
    /// A piece that isn't whole, up to the segment's end.
    Torn,
}

impl HeadLog {
    /// Of these segments, in their order.
    pub(super) fn new(segments: Vec<PathBuf>) -> Self {
        Self { segments: segments.into_iter(), open: None, compressed: Vec::new(), record: Vec::new() }
    }

    /// The next record; `None` at the log's end. After a fault there is none to be had.
    pub(super) fn next(&mut self) -> Result<Option<HeadRecord<'_>>, BlockError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.segments.next() else { return Ok(None) };
                self.open = Some(Segment { window: FileWindow::open(&path, READ_AHEAD)?, at: 0 });
            }
            match self.next_in_segment()? {
                Some((begins, compression)) => {
                    self.decompress(begins, compression)?;
                    return Ok(Some(HeadRecord { bytes: &self.record, begins }));
                }
                None => self.open = None,
            }
        }
    }

    /// The fault of a record that was read.
    pub(super) fn error_in_segment(&self, error: BlockSectionError) -> BlockError {
        error.of(self.open.as_ref().map_or(std::path::Path::new("wal"), |segment| segment.window.path()))
    }

    /// Gathers a record's fragments. Where it begins, and how it is compressed; `None` at the segment's end.
    fn next_in_segment(&mut self) -> Result<Option<(u64, Compression)>, BlockError> {
        let is_last = self.segments.len() == 0;
        let Some(segment) = &mut self.open else { return Ok(None) };
        self.compressed.clear();
        let mut begun = None;
        loop {
            let begins = segment.at;
            let fragment = match segment.next(&mut self.compressed)? {
                Next::Fragment(fragment) => fragment,
                Next::End if begun.is_none() => return Ok(None),
                // Only the last segment is still being written.
                Next::End | Next::Torn if is_last => return Ok(None),
                Next::End | Next::Torn => {
                    return Err(segment.error_at(begins, BlockErrorKind::EndsEarly { what: WHAT }));
                }
            };
            if self.compressed.len() > RECORD_BYTES_MAX {
                return Err(segment.error_at(begins, too_large(self.compressed.len() as u64)));
            }
            let (begun_at, compression) = match (fragment.place, begun) {
                (FragmentPosition::Full | FragmentPosition::First, None) => (begins, fragment.compression),
                (FragmentPosition::Middle | FragmentPosition::Last, Some(begun)) => begun,
                (FragmentPosition::Full | FragmentPosition::First, Some(_))
                | (FragmentPosition::Middle | FragmentPosition::Last, None) => {
                    return Err(
                        segment.error_at(begins, BlockErrorKind::NotA { what: "a record's next fragment" })
                    );
                }
            };
            match fragment.place {
                FragmentPosition::Full | FragmentPosition::Last => return Ok(Some((begun_at, compression))),
                FragmentPosition::First | FragmentPosition::Middle => begun = Some((begun_at, compression)),
            }
        }
    }

    fn decompress(&mut self, begins: u64, compression: Compression) -> Result<(), BlockError> {
        let done = match compression {
            Compression::None => {
                std::mem::swap(&mut self.record, &mut self.compressed);
                Ok(())
            }
            Compression::Snappy => snappy(&self.compressed, &mut self.record),
            Compression::Zstd => zstd(&self.compressed, &mut self.record),
        };
        done.map_err(|problem| self.error_in_segment(BlockSectionError::new(begins, problem)))
    }
}

impl Segment {
    /// Appends what the next fragment holds.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Next, BlockError> {
        loop {
            let page_left = PAGE_BYTES - self.at % PAGE_BYTES;
            if self.at >= self.window.file_len() {
                return Ok(Next::End);
            }
            let head = self.window.at_most(self.at, HEAD_BYTES.min(page_left as usize))?;
            // What is left of a page is zeros where no fragment fits or is wanted there.
            if head.len() < HEAD_BYTES || head[0] & KIND_BITS == 0 {
                if head.iter().any(|byte| *byte != 0) {
                    return Ok(Next::Torn);
                }
                self.at += page_left;
                continue;
            }
            return self.fragment(page_left, bytes);
        }
    }

    fn fragment(&mut self, page_left: u64, bytes: &mut Vec<u8>) -> Result<Next, BlockError> {
        let (at, path) = (self.at, self.window.path().to_owned());
        let mut head = Cursor::new(self.window.at_most(at, HEAD_BYTES)?, at, WHAT);
        let read = head.u8().and_then(|first| Ok((first, usize::from(head.u16()?), head.u32()?)));
        let (first, len, sum) = read.map_err(|error| error.of(&path))?;
        let fragment =
            Fragment::of(first).ok_or_else(|| self.error_at(at, BlockErrorKind::NotA { what: WHAT }))?;
        if (HEAD_BYTES + len) as u64 > page_left {
            return Err(self.error_at(at, BlockErrorKind::EndsEarly { what: WHAT }));
        }
        let content = self.window.at_most(at + HEAD_BYTES as u64, len)?;
        if content.len() < len {
            return Ok(Next::Torn);
        }
        if crc32c::crc32c(content) != sum {
            return Err(self.error_at(at, BlockErrorKind::Checksum { what: WHAT }));
        }
        bytes.extend_from_slice(content);
        self.at += (HEAD_BYTES + len) as u64;
        Ok(Next::Fragment(fragment))
    }

    fn error_at(&self, at: u64, problem: BlockErrorKind) -> BlockError {
        BlockSectionError::new(at, problem).of(self.window.path())
    }
}

impl Fragment {
    fn of(first: u8) -> Option<Self> {
        let place = match first & KIND_BITS {
            1 => FragmentPosition::Full,
            2 => FragmentPosition::First,
            3 => FragmentPosition::Middle,
            4 => FragmentPosition::Last,
            _unknown => return None,
        };
        let compression = match first & !KIND_BITS {
            0 => Compression::None,
            SNAPPY_BIT => Compression::Snappy,
            ZSTD_BIT => Compression::Zstd,
            _unknown => return None,
        };
        Some(Self { place, compression })
    }
}

fn snappy(compressed: &[u8], record: &mut Vec<u8>) -> Result<(), BlockErrorKind> {
    let failed = |error: snap::Error| BlockErrorKind::Compression(error.into());
    let len = snap::raw::decompress_len(compressed).map_err(failed)?;
    if len > RECORD_BYTES_MAX {
        return Err(too_large(len as u64));
    }
    record.resize(len, 0);
    snap::raw::Decoder::new().decompress(compressed, record).map_err(failed)?;
    Ok(())
}

fn zstd(compressed: &[u8], record: &mut Vec<u8>) -> Result<(), BlockErrorKind> {
    record.clear();
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed);
    let decoder = decoder.map_err(|error| BlockErrorKind::Compression(error.into()))?;
    // One byte more says that there would be more.
    let read = decoder.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(record);
    read.map_err(|error| BlockErrorKind::Compression(error.into()))?;
    if record.len() > RECORD_BYTES_MAX { Err(too_large(record.len() as u64)) } else { Ok(()) }
}

fn too_large(bytes: u64) -> BlockErrorKind {
    BlockErrorKind::TooLarge { what: WHAT, bytes, bytes_max: RECORD_BYTES_MAX as u64 }
}
