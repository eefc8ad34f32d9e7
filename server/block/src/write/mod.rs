//! Writes a block from its first series to its last.
//!
//! Chunks go to their files as they come. A series' labels and the places of its chunks go to a spool beside them, for
//! the index has all symbols in front of its first series; from there the index is written at the end. Texts of labels,
//! and which series have each label, are sorted on disk, so that a writer keeps to its memory whatever comes.

mod chunk_files;
mod index;
mod memory;
mod output;
mod postings;
mod previous_labels;
mod runs;
mod scratch;
mod spool;
mod symbols;
mod texts;
mod triples;
mod watch;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod vector_tests;

use std::io;
use std::path::{Path, PathBuf};

use ulid::Ulid;

use crate::cut::CutChunk;
use crate::error::BlockError;
use crate::meta::{BlockOrigin, Meta, Stats};
use crate::tombstones::Tombstones;
use chunk_files::ChunkFilesWriter;
pub use memory::WriterMemory;
use output::{OutputFile, sync_dir};
use previous_labels::PreviousLabels;
pub(crate) use silverback_model::varint::put_varint as put_uvarint;
use silverback_model::varint::zigzag;
use spool::Spool;
use texts::Texts;
use watch::WriteWatch;

/// Of a file that is hardly larger.
const SMALL_FILE_BYTES: usize = 4 << 10;

/// Why a block can't be written.
#[derive(Debug, thiserror::Error)]
pub enum BlockWriteError {
    /// The disk failed.
    #[error("writing {}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// Labels that make no series, or series that don't ascend.
    #[error("the series {0} can't follow the one before it")]
    SeriesOrder(String),
    /// Chunks that overlap, end before they begin, or have no sample.
    #[error("a chunk from {min_ms} to {max_ms} can't follow the one before it")]
    ChunkOrder {
        /// Its oldest sample's time.
        min_ms: i64,
        /// Its newest sample's.
        max_ms: i64,
    },
    /// More than the format has numbers for.
    #[error("{what} of a block are more than {max}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        max: u64,
    },
    /// What was written a moment ago comes back otherwise.
    #[error("what was just written can't be read again: {0}")]
    Spool(#[from] BlockError),
    /// Nobody wants the block any more.
    #[error("nobody waits for the block any more")]
    Unwanted,
}

