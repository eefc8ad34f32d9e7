//! The files under `chunks/`: chunks one after the other, each with its encoding and a checksum.

use std::path::{Path, PathBuf};

use crate::cursor::Cursor;
use crate::error::{BlockError, BlockErrorKind, BlockSectionError};
use crate::series::ChunkPlace;
use crate::window::FileWindow;
use silverback_model::gorilla::FloatEncoding;
use silverback_model::histogram::HistogramKind;

pub(crate) const MAGIC: u32 = 0x85BD_40DD;
pub(crate) const VERSION: u8 = 1;
pub(crate) const HEAD_BYTES: usize = 8;
/// A chunk in bytes; Prometheus' own hold about a kilobyte.
const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// The newest that is known.
const ENCODING_MAX: u8 = 6;
pub(crate) const VARINT_BYTES_MAX: usize = 10;
const READ_AHEAD: usize = 1 << 20;
pub(crate) const WHAT: &str = "a chunk";

/// What is in a chunk, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// `None`: in an encoding that is known and not decoded here: histograms with start timestamps.
    pub contents: Option<Contents>,
    /// The samples, their count in front.
    pub bytes: &'a [u8],
}

/// What is in a chunk, in the encoding that Prometheus has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Floats.
    Floats(FloatEncoding),
    /// Native histograms.
    Histograms(HistogramKind),
}

impl Contents {
    /// The number that Prometheus gives to the encoding.
    pub const fn encoding(self) -> u8 {
        match self {
            Self::Floats(encoding) => encoding.chunk_encoding(),
            Self::Histograms(kind) => kind.chunk_encoding(),
        }
    }

    /// `None`: of none that is known. `Some(None)`: of one that isn't decoded here.
    const fn of(encoding: u8) -> Option<Option<Self>> {
        match (FloatEncoding::of_chunk_encoding(encoding), HistogramKind::of_chunk_encoding(encoding)) {
            (Some(encoding), _) => Some(Some(Self::Floats(encoding))),
            (None, Some(kind)) => Some(Some(Self::Histograms(kind))),
            (None, None) if 1 <= encoding && encoding <= ENCODING_MAX => Some(None),
            (None, None) => None,
        }
    }
}

/// The files, one of them open. Chunks are asked for in the order in which they were written.
#[derive(Debug)]
pub(crate) struct ChunkFiles {
    paths: Vec<PathBuf>,
    open: Option<(usize, FileWindow)>,
}

impl ChunkFiles {
    /// Finds the files.
    pub(crate) fn list(dir: &Path) -> Result<Self, BlockError> {
        Ok(Self { paths: list(dir)?, open: None })
    }

    pub(crate) fn read(&mut self, place: ChunkPlace) -> Result<Chunk<'_>, BlockError> {
        let (number, offset) = split(place);
        let window = self.file(number)?;
        let path = window.path().to_owned();
        let located = locate(window.at_most(offset, VARINT_BYTES_MAX)?, offset);
        let (begins, len) = located.map_err(|error| error.of(&path))?;
        // The encoding before it and the checksum after it aren't counted in its length.
        let bytes = window.exactly(begins, 1 + len + 4, WHAT)?;
        parse(bytes, offset).map_err(|error| error.of(&path))
    }

    /// Compares the checksum of the chunk at a place, without holding more of it than a window does. How long it is.
    pub(crate) fn check(&mut self, place: ChunkPlace) -> Result<u64, BlockError> {
        let (number, offset) = split(place);
        let window = self.file(number)?;
        let path = window.path().to_owned();
        let located = locate(window.at_most(offset, VARINT_BYTES_MAX)?, offset);
        let (begins, len) = located.map_err(|error| error.of(&path))?;
        let end = begins + 1 + len as u64;
        let sum = Cursor::new(window.exactly(end, 4, WHAT)?, end, WHAT).u32();
        window.check(begins, end, sum.map_err(|error| error.of(&path))?, WHAT)?;
        Ok(end + 4 - offset)
    }

    /// The fault of the chunk at a place.
    pub(crate) fn error_at(&self, place: ChunkPlace, problem: BlockErrorKind) -> BlockError {
        let (number, offset) = split(place);
        let path = self.paths.get(number).map_or(Path::new("chunks"), PathBuf::as_path);
        BlockSectionError::new(offset, problem).of(path)
    }

    fn file(&mut self, number: usize) -> Result<&mut FileWindow, BlockError> {
        let opened = match self.open.take() {
            Some((open, window)) if open == number => window,
            Some(_) | None => self.open_file(number)?,
        };
        Ok(&mut self.open.insert((number, opened)).1)
    }

    fn open_file(&self, number: usize) -> Result<FileWindow, BlockError> {
        let no_such = || {
            let dir = self.paths.first().and_then(|path| path.parent()).unwrap_or(Path::new("chunks"));
            BlockSectionError::new(0, BlockErrorKind::NoSuch { what: "chunk file", number: number as u64 })
                .of(dir)
        };
        let mut window = FileWindow::open(self.paths.get(number).ok_or_else(no_such)?, READ_AHEAD)?;
        let path = window.path().to_owned();
        let head = window.exactly(0, HEAD_BYTES, "the head")?;
        check_head(head).map_err(|error| error.of(&path))?;
        Ok(window)
    }
}

/// The files, numbered by their order, whatever their names count from.
pub(crate) fn list(dir: &Path) -> Result<Vec<PathBuf>, BlockError> {
    let list = || {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_number = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
            paths.extend(is_number.then(|| entry.path()));
        }
        paths.sort();
        Ok(paths)
    };
    let listed: std::io::Result<_> = list();
    listed.map_err(|error| BlockSectionError::new(0, error).of(dir))
}

/// The file's number and the offset in it.
pub(crate) const fn split(place: ChunkPlace) -> (usize, u64) {
    ((place.reference >> 32) as usize, place.reference & u32::MAX as u64)
}

pub(crate) fn check_head(head: &[u8]) -> Result<(), BlockSectionError> {
    Cursor::new(head, 0, "the head").check_head(MAGIC, VERSION, "a chunk file of version 1")
}

/// Where a chunk's encoding is, whose first bytes are `head`, and how many bytes of samples come after it.
pub(crate) fn locate(head: &[u8], offset: u64) -> Result<(u64, usize), BlockSectionError> {
    let mut head = Cursor::new(head, offset, WHAT);
    let len = check_len(head.uvarint()?, offset)?;
    Ok((head.offset(), len))
}

fn check_len(len: u64, offset: u64) -> Result<usize, BlockSectionError> {
    if len > CHUNK_BYTES_MAX {
        let problem = BlockErrorKind::TooLarge { what: WHAT, bytes: len, bytes_max: CHUNK_BYTES_MAX };
        return Err(BlockSectionError::new(offset, problem));
    }
    Ok(len as usize)
}

/// `bytes` are the encoding, the samples and the checksum over both.
pub(crate) fn parse(bytes: &[u8], offset: u64) -> Result<Chunk<'_>, BlockSectionError> {
    let (summed, sum) = bytes.split_at(bytes.len() - 4);
    if sum != crc32c::crc32c(summed).to_be_bytes() {
        return Err(BlockSectionError::new(offset, BlockErrorKind::Checksum { what: WHAT }));
    }
    let what = "a known chunk encoding";
    let contents =
        Contents::of(summed[0]).ok_or(BlockSectionError::new(offset, BlockErrorKind::NotA { what }))?;
    Ok(Chunk { contents, bytes: &summed[1..] })
}
