//! The Removed record: the series that went, by ref and id.
use std::iter::FusedIterator;

use super::varint::{RefSteps, end, length, take_array, take_length};
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
        RemovedIter { left: Some(self.count), refs: RefSteps::default(), rest: self.entries }
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
#[derive(Debug, Clone)]
pub struct RemovedIter<'a> {
    left: Option<usize>,
    refs: RefSteps,
    rest: &'a [u8],
}

impl RemovedIter<'_> {
    fn take(&mut self) -> Result<(SeriesRef, SeriesId), RecordError> {
        let series = self.refs.take(&mut self.rest)?;
        Ok((series, SeriesId(u128::from_le_bytes(take_array(&mut self.rest)?))))
    }
}

impl Iterator for RemovedIter<'_> {
    type Item = Result<(SeriesRef, SeriesId), RecordError>;

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

impl FusedIterator for RemovedIter<'_> {}
