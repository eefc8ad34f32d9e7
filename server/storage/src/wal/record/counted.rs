//! Records of entries with their count in front: staged one after the other, and read so, with
//! nothing after the last.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::varint::{end, length, take_length};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};

/// The record's head and the count of entries.
const ENTRIES_AT: usize = HEAD_BYTES + 4;

/// Writes one kind of entry. What an entry leaves for the next one is the writer's.
pub(super) trait WriteEntry: Default {
    /// The type of the record that has them.
    const KIND: RecordType;
}

/// Stages the entries of a record.
#[derive(Debug, Default)]
pub(super) struct CountedWriter<W> {
    writer: W,
    count: usize,
    entries: Vec<u8>,
    head: [u8; ENTRIES_AT],
}

impl<W: WriteEntry> CountedWriter<W> {
    /// Adds the entry that `put` writes.
    pub(super) fn put(&mut self, put: impl FnOnce(&mut W, &mut Vec<u8>)) {
        put(&mut self.writer, &mut self.entries);
        self.count += 1;
    }

    /// What the last entry left for the next one.
    pub(super) const fn writer(&self) -> &W {
        &self.writer
    }

    /// Lets `put` write the last entry again, which it takes off itself.
    pub(super) fn put_again(&mut self, put: impl FnOnce(&mut W, &mut Vec<u8>)) {
        put(&mut self.writer, &mut self.entries);
    }

    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { ENTRIES_AT + self.entries.len() }
    }

    pub(super) fn finish(&mut self) {
        let content_bytes = ENTRIES_AT - HEAD_BYTES + self.entries.len();
        self.head[..HEAD_BYTES].copy_from_slice(&head(W::KIND, content_bytes));
        self.head[HEAD_BYTES..].copy_from_slice(&length(self.count));
    }

    /// The record since it was finished.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        if self.is_empty() { [&[]; 2] } else { [&self.head, &self.entries] }
    }

    pub(super) fn clear(&mut self) {
        self.writer = W::default();
        self.count = 0;
        self.entries.clear();
        self.entries.shrink_to(STAGING_KEPT_BYTES);
    }
}

impl<W> CountedWriter<W> {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Reads one kind of entry. What an entry leaves for the next one is the reader's.
pub trait ReadEntry<'a> {
    /// What is read.
    type Entry;

    /// Takes an entry off the bytes.
    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError>;
}

/// A record whose entries are read by `R`.
pub struct CountedRecord<'a, R> {
    count: usize,
    entries: &'a [u8],
    reader: PhantomData<R>,
}

impl<'a, R: ReadEntry<'a> + Default> CountedRecord<'a, R> {
    pub(super) fn parse(mut rest: &'a [u8]) -> Result<Self, RecordError> {
        let count = take_length(&mut rest)?;
        Ok(Self { count, entries: rest, reader: PhantomData })
    }

    /// How many entries it says that it holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The entries. Nothing comes after an error.
    pub fn iter(&self) -> Counted<'a, R> {
        Counted::new(R::default(), self.count, self.entries)
    }
}

impl<'a, R: ReadEntry<'a> + Default> IntoIterator for &CountedRecord<'a, R> {
    type Item = Result<R::Entry, RecordError>;
    type IntoIter = Counted<'a, R>;

    fn into_iter(self) -> Counted<'a, R> {
        self.iter()
    }
}

// Derived, these would ask for as much of a reader.
impl<R> Clone for CountedRecord<'_, R> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<R> fmt::Debug for CountedRecord<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedRecord").field("count", &self.count).field("entries", &self.entries).finish()
    }
}

/// Iterates over the entries of a record. Nothing comes after an error.
#[derive(Debug, Clone)]
pub struct Counted<'a, R> {
    reader: R,
    left: Option<usize>,
    rest: &'a [u8],
}

impl<'a, R> Counted<'a, R> {
    pub(super) const fn new(reader: R, count: usize, entries: &'a [u8]) -> Self {
        Self { reader, left: Some(count), rest: entries }
    }
}

impl<'a, R: ReadEntry<'a>> Iterator for Counted<'a, R> {
    type Item = Result<R::Entry, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.take()?;
        if left == 0 {
            return end(self.rest).err().map(Err);
        }
        let read = self.reader.read(&mut self.rest);
        self.left = read.is_ok().then_some(left - 1);
        Some(read)
    }
}

impl<'a, R: ReadEntry<'a>> FusedIterator for Counted<'a, R> {}
