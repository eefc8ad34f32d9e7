//! The Replaced record: what is left of series of which samples were deleted.
//!
//! In its group, samples of such a series may have been stored before and after: how many samples the group had
//! by then says which of them it has already, or hasn't any more.

use super::chunks::{SeriesChunks, put_chunks, take_chunks};
use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{RefSteps, put_varint, take_varint};
use super::{RecordError, RecordType};
use silverback_model::SeriesRef;

/// Takes what is left of series.
pub(super) type ReplacedWriter = CountedWriter<WriteReplaced>;

/// The former ref: the next one is written as a step from it.
#[derive(Debug, Default)]
pub(super) struct WriteReplaced {
    refs: RefSteps,
}

impl WriteEntry for WriteReplaced {
    const KIND: RecordType = RecordType::Replaced;
}

impl ReplacedWriter {
    pub(super) fn push<'a>(
        &mut self,
        series: SeriesRef,
        samples_before: usize,
        sealed: impl Iterator<Item = (i64, i64, &'a [u8])>,
        open: &[u8],
    ) {
        self.put(|writer, entries| {
            writer.refs.put(entries, series);
            put_varint(entries, samples_before as u64);
            put_chunks(entries, sealed, open);
        });
    }
}

/// What is left of some series; each has four bytes at least.
pub type ReplacedRecord<'a> = CountedRecord<'a, ReplacedReader>;

/// What is left of a series.
#[derive(Debug, Clone)]
pub struct Replaced<'a> {
    /// How many of the group's samples, those of all series, came before: of these, the series' own count no more.
    pub samples_before: u64,
    /// All that it held then.
    pub chunks: SeriesChunks<'a>,
}

/// Reads what is left of a series.
#[derive(Debug, Clone, Default)]
pub struct ReplacedReader {
    refs: RefSteps,
}

impl<'a> ReadEntry<'a> for ReplacedReader {
    type Entry = Replaced<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        let samples_before = take_varint(rest)?;
        Ok(Replaced { samples_before, chunks: take_chunks(series, rest)? })
    }
}
