//! Which files of a data directory hold its head. Reads no file.

use std::io;
use std::path::{Path, PathBuf};

use silverback_block::error::{BlockError, BlockErrorKind, BlockSectionError};

const CHECKPOINT: &str = "checkpoint.";

/// The head's files, as they were when it was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadFiles {
    /// The write-ahead log's segments in their order: those of the newest checkpoint, then those after it. They
    /// have every sample of the head; `chunks_head` has the same once more.
    pub segments: Vec<PathBuf>,
    /// The log of samples that came out of order, in bytes: these are in no other file.
    pub out_of_order_bytes: u64,
    /// Whether there are chunks of the head, but no log that names their series.
    pub log_is_missing: bool,
}

impl HeadFiles {
    /// Those of the data directory `dir`; none where it has no head.
    pub(crate) fn find(dir: &Path) -> Result<Option<Self>, BlockError> {
        let segments = log_segments(&dir.join("wal"))?;
        let files = Self {
            log_is_missing: segments.is_empty() && bytes_in(&dir.join("chunks_head"))? > 0,
            out_of_order_bytes: bytes_in(&dir.join("wbl"))?,
            segments,
        };
        let is_any = !files.segments.is_empty() || files.out_of_order_bytes > 0 || files.log_is_missing;
        Ok(is_any.then_some(files))
    }
}

/// A file or directory with a number.
type Numbered = (u64, PathBuf);

fn log_segments(wal: &Path) -> Result<Vec<PathBuf>, BlockError> {
    // Before the segments: those that a newer checkpoint takes the place of go away after it is there.
    let checkpoint = numbered(wal, CHECKPOINT)?.pop();
    let first = checkpoint.as_ref().map_or(0, |(number, _)| number + 1);
    let after = numbered(wal, "")?.into_iter().filter(|(number, _)| *number >= first).collect();
    let mut segments = match &checkpoint {
        Some((_, dir)) => in_sequence(dir, numbered(dir, "")?)?,
        None => Vec::new(),
    };
    segments.extend(in_sequence(wal, after)?);
    Ok(segments)
}

fn in_sequence(dir: &Path, numbered: Vec<Numbered>) -> Result<Vec<PathBuf>, BlockError> {
    for pair in numbered.windows(2) {
        let number = pair[0].0 + 1;
        if pair[1].0 != number {
            return Err(BlockSectionError::new(0, BlockErrorKind::NoSuch { what: "segment", number }).of(dir));
        }
    }
    Ok(numbered.into_iter().map(|(_, path)| path).collect())
}

/// What is called `prefix` and a number, by number.
fn numbered(dir: &Path, prefix: &str) -> Result<Vec<Numbered>, BlockError> {
    let mut found = Vec::new();
    for path in entries(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let digits = name.strip_prefix(prefix).filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        found.extend(digits.and_then(|digits| Some((digits.parse().ok()?, path.clone()))));
    }
    found.sort();
    Ok(found)
}

fn bytes_in(dir: &Path) -> Result<u64, BlockError> {
    let sum = |sum: u64, path: PathBuf| Ok(sum + std::fs::metadata(path)?.len());
    entries(dir)?
        .into_iter()
        .try_fold(0, sum)
        .map_err(|error: io::Error| BlockSectionError::new(0, error).of(dir))
}

/// None where there is no such directory.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, BlockError> {
    let list = || std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| BlockSectionError::new(0, error).of(dir)),
    }
}
