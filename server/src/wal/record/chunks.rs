//! The Chunks record of checkpoints: what each series holds, as bytes. Knows nothing of how
//! samples lie in a chunk.
use std::iter::FusedIterator;

use super::varint::{
    RefSteps, end, length, put_varint, take, take_bytes, take_length, take_varint, unzigzag, zigzag,
};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};
use crate::model::SeriesRef;

/// The record's head and the count of series.
const ENTRIES_AT: usize = HEAD_BYTES + 4;

/// Takes the chunks of series.
#[derive(Debug, Default)]
pub(super) struct ChunksWriter {
    count: usize,
    refs: RefSteps,
    entries: Vec<u8>,
    head: [u8; ENTRIES_AT],
}

impl ChunksWriter {
    pub(super) fn push<'a>(
        &mut self,
        series: SeriesRef,
        sealed: impl Iterator<Item = (i64, i64, &'a [u8])>,
        open: &[u8],
    ) {
        let entries = &mut self.entries;
        self.refs.put(entries, series);
        for (min_ms, max_ms, bytes) in sealed {
            // One more than the length: zero ends the list.
            put_varint(entries, bytes.len() as u64 + 1);
            put_varint(entries, zigzag(min_ms));
            put_varint(entries, max_ms.wrapping_sub(min_ms) as u64);
            entries.extend_from_slice(bytes);
        }
        put_varint(entries, 0);
        put_varint(entries, open.len() as u64);
        entries.extend_from_slice(open);
        self.count += 1;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ENTRIES_AT + self.entries.len() }
    }

    pub(super) fn finish(&mut self) {
        let content_bytes = ENTRIES_AT - HEAD_BYTES + self.entries.len();
        self.head[..HEAD_BYTES].copy_from_slice(&head(RecordType::Chunks, content_bytes));
        self.head[HEAD_BYTES..].copy_from_slice(&length(self.count));
    }

    /// The record since it was finished.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        if self.is_empty() { [&[]; 2] } else { [&self.head, &self.entries] }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.refs = RefSteps::default();
        self.entries.clear();
        self.entries.shrink_to(STAGING_KEPT_BYTES);
    }
}

/// The chunks of some series of a checkpoint.
#[derive(Debug, Clone)]
pub struct ChunksRecord<'a> {
    count: usize,
    entries: &'a [u8],
}

impl<'a> ChunksRecord<'a> {
    pub(super) fn parse(mut rest: &'a [u8]) -> Result<Self, RecordError> {
        let count = take_length(&mut rest)?;
        Ok(Self { count, entries: rest })
    }

    /// How many series it says that it holds; each has three bytes at the least.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The series with their chunks. Nothing comes after an error.
    pub fn iter(&self) -> ChunksIter<'a> {
        ChunksIter { left: Some(self.count), refs: RefSteps::default(), rest: self.entries }
    }
}

impl<'a> IntoIterator for &ChunksRecord<'a> {
    type Item = Result<SeriesChunks<'a>, RecordError>;
    type IntoIter = ChunksIter<'a>;

    fn into_iter(self) -> ChunksIter<'a> {
        self.iter()
    }
}

/// All that a checkpoint has of a series' samples.
#[derive(Debug, Clone)]
pub struct SeriesChunks<'a> {
    /// What the log calls it.
    pub series: SeriesRef,
    /// Its sealed chunks, in the order in which they were given: oldest first.
    pub sealed: SealedChunks<'a>,
    /// Its open chunk as if it had been sealed then; empty where it had none.
    pub open: &'a [u8],
}

/// A sealed chunk's bytes and the time that it is said to cover. Only its decoder can tell whether
/// these bytes are a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedBytes<'a> {
    /// The oldest sample's timestamp.
    pub min_ms: i64,
    /// The newest sample's timestamp, not below the oldest.
    pub max_ms: i64,
    /// The chunk.
    pub bytes: &'a [u8],
}

/// Iterates over the series of a [`ChunksRecord`].
#[derive(Debug, Clone)]
pub struct ChunksIter<'a> {
    left: Option<usize>,
    refs: RefSteps,
    rest: &'a [u8],
}

impl<'a> ChunksIter<'a> {
    fn take(&mut self) -> Result<SeriesChunks<'a>, RecordError> {
        let series = self.refs.take(&mut self.rest)?;
        let sealed = SealedChunks { rest: self.rest };
        // Each is looked at here, so that those who iterate over them meet no error.
        while take_sealed(&mut self.rest)?.is_some() {}
        Ok(SeriesChunks { series, sealed, open: take_bytes(&mut self.rest)? })
    }
}

impl<'a> Iterator for ChunksIter<'a> {
    type Item = Result<SeriesChunks<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.take()?;
        if left == 0 {
            return end(self.rest).err().map(Err);
        }
        let taken = self.take();
        self.left = taken.is_ok().then_some(left - 1);
        Some(taken)
    }
}

impl FusedIterator for ChunksIter<'_> {}

/// Iterates over the sealed chunks of a series.
#[derive(Debug, Clone)]
pub struct SealedChunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for SealedChunks<'a> {
    type Item = SealedBytes<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest;
        let sealed = take_sealed(&mut rest).ok().flatten()?;
        // Only past a chunk: at the end of the list it stays, and ends again.
        self.rest = rest;
        Some(sealed)
    }
}

impl FusedIterator for SealedChunks<'_> {}

/// The next chunk of a list, if there is one more.
fn take_sealed<'a>(rest: &mut &'a [u8]) -> Result<Option<SealedBytes<'a>>, RecordError> {
    let Some(bytes) = take_varint(rest)?.checked_sub(1) else { return Ok(None) };
    let min_ms = unzigzag(take_varint(rest)?);
    let max_ms = min_ms.checked_add_unsigned(take_varint(rest)?).ok_or(RecordError::TimeOutOfRange)?;
    let bytes = take(rest, usize::try_from(bytes).map_err(|_| RecordError::Truncated)?)?;
    Ok(Some(SealedBytes { min_ms, max_ms, bytes }))
}
