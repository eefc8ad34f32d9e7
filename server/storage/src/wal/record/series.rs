//! The Series record: new series with their ids and labels, each text of the record stored once.
use std::hash::BuildHasher;
use std::iter::FusedIterator;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::counted::{Counted, ReadEntry};
use super::varint::{RefSteps, length, put_varint, take, take_array, take_length, take_varint};
use super::{HEAD_BYTES, RecordError, RecordType, STAGING_KEPT_BYTES, head};
use silverback_model::{SeriesId, SeriesRef};

/// The record's head, and the counts of symbols and series and the length of the text.
const ENDS_AT: usize = HEAD_BYTES + 12;

/// Symbols that the table keeps its room for.
const SYMBOLS_KEPT: usize = STAGING_KEPT_BYTES / 64;

/// Takes new series.
#[derive(Debug, Default)]
pub(super) struct SeriesWriter {
    symbols: Symbols,
    /// The symbol numbers of the series that is being written.
    pairs: Vec<u32>,
    count: usize,
    refs: RefSteps,
    entries: Vec<u8>,
    head: [u8; ENDS_AT],
}

/// The texts of a record, numbered in the order in which they are first seen.
#[derive(Debug, Default)]
struct Symbols {
    /// Where each text ends, as the record has it.
    ends: Vec<[u8; 4]>,
    text: Vec<u8>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl SeriesWriter {
    pub(super) fn push<'a>(
        &mut self,
        series: SeriesRef,
        id: SeriesId,
        labels: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        self.pairs.clear();
        for (name, value) in labels {
            let name = self.symbols.number(name);
            let value = self.symbols.number(value);
            self.pairs.extend([name, value]);
        }
        self.refs.put(&mut self.entries, series);
        self.entries.extend(id.0.to_le_bytes());
        put_varint(&mut self.entries, self.pairs.len() as u64 / 2);
        for &number in &self.pairs {
            put_varint(&mut self.entries, u64::from(number));
        }
        self.count += 1;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { HEAD_BYTES + self.content_bytes() }
    }

    fn content_bytes(&self) -> usize {
        let Symbols { ends, text, .. } = &self.symbols;
        ENDS_AT - HEAD_BYTES + ends.as_flattened().len() + text.len() + self.entries.len()
    }

    pub(super) fn finish(&mut self) {
        let head = head(RecordType::Series, self.content_bytes());
        self.head[..HEAD_BYTES].copy_from_slice(&head);
        let lengths = [self.symbols.ends.len(), self.symbols.text.len(), self.count].map(length);
        self.head[HEAD_BYTES..].copy_from_slice(lengths.as_flattened());
    }

    /// The record since it was finished.
    pub(super) fn parts(&self) -> [&[u8]; 4] {
        if self.is_empty() {
            return [&[]; 4];
        }
        [&self.head, self.symbols.ends.as_flattened(), &self.symbols.text, &self.entries]
    }

    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.pairs.clear();
        self.count = 0;
        self.refs = RefSteps::default();
        self.entries.clear();
        self.entries.shrink_to(STAGING_KEPT_BYTES);
    }
}

impl Symbols {
    fn number(&mut self, text: &[u8]) -> u32 {
        let Self { ends, text: texts, numbers, hasher } = self;
        let hash = hasher.hash_one(text);
        if let Some(&number) = numbers.find(hash, |&number| text_of(ends, texts, number) == text) {
            return number;
        }
        let number = u32::from_le_bytes(length(ends.len()));
        texts.extend_from_slice(text);
        ends.push(length(texts.len()));
        numbers.insert_unique(hash, number, |&number| hasher.hash_one(text_of(ends, texts, number)));
        number
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.ends.shrink_to(SYMBOLS_KEPT);
        self.text.clear();
        self.text.shrink_to(STAGING_KEPT_BYTES);
        self.numbers.clear();
        if self.numbers.capacity() > 2 * SYMBOLS_KEPT {
            self.numbers = HashTable::new();
        }
    }
}

fn text_of<'a>(ends: &[[u8; 4]], texts: &'a [u8], number: u32) -> &'a [u8] {
    let end = |number: usize| u32::from_le_bytes(ends[number]) as usize;
    let number = number as usize;
    let begin = if number == 0 { 0 } else { end(number - 1) };
    &texts[begin..end(number)]
}

/// The series that were made in a group, or that a checkpoint has.
#[derive(Debug, Clone)]
pub struct SeriesRecord<'a> {
    symbols: SymbolTable<'a>,
    count: usize,
    entries: &'a [u8],
}

