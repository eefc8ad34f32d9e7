//! The index, out of what a writer has collected: symbols, series, postings and their table, the table of contents.

use std::path::Path;

use super::memory::WriterMemory;
use super::output::OutputFile;
use super::postings::{self, PostingsSource};
use super::scratch::{self, ScratchFile};
use super::spool::{Spool, SpoolRecords};
use super::symbols::{self, Ordinals, TRIPLE_BYTES};
use super::texts::Texts;
use super::triples::{Triple, Triples};
use super::watch::WriteWatch;
use super::{BlockWriteError, put_uvarint};
use crate::cursor::Cursor;
use crate::error::{BlockErrorKind, BlockSectionError};
use crate::series::ALIGNMENT;
use crate::toc::{MAGIC, VERSION};

/// What the index is made of.
pub(super) struct IndexSource {
    pub texts: Texts,
    /// Series, in their order.
    pub spool: Spool,
    pub memory: WriterMemory,
}

/// Writes `index` into the block's directory, and says how long it is in bytes.
pub(super) fn write(
    dir: &Path,
    source: IndexSource,
    watch: &mut WriteWatch<'_>,
) -> Result<u64, BlockWriteError> {
    let IndexSource { texts, spool, memory } = source;
    let texts = texts.finish(watch)?;
    let mut index = OutputFile::create(&dir.join("index"), memory.buffer_bytes())?;
    index.put(&MAGIC.to_be_bytes())?;
    index.put(&[VERSION])?;
    let symbols_at = index.at();
    let mut ordinals = Triples::create(dir, memory)?;
    let symbols = symbols::put(&mut index, &texts, &mut ordinals, memory, watch)?;
    drop(texts);
    let ordinals = ordinals.finish(watch)?;
    let series_at = index.at();
    let mut references = scratch::create(&dir.join("references.spool"), memory.buffer_bytes())?;
    let series = SeriesWriter {
        index: &mut index,
        references: &mut references,
        ordinals: Ordinals::read(&ordinals)?,
        labels: Triples::create(dir, memory)?,
        content: Vec::new(),
        head: Vec::new(),
    };
    let labels = series.put_all(spool.finish()?, memory, watch)?;
    drop(ordinals);
    let source = PostingsSource {
        dir,
        memory,
        symbols: &symbols,
        references: &references.written()?,
        labels: &labels.finish(watch)?,
    };
    let placed = postings::put(&mut index, &source, watch)?;
    index.begin_sum();
    // There are no lists of label values, nor a table of them: nobody reads them any more.
    for offset in [symbols_at, series_at, placed.lists_at, placed.table_at, placed.lists_at, placed.table_at]
    {
        index.put(&offset.to_be_bytes())?;
    }
    index.put_sum()?;
    index.finish()
}

/// Writes series, and what their postings are made of.
struct SeriesWriter<'a> {
    index: &'a mut OutputFile,
    references: &'a mut OutputFile,
    ordinals: Ordinals<'a>,
    labels: Triples,
    content: Vec<u8>,
    head: Vec<u8>,
}

impl SeriesWriter<'_> {
    fn put_all(
        mut self,
        spool: ScratchFile,
        memory: WriterMemory,
        watch: &mut WriteWatch<'_>,
    ) -> Result<Triples, BlockWriteError> {
        let mut records = SpoolRecords::read(&spool, memory.buffer_bytes());
        while let Some(record) = records.next()? {
            if record.is_empty() {
                self.ordinals.next_table();
                continue;
            }
            let labels = self.put(Cursor::new(record, 0, "a record"), &spool)?;
            self.index.sync_much()?;
            watch.step(self.content.len() + labels as usize * TRIPLE_BYTES)?;
        }
        Ok(self.labels)
    }

    /// How many labels it has.
    fn put(&mut self, mut record: Cursor<'_>, spool: &ScratchFile) -> Result<u64, BlockWriteError> {
        self.index.align(ALIGNMENT)?;
        let reference = u32::try_from(self.index.at() / ALIGNMENT);
        let max = u64::from(u32::MAX) * ALIGNMENT;
        let reference =
            reference.map_err(|_far| BlockWriteError::TooMuch { what: "the bytes of the series", max })?;
        self.references.put(&reference.to_be_bytes())?;
        let of_spool = |error: BlockSectionError| error.of(spool.path());
        let labels = record.uvarint().map_err(of_spool)?;
        self.content.clear();
        put_uvarint(&mut self.content, labels);
        for _label in 0..labels {
            let mut ordinal = || {
                let number = record.uvarint().map_err(of_spool)?;
                let known = u32::try_from(number).map_or(Ok(None), |number| self.ordinals.of(number))?;
                let unknown = BlockErrorKind::NoSuch { what: "the text", number };
                known.ok_or_else(|| BlockWriteError::from(of_spool(record.error(unknown))))
            };
            let (name, value) = (ordinal()?, ordinal()?);
            put_uvarint(&mut self.content, u64::from(name));
            put_uvarint(&mut self.content, u64::from(value));
            self.labels.push(Triple::new(name, value, reference))?;
        }
        self.content.extend_from_slice(record.rest());
        self.head.clear();
        put_uvarint(&mut self.head, self.content.len() as u64);
        self.index.put(&self.head)?;
        self.index.begin_sum();
        self.index.put(&self.content)?;
        self.index.put_sum()?;
        Ok(labels)
    }
}
