//! The index: series with their labels in words.

use std::path::Path;
use std::sync::Arc;

use crate::fault::BlockFault;
use crate::series::{ChunkPlace, SeriesWalk};
use crate::symbols::Symbols;
use crate::toc::Toc;
use crate::window::Window;

/// A window for a section that is read from its begin to its end.
const READ_AHEAD: usize = 1 << 20;

/// An index, and how far its series have been read.
#[derive(Debug)]
pub struct Index {
    window: Window,
    symbols: Symbols,
    walk: SeriesWalk,
}

/// One series of an index.
#[derive(Debug)]
pub struct IndexSeries {
    pub reference: u64,
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    pub chunks: Vec<ChunkPlace>,
}

impl Index {
    pub fn open(path: &Path) -> Result<Self, BlockFault> {
        let mut window = Window::open(path, READ_AHEAD)?;
        let toc = Toc::read(&mut window)?;
        let symbols = Symbols::open(path, toc.symbols)?;
        Ok(Self { window, symbols, walk: SeriesWalk::new(&toc) })
    }

    pub fn next_series(&mut self) -> Result<Option<IndexSeries>, BlockFault> {
        let Some(entry) = self.walk.next(&mut self.window)? else { return Ok(None) };
        let (reference, begins) = (entry.reference(), entry.begins);
        let mut labels = Vec::with_capacity(entry.labels.len());
        for (name, value) in entry.labels {
            let name = self.symbols.look_up(name, begins)?;
            labels.push((name, self.symbols.look_up(value, begins)?));
        }
        Ok(Some(IndexSeries { reference, labels, chunks: entry.chunks }))
    }

    pub fn skip_series(&mut self) -> Result<bool, BlockFault> {
        self.walk.skip(&mut self.window)
    }
}