impl BlockWriteError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::Io { path: path.to_owned(), error }
    }

    /// Whether there was no room on the disk.
    pub fn is_full(&self) -> bool {
        let Self::Io { error, .. } = self else { return false };
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// A block while it is written.
#[derive(Debug)]
pub struct BlockWriter {
    dir: PathBuf,
    ulid: Ulid,
    chunks: ChunkFilesWriter,
    spool: Spool,
    texts: Texts,
    /// Of the series before, and room for the next one's.
    before: PreviousLabels,
    next: PreviousLabels,
    /// Whether those before are numbered by the table that `texts` has now.
    are_numbered: bool,
    head: Vec<u8>,
    record: Vec<u8>,
    stats: Stats,
    range_ms: Option<(i64, i64)>,
    origin: BlockOrigin,
    memory: WriterMemory,
}

impl BlockWriter {
    /// Makes the block's directory, which may get its name later.
    pub fn create(dir: PathBuf, ulid: Ulid, memory: WriterMemory) -> Result<Self, BlockWriteError> {
        std::fs::create_dir(&dir).map_err(BlockWriteError::io(&dir))?;
        Ok(Self {
            chunks: ChunkFilesWriter::create(&dir.join("chunks"), memory.buffer_bytes())?,
            spool: Spool::create(&dir, memory)?,
            texts: Texts::create(&dir, memory)?,
            dir,
            ulid,
            before: PreviousLabels::default(),
            next: PreviousLabels::default(),
            are_numbered: false,
            head: Vec::new(),
            record: Vec::new(),
            stats: Stats::default(),
            range_ms: None,
            origin: BlockOrigin::default(),
            memory,
        })
    }

    /// Says in `meta.json` where its samples are from.
    pub fn note_origin(&mut self, origin: BlockOrigin) {
        self.origin = origin;
    }

    /// Adds a series, whose labels follow those of the one before, names ascending. `put_chunks` gives its chunks,
    /// oldest first; one that gives none is no series of the block.
    pub fn add_series<'a, E: From<BlockWriteError>>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        put_chunks: impl FnOnce(&mut SeriesChunksWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunks = SeriesChunksWriter {
            files: &mut self.chunks,
            places: std::mem::take(&mut self.record),
            stats: Stats::default(),
            last: None,
            range_ms: self.range_ms,
        };
        chunks.places.clear();
        put_chunks(&mut chunks)?;
        let SeriesChunksWriter { places, stats, range_ms, .. } = chunks;
        self.record = places;
        if stats.num_chunks == 0 {
            return Ok(());
        }
        self.note_series(labels, stats.num_chunks)?;
        self.range_ms = range_ms;
        self.stats.num_samples += stats.num_samples;
        self.stats.num_float_samples += stats.num_float_samples;
        self.stats.num_histogram_samples += stats.num_histogram_samples;
        self.stats.num_chunks += stats.num_chunks;
        self.stats.num_series += 1;
        Ok(())
    }

    /// Its record: `uvarint labels | (uvarint name's number, uvarint value's number)* | uvarint chunks | as the index has
    /// them`, and an empty one where a table of texts ends.
    fn note_series<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        chunks: u64,
    ) -> Result<(), BlockWriteError> {
        let is_first = self.stats.num_series == 0;
        if !previous_labels::is_set(labels.clone()) || !is_first && !self.before.is_before(labels.clone()) {
            let shown: Vec<_> = labels.map(|(name, value)| format!("{name}={value:?}")).collect();
            return Err(BlockWriteError::SeriesOrder(format!("{{{}}}", shown.join(","))));
        }
        if self.stats.num_series >= u64::from(u32::MAX) {
            return Err(BlockWriteError::TooMuch { what: "the series", max: u64::from(u32::MAX) });
        }
        let (texts, bytes) = labels
            .clone()
            .fold((0, 0), |(texts, bytes), (name, value)| (texts + 2, bytes + name.len() + value.len()));
        if self.texts.is_full(texts, bytes) {
            self.texts.end_table()?;
            self.spool.put(&[])?;
            self.are_numbered = false;
        }
        self.next.number(labels, self.are_numbered.then_some(&self.before), &mut self.texts);
        std::mem::swap(&mut self.before, &mut self.next);
        self.are_numbered = true;
        self.head.clear();
        put_uvarint(&mut self.head, self.before.numbers().len() as u64);
        for (name, value) in self.before.numbers() {
            put_uvarint(&mut self.head, u64::from(name));
            put_uvarint(&mut self.head, u64::from(value));
        }
        put_uvarint(&mut self.head, chunks);
        self.spool.put(&[&self.head, &self.record])
    }

    /// The most that it takes of memory until its end, in bytes: what it may have, and beside that some times the largest
    /// series that came.
    pub const fn memory_bytes(&self) -> usize {
        let of_labels = self.before.memory_bytes() + self.next.memory_bytes();
        self.memory.bytes() + 2 * of_labels + 3 * (self.head.capacity() + self.record.capacity())
    }

    /// Chunks and what is sorted beside them, in bytes; the index comes on top of it.
    pub const fn written_bytes(&self) -> u64 {
        self.chunks.written_bytes() + self.spool.written_bytes() + self.texts.written_bytes()
    }

    /// Makes durable what it has written of the chunk file that it is at, so that no sync has much to write.
    pub fn sync(&mut self) -> Result<(), BlockWriteError> {
        self.chunks.sync()
    }

    /// Writes what is left, `meta.json` last, and makes it durable but for the directory's own name. `None`: no series
    /// came, and nothing is left of it. Whether to `go_on` is asked some times in a second, with about how many bytes were
    /// written of what is left: what is asked may take its time.
    pub fn finish(self, go_on: &dyn Fn(u64) -> bool) -> Result<Option<FinishedBlock>, BlockWriteError> {
        let Self { dir, ulid, chunks, spool, texts, stats, range_ms, origin, memory, .. } = self;
        let Some(range_ms) = range_ms else {
            drop((chunks, spool, texts));
            std::fs::remove_dir_all(&dir).map_err(BlockWriteError::io(&dir))?;
            return Ok(None);
        };
        let chunk_bytes = chunks.finish()?;
        let source = index::IndexSource { texts, spool, memory };
        let index_bytes = index::write(&dir, source, &mut WriteWatch::new(go_on))?;
        let stones_bytes = put_small(&dir.join("tombstones"), &Tombstones::default().to_bytes())?;
        let meta = Meta::of_head(ulid, range_ms, stats, origin);
        let meta_bytes = put_small(&dir.join("meta.json"), &meta.to_json())?;
        let bytes = chunk_bytes + index_bytes + stones_bytes + meta_bytes;
        sync_dir(&dir)?;
        Ok(Some(FinishedBlock { meta, bytes }))
    }
}

