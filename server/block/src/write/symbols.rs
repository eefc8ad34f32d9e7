//! The index's symbols: written out of sorted texts, and read again where the table of postings has them.

use std::ops::Range;

use super::memory::WriterMemory;
use super::output::OutputFile;
use super::runs::SortedRuns;
use super::scratch::{ScratchFile, ScratchReader};
use super::texts::NumberedText;
use super::triples::{Triple, Triples};
use super::watch::WriteWatch;
use super::{BlockWriteError, put_uvarint};
use crate::error::BlockErrorKind;

/// What one takes on disk, about.
pub(super) const TRIPLE_BYTES: usize = 5;

/// Where symbols are in the index: of one in so many.
#[derive(Debug)]
pub(super) struct SymbolOffsets {
    /// Of those that are multiples of `every`.
    places: Vec<u32>,
    every: u32,
    places_max: usize,
    /// All of them in the file.
    piece: Range<u64>,
    count: u32,
}

/// Writes the symbols, ascending, and for each text `(0, its number, its symbol's)`.
pub(super) fn put(
    index: &mut OutputFile,
    texts: &SortedRuns<NumberedText>,
    ordinals: &mut Triples,
    memory: WriterMemory,
    watch: &mut WriteWatch<'_>,
) -> Result<SymbolOffsets, BlockWriteError> {
    let section = index.begin_section("the bytes of all symbols")?;
    let places_max = (memory.places_bytes() / size_of::<u32>()).max(2);
    let begin = index.at();
    let mut symbols = SymbolOffsets {
        places: Vec::with_capacity(places_max),
        every: 1,
        places_max,
        piece: begin..begin,
        count: 0,
    };
    let (mut merge, mut last, mut len) = (texts.read()?, None::<Vec<u8>>, Vec::new());
    while let Some(NumberedText { text, number }) = merge.next()? {
        if last.as_ref() != Some(text) {
            symbols.note(index.at())?;
            len.clear();
            put_uvarint(&mut len, text.len() as u64);
            index.put(&len)?;
            index.put(text)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(text);
        }
        ordinals.push(Triple::new(0, *number, symbols.count - 1))?;
        index.sync_much()?;
        watch.step(text.len() + TRIPLE_BYTES)?;
    }
    symbols.piece.end = index.at();
    index.end_section(section, u64::from(symbols.count))?;
    Ok(symbols)
}

impl SymbolOffsets {
    /// The next symbol is there.
    fn note(&mut self, at: u64) -> Result<(), BlockWriteError> {
        let max = u64::from(u32::MAX);
        let too_much = || BlockWriteError::TooMuch { what: "the bytes of all symbols", max };
        let place = u32::try_from(at - self.piece.start).map_err(|_far| too_much())?;
        if self.count.is_multiple_of(self.every) {
            if self.places.len() == self.places_max {
                // One in twice as many.
                let mut number = 0_u32;
                self.places.retain(|_place| {
                    number += 1;
                    number % 2 == 1
                });
                self.every = self.every.checked_mul(2).ok_or_else(too_much)?;
            }
            if self.count.is_multiple_of(self.every) {
                self.places.push(place);
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Reads them out of the index.
    pub(super) fn read<'a>(&'a self, index: &'a ScratchFile, memory: WriterMemory) -> SymbolReader<'a> {
        SymbolReader { symbols: self, index, reading: None, next: 0, buffer_bytes: memory.read_bytes() }
    }
}

/// Finds symbols by their numbers; cheapest, where they ascend.
#[derive(Debug)]
pub(super) struct SymbolReader<'a> {
    symbols: &'a SymbolOffsets,
    index: &'a ScratchFile,
    reading: Option<ScratchReader<'a>>,
    /// Where `reading` is.
    next: u32,
    buffer_bytes: usize,
}

impl SymbolReader<'_> {
    /// Puts a symbol in the place of what is there.
    pub(super) fn read(&mut self, ordinal: u32, text: &mut Vec<u8>) -> Result<(), BlockWriteError> {
        let SymbolOffsets { places, every, piece, .. } = self.symbols;
        let group = ordinal / every;
        let is_ahead = self.next <= ordinal && self.next / every == group;
        let mut reading = match self.reading.take() {
            Some(reading) if is_ahead => reading,
            _elsewhere => {
                let place = places.get(group as usize).copied();
                let from = piece.start + u64::from(place.unwrap_or(u32::MAX));
                self.next = group * every;
                self.index.read_piece(from.min(piece.end), piece.end, self.buffer_bytes)
            }
        };
        while self.next < ordinal {
            let len = reading.uvarint()?;
            reading.skip(len)?;
            self.next += 1;
        }
        let len = reading.uvarint()?;
        if len > piece.end - piece.start {
            return Err(reading.wrong(BlockErrorKind::EndsEarly { what: "a symbol" }));
        }
        text.clear();
        reading.take_into(len as usize, text)?;
        self.next += 1;
        self.reading = Some(reading);
        Ok(())
    }
}

/// From a text's number in its table to its symbol's, for series in the order in which they came.
#[derive(Debug)]
pub(super) struct Ordinals<'a> {
    merge: super::runs::Merge<'a, Triple>,
    /// Of the texts of this table that came until now.
    known: Vec<u32>,
    /// Texts of this table and those before.
    next: u32,
}

impl<'a> Ordinals<'a> {
    pub(super) fn read(sorted: &'a SortedRuns<Triple>) -> Result<Self, BlockWriteError> {
        Ok(Self { merge: sorted.read()?, known: Vec::new(), next: 0 })
    }

    /// The next table begins.
    pub(super) fn next_table(&mut self) {
        self.known.clear();
    }

    /// Of a text; `None` where none was numbered so, because each is numbered as it comes.
    pub(super) fn of(&mut self, number: u32) -> Result<Option<u32>, BlockWriteError> {
        if let Some(ordinal) = self.known.get(number as usize) {
            return Ok(Some(*ordinal));
        }
        let next = self.merge.next()?.map(|triple| triple.numbers());
        let Some((_, text, ordinal)) = next else { return Ok(None) };
        if text != self.next || number as usize != self.known.len() {
            return Ok(None);
        }
        self.next += 1;
        self.known.push(ordinal);
        Ok(Some(ordinal))
    }
}
