//! Which series have each label: a list for each pair of name and value, and the table of where the lists are.

use std::path::Path;

use super::memory::WriterMemory;
use super::output::OutputFile;
use super::runs::SortedRuns;
use super::scratch::{self, ScratchFile};
use super::symbols::SymbolOffsets;
use super::triples::Triple;
use super::watch::WriteWatch;
use super::{BlockWriteError, put_uvarint};

const ENTRY_BYTES: u64 = 4;
const LIST: &str = "the bytes of postings";

/// What the lists are made of.
pub(super) struct PostingsSource<'a> {
    pub dir: &'a Path,
    pub memory: WriterMemory,
    pub symbols: &'a SymbolOffsets,
    /// Of all series, 32 bits each.
    pub references: &'a ScratchFile,
    /// The symbols of name and value and the reference, of each label of each series.
    pub labels: &'a SortedRuns<Triple>,
}

/// Where they begin in the index.
pub(super) struct WrittenPostings {
    pub lists_at: u64,
    pub table_at: u64,
}

/// Writes the lists and their table.
pub(super) fn put(
    index: &mut OutputFile,
    source: &PostingsSource<'_>,
    watch: &mut WriteWatch<'_>,
) -> Result<WrittenPostings, BlockWriteError> {
    let memory = source.memory;
    let written = index.written()?;
    let mut symbols = source.symbols.read(&written, memory);
    // Its entries are made as the lists are, and there is one after the other.
    let mut table =
        Table { out: scratch::create(&source.dir.join("table.spool"), memory.buffer_bytes())?, entries: 0 };
    index.align(ENTRY_BYTES)?;
    let lists_at = index.at();
    table.put(&[], &[], lists_at)?;
    let all = index.begin_section(LIST)?;
    copy(index, source.references, memory, watch)?;
    index.end_section(all, source.references.bytes() / ENTRY_BYTES)?;
    let (mut name, mut value, mut list) = (Vec::new(), Vec::new(), None);
    let mut merge = source.labels.read()?;
    while let Some(triple) = merge.next()? {
        let (name_ordinal, value_ordinal, reference) = triple.numbers();
        let pair = (name_ordinal, value_ordinal);
        let open = match list.take() {
            Some(List { pair: own, section, series }) if own == pair => {
                List { pair, section, series: series + 1 }
            }
            before => {
                let name_before = before.as_ref().map(|list: &List| list.pair.0);
                end(index, before)?;
                if name_before != Some(name_ordinal) {
                    symbols.read(name_ordinal, &mut name)?;
                }
                symbols.read(value_ordinal, &mut value)?;
                table.put(&name, &value, index.at())?;
                List { pair, section: index.begin_section(LIST)?, series: 1 }
            }
        };
        list = Some(open);
        index.put(&reference.to_be_bytes())?;
        index.sync_much()?;
        watch.step(ENTRY_BYTES as usize)?;
    }
    end(index, list)?;
    let table_at = index.at();
    let section = index.begin_section("the bytes of the table")?;
    let Table { mut out, entries } = table;
    copy(index, &out.written()?, memory, watch)?;
    index.end_section(section, entries)?;
    Ok(WrittenPostings { lists_at, table_at })
}

/// A list while it is written.
struct List {
    pair: (u32, u32),
    section: super::output::Section,
    series: u64,
}

fn end(index: &mut OutputFile, list: Option<List>) -> Result<(), BlockWriteError> {
    list.map_or(Ok(()), |List { section, series, .. }| index.end_section(section, series))
}

struct Table {
    out: OutputFile,
    entries: u64,
}

impl Table {
    /// Adds where a list is.
    fn put(&mut self, name: &[u8], value: &[u8], at: u64) -> Result<(), BlockWriteError> {
        let mut number = vec![2];
        put_uvarint(&mut number, name.len() as u64);
        self.out.put(&number)?;
        self.out.put(name)?;
        number.clear();
        put_uvarint(&mut number, value.len() as u64);
        self.out.put(&number)?;
        self.out.put(value)?;
        number.clear();
        put_uvarint(&mut number, at);
        self.out.put(&number)?;
        self.entries += 1;
        Ok(())
    }
}

fn copy(
    index: &mut OutputFile,
    from: &ScratchFile,
    memory: WriterMemory,
    watch: &mut WriteWatch<'_>,
) -> Result<(), BlockWriteError> {
    let mut reading = from.read(memory.buffer_bytes());
    loop {
        let some = reading.some(usize::MAX)?;
        if some.is_empty() {
            return Ok(());
        }
        index.put(some)?;
        index.sync_much()?;
        watch.step(some.len())?;
    }
}
