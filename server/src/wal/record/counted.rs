//! Entries with their count in front: read one after the other, with nothing behind the last.

use std::iter::FusedIterator;

use super::RecordError;
use super::varint::end;

/// Reads one kind of entry. What an entry leaves for the next one is the reader's.
pub trait ReadEntry<'a> {
    /// What is read.
    type Entry;

    /// Takes an entry off the bytes.
    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError>;
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
