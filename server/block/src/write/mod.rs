//! Writes a block from its first series to its last.
//!
//! Chunks go to their files as they come. A series' labels and the places of its chunks go to a spool beside them, for
//! the index has all symbols in front of its first series; from there the index is written at the end. Held are each
//! text and each pair of name and value once, a bounded piece of the postings, and buffers.

mod chunk_files;
mod index;
mod output;
mod postings;
mod spool;
mod texts;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::path::{Path, PathBuf};

use ulid::Ulid;

use crate::cut::CutChunk;
use crate::fault::BlockFault;
use crate::meta::{Meta, Origin, Stats};
use crate::tombstones;
use chunk_files::ChunkFilesWriter;
use output::{Output, sync_dir};
use spool::Spool;
use texts::{Pairs, Texts};

/// Buffers of files: chunks, index and both spools.
const BUFFERS_BYTES: usize = 4 * output::BUFFER_BYTES;

/// Why a block can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
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
    Spool(#[from] BlockFault),
    /// Nobody wants the block any more.
    #[error("nobody waits for the block any more")]
    Unwanted,
}

impl WriteError {
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
    pairs: Pairs,
    /// Names and values of the series before.
    before: Vec<(u32, u32)>,
    record: Vec<u8>,
    stats: Stats,
    range_ms: Option<(i64, i64)>,
    pairs_used: u64,
    origin: Origin,
}

impl BlockWriter {
    /// Makes the directory `<parent>/<ulid>`.
    pub fn create(parent: &Path, ulid: Ulid) -> Result<Self, WriteError> {
        Self::create_at(parent.join(ulid.to_string()), ulid)
    }

    /// Makes the directory of a block that gets its name later.
    pub fn create_at(dir: PathBuf, ulid: Ulid) -> Result<Self, WriteError> {
        std::fs::create_dir(&dir).map_err(WriteError::io(&dir))?;
        Ok(Self {
            chunks: ChunkFilesWriter::create(&dir.join("chunks"))?,
            spool: Spool::create(&dir.join("series.spool"))?,
            dir,
            ulid,
            texts: Texts::default(),
            pairs: Pairs::default(),
            before: Vec::new(),
            record: Vec::new(),
            stats: Stats::default(),
            range_ms: None,
            pairs_used: 0,
            origin: Origin::default(),
        })
    }

