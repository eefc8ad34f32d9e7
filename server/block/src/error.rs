//! What can be wrong with the files of a block or of a head, and where.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// A file of a block or of a head can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{}, byte {offset}: {problem}", path.display())]
pub struct BlockError {
    path: PathBuf,
    offset: u64,
    problem: BlockErrorKind,
}

impl BlockError {
    /// Whether it may be gone at the next try, because the system failed to read what may well be whole.
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{
            InvalidData, InvalidInput, IsADirectory, NotADirectory, NotFound, UnexpectedEof,
        };

        let BlockErrorKind::Io(error) = &self.problem else { return false };
        !matches!(
            error.kind(),
            InvalidData | InvalidInput | IsADirectory | NotADirectory | NotFound | UnexpectedEof
        )
    }
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum BlockErrorKind {
    /// The file can't be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Something begins that doesn't end within its section or file.
    #[error("{what} goes on past the end")]
    EndsEarly {
        /// What it is.
        what: &'static str,
    },
    /// A number is written with more bytes than 64 bits need.
    #[error("a varint is longer than 64 bits")]
    VarintTooLong,
    /// The bytes aren't those that were written.
    #[error("the checksum of {what} is wrong")]
    Checksum {
        /// What it is the checksum of.
        what: &'static str,
    },
    /// The file isn't what its name says, or of a later version.
    #[error("not {what}")]
    NotA {
        /// What was expected.
        what: &'static str,
    },
    /// Something is larger than whoever writes blocks makes it.
    #[error("{what} of {bytes} bytes is larger than {bytes_max}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How large it says it is.
        bytes: u64,
        /// How large it may be.
        bytes_max: u64,
    },
    /// A reference leads nowhere.
    #[error("{what} {number} does not exist")]
    NoSuch {
        /// What it refers to.
        what: &'static str,
        /// The reference.
        number: u64,
    },
    /// Times or references that 64 bits don't hold.
    #[error("{what} overflows")]
    Overflows {
        /// What does.
        what: &'static str,
    },
    /// A name or value isn't text.
    #[error("a symbol isn't UTF-8")]
    NotUtf8,
    /// `meta.json` isn't what it should be.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// What is compressed can't be decompressed.
    #[error("{0}")]
    Compression(#[source] Box<dyn Error + Send + Sync>),
    /// A chunk whose samples can't be decoded.
    #[error("{0}")]
    Samples(#[source] Box<dyn Error + Send + Sync>),
}

/// A problem within a piece of a file.
#[derive(Debug)]
pub struct BlockSectionError {
    /// Where in the file.
    pub offset: u64,
    /// What it is.
    pub problem: BlockErrorKind,
}

impl BlockSectionError {
    /// At that place of a file.
    pub fn new(offset: u64, problem: impl Into<BlockErrorKind>) -> Self {
        Self { offset, problem: problem.into() }
    }

    /// The fault that it is in this file.
    pub fn of(self, path: &Path) -> BlockError {
        BlockError { path: path.to_owned(), offset: self.offset, problem: self.problem }
    }
}
