//! Records out of the segments of a write-ahead log, as Prometheus writes them: pages of 32 KiB, a record in one
//! fragment or several, each with its length and a checksum.
//!
//! Reads what there is while Prometheus goes on writing: a record that isn't whole at the log's end is its end. Knows
//! nothing of what records hold.

use std::io::Read;
use std::path::PathBuf;

use silverback_block::cursor::Cursor;
use silverback_block::fault::{BlockFault, Misread, Problem};
use silverback_block::window::Window;

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
pub struct Log {
    segments: std::vec::IntoIter<PathBuf>,
    open: Option<Segment>,
    compressed: Vec<u8>,
    record: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    window: Window,
    at: u64,
}

/// A record, not decoded.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// What it holds; its kind is the first byte.
    pub bytes: &'a [u8],
    /// Where in its segment it begins.
    pub begins: u64,
}

/// A piece of a record.
struct Fragment {
    place: Place,
    compression: Compression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
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

impl Log {
    /// Of these segments, in their order.
    pub fn new(segments: Vec<PathBuf>) -> Self {
        Self { segments: segments.into_iter(), open: None, compressed: Vec::new(), record: Vec::new() }
    }

    /// The next record; `None` at the log's end. After a fault there is none to be had.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, BlockFault> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.segments.next() else { return Ok(None) };
                self.open = Some(Segment { window: Window::open(&path, READ_AHEAD)?, at: 0 });
            }
            match self.next_in_segment()? {
                Some((begins, compression)) => {
                    self.decompress(begins, compression)?;
                    return Ok(Some(Record { bytes: &self.record, begins }));
                }
                None => self.open = None,
            }
        }
    }

    /// The fault of a record that was read.
    pub fn fault(&self, misread: Misread) -> BlockFault {
        misread.of(self.open.as_ref().map_or(std::path::Path::new("wal"), |segment| segment.window.path()))
    }

    /// Gathers a record's fragments. Where it begins, and how it is compressed; `None` at the segment's end.
    fn next_in_segment(&mut self) -> Result<Option<(u64, Compression)>, BlockFault> {
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
                    return Err(segment.fault(begins, Problem::EndsEarly { what: WHAT }));
                }
            };
            if self.compressed.len() > RECORD_BYTES_MAX {
                return Err(segment.fault(begins, too_large(self.compressed.len() as u64)));
            }
            let (begun_at, compression) = match (fragment.place, begun) {
                (Place::Full | Place::First, None) => (begins, fragment.compression),
                (Place::Middle | Place::Last, Some(begun)) => begun,
                (Place::Full | Place::First, Some(_)) | (Place::Middle | Place::Last, None) => {
                    return Err(segment.fault(begins, Problem::NotA { what: "a record's next fragment" }));
                }
            };
            match fragment.place {
                Place::Full | Place::Last => return Ok(Some((begun_at, compression))),
                Place::First | Place::Middle => begun = Some((begun_at, compression)),
            }
        }
    }

    fn decompress(&mut self, begins: u64, compression: Compression) -> Result<(), BlockFault> {
        let done = match compression {
            Compression::None => {
                std::mem::swap(&mut self.record, &mut self.compressed);
                Ok(())
            }
            Compression::Snappy => snappy(&self.compressed, &mut self.record),
            Compression::Zstd => zstd(&self.compressed, &mut self.record),
        };
        done.map_err(|problem| self.fault(Misread::new(begins, problem)))
    }
}

impl Segment {
    /// Appends what the next fragment holds.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Next, BlockFault> {
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

    fn fragment(&mut self, page_left: u64, bytes: &mut Vec<u8>) -> Result<Next, BlockFault> {
        let (at, path) = (self.at, self.window.path().to_owned());
        let mut head = Cursor::new(self.window.at_most(at, HEAD_BYTES)?, at, WHAT);
        let read = head.u8().and_then(|first| Ok((first, usize::from(head.u16()?), head.u32()?)));
        let (first, len, sum) = read.map_err(|misread| misread.of(&path))?;
        let fragment = Fragment::of(first).ok_or_else(|| self.fault(at, Problem::NotA { what: WHAT }))?;
        if (HEAD_BYTES + len) as u64 > page_left {
            return Err(self.fault(at, Problem::EndsEarly { what: WHAT }));
        }
        let content = self.window.at_most(at + HEAD_BYTES as u64, len)?;
        if content.len() < len {
            return Ok(Next::Torn);
        }
        if crc32c::crc32c(content) != sum {
            return Err(self.fault(at, Problem::Checksum { what: WHAT }));
        }
        bytes.extend_from_slice(content);
        self.at += (HEAD_BYTES + len) as u64;
        Ok(Next::Fragment(fragment))
    }

    fn fault(&self, at: u64, problem: Problem) -> BlockFault {
        Misread::new(at, problem).of(self.window.path())
    }
}

impl Fragment {
    fn of(first: u8) -> Option<Self> {
        let place = match first & KIND_BITS {
            1 => Place::Full,
            2 => Place::First,
            3 => Place::Middle,
            4 => Place::Last,
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

fn snappy(compressed: &[u8], record: &mut Vec<u8>) -> Result<(), Problem> {
    let failed = |error: snap::Error| Problem::Compression(error.into());
    let len = snap::raw::decompress_len(compressed).map_err(failed)?;
    if len > RECORD_BYTES_MAX {
        return Err(too_large(len as u64));
    }
    record.resize(len, 0);
    snap::raw::Decoder::new().decompress(compressed, record).map_err(failed)?;
    Ok(())
}

fn zstd(compressed: &[u8], record: &mut Vec<u8>) -> Result<(), Problem> {
    record.clear();
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed);
    let decoder = decoder.map_err(|error| Problem::Compression(error.into()))?;
    // One byte more tells that there would be more.
    let read = decoder.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(record);
    read.map_err(|error| Problem::Compression(error.into()))?;
    if record.len() > RECORD_BYTES_MAX { Err(too_large(record.len() as u64)) } else { Ok(()) }
}

fn too_large(bytes: u64) -> Problem {
    Problem::TooLarge { what: WHAT, bytes, bytes_max: RECORD_BYTES_MAX as u64 }
}
