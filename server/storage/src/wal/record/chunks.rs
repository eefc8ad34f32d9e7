//! The Chunks record of checkpoints: what each series holds, as bytes. Knows nothing of how
//! samples lie in a chunk.
use std::iter::FusedIterator;

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{RefSteps, put_varint, take, take_bytes, take_varint, unzigzag, zigzag};
use super::{RecordError, RecordType};
use silverback_model::SeriesRef;

/// Takes the chunks of series.
pub(super) type ChunksWriter = CountedWriter<WriteChunks>;

/// The former ref: the next one is written as a step from it.
#[derive(Debug, Default)]
pub(super) struct WriteChunks {
    refs: RefSteps,
}

impl WriteEntry for WriteChunks {
    const KIND: RecordType = RecordType::Chunks;
}

impl ChunksWriter {
    pub(super) fn push<'a>(
        &mut self,
        series: SeriesRef,
        sealed: impl Iterator<Item = (i64, i64, &'a [u8])>,
        open: &[u8],
    ) {
        self.put(|writer, entries| {
            writer.refs.put(entries, series);
            put_chunks(entries, sealed, open);
        });
    }
}

/// Appends a series' chunks as a record has them after its ref.
pub(super) fn put_chunks<'a>(
    entries: &mut Vec<u8>,
    sealed: impl Iterator<Item = (i64, i64, &'a [u8])>,
    open: &[u8],
) {
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
}

/// The chunks of some series of a checkpoint; each series has three bytes at least.
pub type ChunksRecord<'a> = CountedRecord<'a, ChunksReader>;

/// All that a record has of a series' samples.
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

/// Reads a series' chunks.
#[derive(Debug, Clone, Default)]
pub struct ChunksReader {
    refs: RefSteps,
}

impl<'a> ReadEntry<'a> for ChunksReader {
    type Entry = SeriesChunks<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        take_chunks(series, rest)
    }
}

/// The chunks of a series whose ref was read.
pub(super) fn take_chunks<'a>(
    series: SeriesRef,
    rest: &mut &'a [u8],
) -> Result<SeriesChunks<'a>, RecordError> {
    let sealed = SealedChunks { rest };
    // Each is looked at here, so that those who iterate over them meet no error.
    while take_sealed(rest)?.is_some() {}
    Ok(SeriesChunks { series, sealed, open: take_bytes(rest)? })
}

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