/// A block that is written whole.
#[derive(Debug)]
pub struct FinishedBlock {
    /// What it says of itself.
    pub meta: Meta,
    /// All its files, in bytes.
    pub bytes: u64,
}

/// Takes the chunks of one series.
#[derive(Debug)]
pub struct SeriesChunksWriter<'a> {
    files: &'a mut ChunkFilesWriter,
    /// As the index has them.
    places: Vec<u8>,
    stats: Stats,
    /// The last chunk's newest time and its reference.
    last: Option<(i64, u64)>,
    range_ms: Option<(i64, i64)>,
}

impl SeriesChunksWriter<'_> {
    /// Adds one, newer than the one before.
    pub fn put(&mut self, chunk: CutChunk<'_>) -> Result<(), BlockWriteError> {
        let CutChunk { contents, min_ms, max_ms, samples, bytes } = chunk;
        let follows = self.last.is_none_or(|(last_ms, _)| min_ms > last_ms);
        if !follows || min_ms > max_ms || samples == 0 {
            return Err(BlockWriteError::ChunkOrder { min_ms, max_ms });
        }
        let reference = self.files.put(contents, bytes)?;
        match self.last {
            None => {
                put_varint(&mut self.places, min_ms);
                put_uvarint(&mut self.places, max_ms.abs_diff(min_ms));
                put_uvarint(&mut self.places, reference);
            }
            Some((last_ms, before)) => {
                put_uvarint(&mut self.places, min_ms.abs_diff(last_ms));
                put_uvarint(&mut self.places, max_ms.abs_diff(min_ms));
                put_varint(&mut self.places, (reference - before) as i64);
            }
        }
        self.last = Some((max_ms, reference));
        let (from_ms, to_ms) = self.range_ms.unwrap_or((min_ms, max_ms));
        self.range_ms = Some((from_ms.min(min_ms), to_ms.max(max_ms)));
        self.stats.num_chunks += 1;
        self.stats.num_samples += samples as u64;
        match contents {
            crate::Contents::Floats(_) => self.stats.num_float_samples += samples as u64,
            crate::Contents::Histograms(_) => self.stats.num_histogram_samples += samples as u64,
        }
        Ok(())
    }
}

fn put_small(path: &Path, bytes: &[u8]) -> Result<u64, BlockWriteError> {
    let mut file = OutputFile::create(path, SMALL_FILE_BYTES)?;
    file.put(bytes)?;
    file.finish()
}

/// As Go's `binary.PutVarint` writes it.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    put_uvarint(out, zigzag(value));
}
