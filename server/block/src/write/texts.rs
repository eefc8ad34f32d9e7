//! Texts, each once in a bounded table: where it is full they are sorted and written to disk, and it starts over. All
//! of them are numbered in the order in which they came, and a text that came in two tables has a number of each.

use std::hash::BuildHasher;
use std::path::Path;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::memory::WriterMemory;
use super::runs::{Runs, SortedRecord, SortedRuns};
use super::scratch::ScratchReader;
use super::watch::WriteWatch;
use super::{BlockWriteError, put_uvarint};

/// An entry beside its text: where that ends, its place in the table with its share of free ones, and its number as they
/// are sorted.
const ENTRY_BYTES: usize = size_of::<u32>() + 12 + size_of::<u32>();

/// A text, and its number among all.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NumberedText {
    pub text: Vec<u8>,
    pub number: u32,
}

impl SortedRecord for NumberedText {
    const FILE: &'static str = "texts.run";

    fn put(&self, _before: &mut Self, out: &mut Vec<u8>) {
        put_uvarint(out, self.text.len() as u64);
        out.extend_from_slice(&self.text);
        put_uvarint(out, u64::from(self.number));
    }

    fn read_next(&mut self, from: &mut ScratchReader<'_>) -> Result<(), BlockWriteError> {
        let len = from.uvarint_32("a text")?;
        self.text.clear();
        from.take_into(len as usize, &mut self.text)?;
        self.number = from.uvarint_32("a text's number")?;
        Ok(())
    }
}

/// The table, and what went to disk.
#[derive(Debug)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    bytes_max: usize,
    entries_max: usize,
    /// Texts of the tables before.
    numbered: u32,
    runs: Runs<NumberedText>,
}

impl Texts {
    pub(super) fn create(dir: &Path, memory: WriterMemory) -> Result<Self, BlockWriteError> {
        // A half each: where texts are shorter or longer than entries, it is full before all is taken.
        let bytes_max = memory.texts_bytes() / 2;
        let entries_max = bytes_max / ENTRY_BYTES;
        Ok(Self {
            bytes: Vec::with_capacity(bytes_max),
            ends: Vec::with_capacity(entries_max),
            table: HashTable::with_capacity(entries_max),
            hasher: DefaultHashBuilder::default(),
            bytes_max,
            entries_max,
            numbered: 0,
            runs: Runs::create(dir, memory)?,
        })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.runs.written_bytes()
    }

    /// Whether so many more, of so many bytes together, are to go to a new table. One that is empty takes all.
    pub(super) fn is_full(&self, texts: usize, bytes: usize) -> bool {
        let is_full = self.bytes.len() + bytes > self.bytes_max || self.ends.len() + texts > self.entries_max;
        is_full && !self.ends.is_empty()
    }

    /// A text's number in this table, the next one where it wasn't there.
    pub(super) fn number_of(&mut self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text.as_bytes());
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(number) = self.table.find(hash, |number| text_at(bytes, ends, *number) == text.as_bytes())
        {
            return *number;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as u32);
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        self.table.insert_unique(hash, number, |number| hasher.hash_one(text_at(bytes, ends, *number)));
        number
    }

    /// Writes the table to disk; the next begins without a text.
    pub(super) fn end_table(&mut self) -> Result<(), BlockWriteError> {
        let Self { bytes, ends, table, runs, .. } = self;
        let count = ends.len() as u32;
        let after = self.numbered.checked_add(count);
        let after = after
            .ok_or(BlockWriteError::TooMuch { what: "the texts of all series", max: u64::from(u32::MAX) })?;
        let mut numbers: Vec<u32> = (0..count).collect();
        numbers.sort_unstable_by(|left, right| text_at(bytes, ends, *left).cmp(text_at(bytes, ends, *right)));
        let mut record = NumberedText::default();
        for number in numbers {
            record.text.clear();
            record.text.extend_from_slice(text_at(bytes, ends, number));
            record.number = self.numbered + number;
            runs.put(&record)?;
        }
        runs.end_run();
        self.numbered = after;
        bytes.clear();
        // One series may have had more than a table takes.
        bytes.shrink_to(self.bytes_max);
        ends.clear();
        table.clear();
        Ok(())
    }

    /// All of them by text and number.
    pub(super) fn finish(
        mut self,
        watch: &mut WriteWatch<'_>,
    ) -> Result<SortedRuns<NumberedText>, BlockWriteError> {
        self.end_table()?;
        let Self { bytes, ends, table, runs, .. } = self;
        // What merges takes their place in memory.
        drop((bytes, ends, table));
        runs.finish(watch)
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[u32], number: u32) -> &'a [u8] {
    let begin = (number as usize).checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[begin as usize..ends[number as usize] as usize]
}