/// The texts of a record, in place.
#[derive(Debug, Clone, Copy)]
struct SymbolTable<'a> {
    ends: &'a [[u8; 4]],
    text: &'a str,
}

impl<'a> SeriesRecord<'a> {
    pub(super) fn parse(mut rest: &'a [u8]) -> Result<Self, RecordError> {
        let symbols = take_length(&mut rest)?;
        let text_bytes = take_length(&mut rest)?;
        let count = take_length(&mut rest)?;
        let ends_bytes = symbols.checked_mul(4).ok_or(RecordError::Truncated)?;
        let (ends, _) = take(&mut rest, ends_bytes)?.as_chunks();
        let text = str::from_utf8(take(&mut rest, text_bytes)?).map_err(|_| RecordError::NotUtf8)?;
        Ok(Self { symbols: SymbolTable { ends, text }, count, entries: rest })
    }

    /// How many series it says that it holds; each has 18 bytes at least.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The series. Nothing comes after an error.
    pub fn iter(&self) -> SeriesIter<'a> {
        let reader = SeriesReader { symbols: self.symbols, refs: RefSteps::default() };
        Counted::new(reader, self.count, self.entries)
    }
}

impl<'a> IntoIterator for &SeriesRecord<'a> {
    type Item = Result<NewSeries<'a>, RecordError>;
    type IntoIter = SeriesIter<'a>;

    fn into_iter(self) -> SeriesIter<'a> {
        self.iter()
    }
}

impl<'a> SymbolTable<'a> {
    fn get(&self, number: u64) -> Result<&'a str, RecordError> {
        let no_symbol = RecordError::NoSuchSymbol(number);
        let at = usize::try_from(number).map_err(|_| no_symbol)?;
        let &end = self.ends.get(at).ok_or(no_symbol)?;
        let begin = if at == 0 { [0; 4] } else { self.ends[at - 1] };
        let span = [begin, end].map(|offset| u32::from_le_bytes(offset) as usize);
        // The whole text is UTF-8; a symbol whose end lies within a character isn't.
        self.text.get(span[0]..span[1]).ok_or(RecordError::BadSymbol(number))
    }
}

/// A series as its record has it.
#[derive(Debug, Clone)]
pub struct NewSeries<'a> {
    /// What the log calls it.
    pub series: SeriesRef,
    /// What everybody else calls it.
    pub id: SeriesId,
    /// Its labels in the order in which they were given: names ascending.
    pub labels: RecordLabels<'a>,
}

/// Iterates over the series of a [`SeriesRecord`].
pub type SeriesIter<'a> = Counted<'a, SeriesReader<'a>>;

/// Reads a series with its labels.
#[derive(Debug, Clone)]
pub struct SeriesReader<'a> {
    symbols: SymbolTable<'a>,
    refs: RefSteps,
}

impl<'a> ReadEntry<'a> for SeriesReader<'a> {
    type Entry = NewSeries<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let series = self.refs.take(rest)?;
        let id = SeriesId(u128::from_le_bytes(take_array(rest)?));
        let labels = self.read_labels(rest)?;
        Ok(NewSeries { series, id, labels })
    }
}

impl<'a> SeriesReader<'a> {
    /// Looks at every label, so that those who iterate over them meet no error.
    fn read_labels(&self, rest: &mut &'a [u8]) -> Result<RecordLabels<'a>, RecordError> {
        let count = take_varint(rest)?;
        let numbers = *rest;
        for _ in 0..count {
            for _ in 0..2 {
                self.symbols.get(take_varint(rest)?)?;
            }
        }
        let numbers = &numbers[..numbers.len() - rest.len()];
        Ok(RecordLabels { symbols: self.symbols, numbers })
    }
}

/// Iterates over the labels of a series, as name and value.
#[derive(Debug, Clone)]
pub struct RecordLabels<'a> {
    symbols: SymbolTable<'a>,
    numbers: &'a [u8],
}

impl<'a> RecordLabels<'a> {
    fn take(&mut self) -> Result<&'a str, RecordError> {
        self.symbols.get(take_varint(&mut self.numbers)?)
    }
}

impl<'a> Iterator for RecordLabels<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        // They were all looked at before: only at the end there is none.
        Some((self.take().ok()?, self.take().ok()?))
    }
}

impl FusedIterator for RecordLabels<'_> {}