    /// Says in `meta.json` where its samples are from.
    pub fn note_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    /// Adds a series, whose labels follow those of the one before, names ascending. `put_chunks` gives its chunks,
    /// oldest first; one that gives none is no series of the block.
    pub fn add_series<'a, E: From<WriteError>>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        put_chunks: impl FnOnce(&mut SeriesChunks<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunks = SeriesChunks {
            files: &mut self.chunks,
            places: std::mem::take(&mut self.record),
            stats: Stats::default(),
            last: None,
            range_ms: self.range_ms,
        };
        chunks.places.clear();
        put_chunks(&mut chunks)?;
        let SeriesChunks { places, stats, range_ms, .. } = chunks;
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

    /// Its record: `uvarint labels | (uvarint pair)* | uvarint chunks | as the index has them`.
    fn note_series<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        chunks: u64,
    ) -> Result<(), WriteError> {
        if !self.follows(labels.clone()) {
            let shown: Vec<_> = labels.map(|(name, value)| format!("{name}={value:?}")).collect();
            return Err(WriteError::SeriesOrder(format!("{{{}}}", shown.join(","))));
        }
        if self.stats.num_series >= u64::from(u32::MAX) {
            return Err(WriteError::TooMuch { what: "the series", max: u64::from(u32::MAX) });
        }
        self.before.clear();
        for (name, value) in labels {
            self.before.push((self.texts.id_of(name)?, self.texts.id_of(value)?));
        }
        let mut head = Vec::with_capacity(5 * (self.before.len() + 2));
        put_uvarint(&mut head, self.before.len() as u64);
        for (name, value) in &self.before {
            put_uvarint(&mut head, u64::from(self.pairs.count(*name, *value)?));
        }
        put_uvarint(&mut head, chunks);
        self.pairs_used += self.before.len() as u64;
        self.spool.put(&[&head, &self.record])
    }

    /// Whether labels are a series' and come after those before: by names and values in turn.
    fn follows<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> bool {
        let names = labels.clone().map(|(name, _)| name);
        let is_ascending = names.clone().zip(names.skip(1)).all(|(name, next)| name < next);
        let is_said = labels.clone().all(|(name, value)| !name.is_empty() && !value.is_empty());
        let before = self.before.iter().map(|(name, value)| (self.texts.get(*name), self.texts.get(*value)));
        let own = labels.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        is_ascending && is_said && (self.stats.num_series == 0 || before.cmp(own).is_lt())
    }

    /// The most that it takes of memory for what it has, until its end, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let filled_at_once = postings::at_once(self.pairs_used).min(self.pairs_used as usize);
        // One list may be of all series.
        let postings = filled_at_once.max(self.stats.num_series as usize) * size_of::<u32>();
        BUFFERS_BYTES
            + self.record.capacity()
            + self.texts.memory_bytes()
            + self.pairs.memory_bytes()
            + postings
    }

    /// Chunks and spools that it has written, in bytes; the index comes on top of it.
    pub const fn written_bytes(&self) -> u64 {
        self.chunks.written_bytes() + self.spool.written_bytes()
    }

    /// Makes durable what it has written of the chunk file that it is at, so that no sync has much to write.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        self.chunks.sync()
    }

    /// Writes what is left, `meta.json` last, and makes it durable but for the directory's own name. `None`: no series
    /// came, and nothing is left of it. `is_wanted` is asked now and then whether to go on.
    pub fn finish(self, is_wanted: &dyn Fn() -> bool) -> Result<Option<FinishedBlock>, WriteError> {
        let Self { dir, ulid, chunks, spool, texts, pairs, stats, range_ms, pairs_used, origin, .. } = self;
        let Some(range_ms) = range_ms else {
            drop((chunks, spool));
            std::fs::remove_dir_all(&dir).map_err(WriteError::io(&dir))?;
            return Ok(None);
        };
        let chunk_bytes = chunks.finish()?;
        let source = index::Source { texts, pairs, spool, series: stats.num_series, pairs_used };
        let index_bytes = index::write(&dir, source, is_wanted)?;
        let mut stones = Output::create(&dir.join("tombstones"))?;
        stones.put(&tombstones::MAGIC.to_be_bytes())?;
        stones.put(&[tombstones::VERSION])?;
        stones.begin_sum();
        stones.put_sum()?;
        let stones_bytes = stones.finish()?;
        let meta = Meta::of_head(ulid, range_ms, stats, origin);
        let mut file = Output::create(&dir.join("meta.json"))?;
        file.put(&meta.to_json())?;
        let bytes = chunk_bytes + index_bytes + stones_bytes + file.finish()?;
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
pub struct SeriesChunks<'a> {
    files: &'a mut ChunkFilesWriter,
    /// As the index has them.
    places: Vec<u8>,
    stats: Stats,
    /// The last chunk's newest time and its reference.
    last: Option<(i64, u64)>,
    range_ms: Option<(i64, i64)>,
}

impl SeriesChunks<'_> {
    /// Adds one, newer than the one before.
    pub fn put(&mut self, chunk: CutChunk<'_>) -> Result<(), WriteError> {
        let CutChunk { contents, min_ms, max_ms, samples, bytes } = chunk;
        let follows = self.last.is_none_or(|(last_ms, _)| min_ms > last_ms);
        if !follows || min_ms > max_ms || samples == 0 {
            return Err(WriteError::ChunkOrder { min_ms, max_ms });
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

/// As Go's `binary.PutUvarint` writes it.
pub(crate) fn put_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// As Go's `binary.PutVarint` writes it.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    put_uvarint(out, ((value << 1) ^ (value >> 63)) as u64);
}
