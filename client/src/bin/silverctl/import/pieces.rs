//! A block as pieces to be sent, read on a thread of its own.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::head::HeadCounts;
use crate::filter::Filter;
use crate::label_set::LabelSet;
use silverback_block::{Block, BlockFault, BlockSeries, ChunkPlace, Contents};
use silverback_model::gorilla::FloatIter;

/// Pieces that are read ahead.
pub const PIECES_MAX: usize = 256;

/// A part of what a block or a head holds, in its order.
#[derive(Debug)]
pub enum Piece {
    /// Some samples of a series, times ascending.
    Samples(Arc<LabelSet>, Vec<(i64, f64)>),
    /// A chunk of what is no float.
    OtherChunk,
    /// A chunk that can't be read; what is behind it can.
    DamagedChunk(BlockFault),
    /// Labels that make no series, with why.
    BadSeries(String),
    /// All of so many series has been given, from the block's begin on.
    SeriesDone(u64),
    /// All of a head has been given, or of a portion of its series.
    HeadDone(HeadCounts),
}

/// Reads the block in `dir`, without its first `series_done` series. The last piece is an error
/// where what is behind it can't be read.
pub fn read(dir: &Path, series_done: u64, filter: Filter) -> mpsc::Receiver<Result<Piece, BlockFault>> {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let reading = Reading { sender, filter };
        // A receiver that is gone wants to hear of nothing.
        if let Err(Stop::Fault(fault)) = reading.block(&dir, series_done) {
            drop(reading.sender.blocking_send(Err(fault)));
        }
    });
    receiver
}

struct Reading {
    sender: mpsc::Sender<Result<Piece, BlockFault>>,
    filter: Filter,
}

/// Why reading ends early.
pub enum Stop {
    /// What comes next can't be read.
    Fault(BlockFault),
    /// Nobody takes the pieces any more.
    Unwanted,
}

impl From<BlockFault> for Stop {
    fn from(fault: BlockFault) -> Self {
        Self::Fault(fault)
    }
}

impl Reading {
    fn block(&self, dir: &Path, series_done: u64) -> Result<(), Stop> {
        let mut block = Block::open(dir)?;
        for _done in 0..series_done {
            block.skip_series()?;
        }
        let mut number = series_done;
        while let Some(series) = block.next_series()? {
            self.series(&mut block, series)?;
            number += 1;
            self.give(Piece::SeriesDone(number))?;
        }
        Ok(())
    }

    fn series(&self, block: &mut Block, series: BlockSeries) -> Result<(), Stop> {
        let value_of = |name: &str| {
            let label = series.labels.iter().find(|(own, _)| **own == *name);
            label.map_or("", |(_, value)| &**value)
        };
        if !self.filter.takes_series(value_of) {
            return Ok(());
        }
        let labels = series.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let labels = match LabelSet::new(labels.collect()) {
            Ok(labels) => Arc::new(labels),
            Err(fault) => return self.give(Piece::BadSeries(fault.to_string())),
        };
        for place in &series.chunks {
            if self.filter.touches(place.min_ms, place.max_ms) {
                self.chunk(block, &series, &labels, *place)?;
            }
        }
        Ok(())
    }

    fn chunk(
        &self,
        block: &mut Block,
        series: &BlockSeries,
        labels: &Arc<LabelSet>,
        place: ChunkPlace,
    ) -> Result<(), Stop> {
        let piece = match samples(block, place) {
            Err(fault) => Piece::DamagedChunk(fault),
            Ok(None) => Piece::OtherChunk,
            Ok(Some(mut samples)) => {
                let is_deleted = |at_ms| series.deleted.iter().any(|range| range.holds(at_ms));
                samples.retain(|(at_ms, _)| self.filter.takes_time(*at_ms) && !is_deleted(*at_ms));
                Piece::Samples(Arc::clone(labels), samples)
            }
        };
        self.give(piece)
    }

    fn give(&self, piece: Piece) -> Result<(), Stop> {
        self.sender.blocking_send(Ok(piece)).map_err(|_unwanted| Stop::Unwanted)
    }
}

/// The samples of a chunk of floats.
fn samples(block: &mut Block, place: ChunkPlace) -> Result<Option<Vec<(i64, f64)>>, BlockFault> {
    let chunk = block.chunk(place)?;
    let samples = match chunk.contents {
        Some(Contents::Floats(encoding)) => FloatIter::new(encoding, chunk.bytes),
        Some(Contents::Histograms(_)) | None => return Ok(None),
    };
    let decoded: Result<_, _> =
        samples.map(|sample| sample.map(|sample| (sample.timestamp_ms, sample.value))).collect();
    decoded.map(Some).map_err(|error| block.chunk_fault(place, error))
}
