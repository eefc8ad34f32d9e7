//! The Removed record: the series that went, by ref and id.

use super::counted::{Counted, ReadEntry};
use super::varint::{RefSteps, length, take_array, take_length};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};
use crate::model::{SeriesId, SeriesRef};

/// The record's head and the count of series.
const ENTRIES_AT: usize = HEAD_BYTES + 4;

/// Takes series that were removed.
#[derive(Debug, Default)]
pub(super) struct RemovedWriter {
    count: usize,
    refs: RefSteps,
    entries: Vec<u8>,
    head: [u8; ENTRIES_AT],
}

impl RemovedWriter {
    pub(super) fn push(&mut self, series: SeriesRef, id: SeriesId) {
        self.refs.put(&mut self.entries, series);
        self.entries.extend(id.0.to_le_bytes());
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
        self.head[..HEAD_BYTES].copy_from_slice(&head(RecordType::Removed, content_bytes));
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

/// The series that were removed in a group.
#[derive(Debug, Clone)]
pub struct RemovedRecord<'a> {
    count: usize,
    entries: &'a [u8],
}

impl<'a> RemovedRecord<'a> {
    pub(super) fn parse(mut rest: &'a [u8]) -> Result<Self, RecordError> {
        let count = take_length(&mut rest)?;
        Ok(Self { count, entries: rest })
    }

    /// How many series it says that it holds; each has 17 bytes at the least.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The series. Nothing comes after an error.
    pub fn iter(&self) -> RemovedIter<'a> {
        Counted::new(RemovedReader::default(), self.count, self.entries)
    }
}

impl<'a> IntoIterator for &RemovedRecord<'a> {
    type Item = Result<(SeriesRef, SeriesId), RecordError>;
    type IntoIter = RemovedIter<'a>;

    fn into_iter(self) -> RemovedIter<'a> {
        self.iter()
    }
}

/// Iterates over the series of a [`RemovedRecord`].
pub type RemovedIter<'a> = Counted<'a, RemovedReader>;

/// Reads a series that was removed.
#[derive(Debug, Clone, Default)]
pub struct RemovedReader {
    refs: RefSteps,
}

impl<'a> ReadEntry<'a> for RemovedReader {
    type Entry = (SeriesRef, SeriesId);

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        Ok((series, SeriesId(u128::from_le_bytes(take_array(rest)?))))
    }
}
