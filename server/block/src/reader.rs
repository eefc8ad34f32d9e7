//! Reads a block from its first series to its last.
//!
//! Reads through windows of a bounded size, in the order in which the files were written; of an
//! index of many gigabytes only a sparse table of its symbols is held. Doesn't decode samples.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use crate::chunks::{Chunk, ChunkFiles};
use crate::error::{BlockError, BlockErrorKind};
use crate::series::{ChunkPlace, SeriesWalk};
use crate::symbols::Symbols;
use crate::toc::Toc;
use crate::tombstones::{DeletedRange, Tombstones};
use crate::window::FileWindow;

/// A window for a section that is read from its begin to its end.
const READ_AHEAD: usize = 1 << 20;

/// A block that is read from its first series to its last.
#[derive(Debug)]
pub struct Block {
    index: FileWindow,
    symbols: Symbols,
    /// How far the index's series have been read.
    walk: SeriesWalk,
    chunks: ChunkFiles,
    tombstones: Tombstones,
}

/// One series of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSeries {
    /// Names and values; names ascending.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Where its chunks are, times ascending.
    pub chunks: Vec<ChunkPlace>,
    /// What was deleted of it since the block was written.
    pub deleted: Vec<DeletedRange>,
}

impl Block {
    /// Opens the block in `dir`, and checks what all of it hangs on: the index's table of contents
    /// and symbols, and the tombstones.
    pub fn open(dir: &Path) -> Result<Self, BlockError> {
        let path = dir.join("index");
        let mut index = FileWindow::open(&path, READ_AHEAD)?;
        let toc = Toc::read(&mut index)?;
        Ok(Self {
            index,
            symbols: Symbols::open(&path, toc.symbols)?,
            walk: SeriesWalk::new(&toc),
            chunks: ChunkFiles::list(&dir.join("chunks"))?,
            tombstones: Tombstones::read(&dir.join("tombstones"))?,
        })
    }

    /// The next series, in the order of their labels. After a fault there is none to be had: where
    /// the next one begins is known from this one alone.
    pub fn next_series(&mut self) -> Result<Option<BlockSeries>, BlockError> {
        let Some(entry) = self.walk.next(&mut self.index)? else { return Ok(None) };
        let deleted = self.tombstones.of(entry.reference());
        let mut labels = Vec::with_capacity(entry.labels.len());
        for (name, value) in entry.labels {
            let name = self.symbols.look_up(name, entry.begins)?;
            labels.push((name, self.symbols.look_up(value, entry.begins)?));
        }
        Ok(Some(BlockSeries { labels, chunks: entry.chunks, deleted }))
    }

    /// Goes past the next series without looking at its labels. `false`: there is none.
    pub fn skip_series(&mut self) -> Result<bool, BlockError> {
        self.walk.skip(&mut self.index)
    }

    /// The chunk at a place. A fault is this chunk's alone.
    pub fn chunk(&mut self, place: ChunkPlace) -> Result<Chunk<'_>, BlockError> {
        self.chunks.read(place)
    }

    /// The fault of a chunk whose bytes are those that were written, and no samples all the same.
    pub fn chunk_error(&self, place: ChunkPlace, error: impl Error + Send + Sync + 'static) -> BlockError {
        self.chunks.error_at(place, BlockErrorKind::Samples(error.into()))
    }
}
