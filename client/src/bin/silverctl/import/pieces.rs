//! A block as pieces to be sent, read on a thread of its own.

use std::path::Path;
use std::sync::Arc;

use silverback_client::histogram::{Histogram, HistogramKind};
use tokio::sync::mpsc;

use super::head::HeadCounts;
use crate::filter::Filter;
use crate::label_set::LabelSet;
use silverback_block::{Block, BlockError, BlockSeries, ChunkPlace, Contents};
use silverback_model::gorilla::FloatIter;
use silverback_model::histogram::{HistogramChunkError, HistogramIter};

/// Pieces that are read ahead.
pub(super) const PIECES_MAX: usize = 256;
/// Native histograms of one piece: each may take a thousand times as much as a float.
pub(super) const PIECE_HISTOGRAMS_MAX: usize = 8;

/// A part of what a block or a head holds, in its order.
#[derive(Debug)]
pub(super) enum ImportPiece {
    /// Some samples of a series, times ascending.
    Samples(Arc<LabelSet>, Vec<(i64, f64)>),
    /// Some native histograms of a series, likewise.
    Histograms(Arc<LabelSet>, Vec<(i64, Histogram)>),
    /// A chunk in an encoding that isn't read here.
    OtherChunk,
    /// A chunk that can't be read; what is after it can.
    DamagedChunk(BlockError),
    /// Labels that make no series, with why.
    BadSeries(String),
    /// All of so many series has been given, from the block's begin on.
    SeriesDone(u64),
    /// All of a head has been given, or of a portion of its series.
    HeadDone(HeadCounts),
}

/// Reads the block in `dir`, without its first `series_done` series. The last piece is an error
/// where what is after it can't be read.
pub(super) fn read(
    dir: &Path,
    series_done: u64,
    filter: Filter,
) -> mpsc::Receiver<Result<ImportPiece, BlockError>> {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let reading = Reading { sender, filter };
        // A receiver that is gone wants to hear of nothing.
        if let Err(HeadImportError::Block(fault)) = reading.block(&dir, series_done) {
            drop(reading.sender.blocking_send(Err(fault)));
        }
    });
    receiver
}

struct Reading {
    sender: mpsc::Sender<Result<ImportPiece, BlockError>>,
    filter: Filter,
}

/// Why reading ends early.
pub(super) enum HeadImportError {
    /// What comes next can't be read.
    Block(BlockError),
    /// Nobody takes the pieces any more.
    Unwanted,
}

impl From<BlockError> for HeadImportError {
    fn from(fault: BlockError) -> Self {
        Self::Block(fault)
    }
}

impl Reading {
    fn block(&self, dir: &Path, series_done: u64) -> Result<(), HeadImportError> {
        let mut block = Block::open(dir)?;
        for _done in 0..series_done {
            block.skip_series()?;
        }
        let mut number = series_done;
        while let Some(series) = block.next_series()? {
            self.series(&mut block, series)?;
            number += 1;
            self.give(ImportPiece::SeriesDone(number))?;
        }
        Ok(())
    }

    fn series(&self, block: &mut Block, series: BlockSeries) -> Result<(), HeadImportError> {
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
            Err(fault) => return self.give(ImportPiece::BadSeries(fault.to_string())),
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
    ) -> Result<(), HeadImportError> {
        let is_deleted = |at_ms| series.deleted.iter().any(|range| range.holds(at_ms));
        let is_wanted = |at_ms| self.filter.takes_time(at_ms) && !is_deleted(at_ms);
        let piece = match decode(block, place) {
            Err(fault) => ImportPiece::DamagedChunk(fault),
            Ok(Decoded::Other) => ImportPiece::OtherChunk,
            Ok(Decoded::Floats(mut samples)) => {
                samples.retain(|(at_ms, _)| is_wanted(*at_ms));
                ImportPiece::Samples(Arc::clone(labels), samples)
            }
            Ok(Decoded::Histograms(kind, bytes)) => {
                match self.histograms(HistogramIter::new(kind, &bytes), labels, is_wanted)? {
                    Ok(()) => return Ok(()),
                    Err(error) => ImportPiece::DamagedChunk(block.chunk_error(place, error)),
                }
            }
        };
        self.give(piece)
    }

    /// Gives the wanted histograms of a chunk, a few at a time.
    fn histograms(
        &self,
        mut chunk: HistogramIter,
        labels: &Arc<LabelSet>,
        is_wanted: impl Fn(i64) -> bool,
    ) -> Result<Result<(), HistogramChunkError>, HeadImportError> {
        let mut piece = Vec::new();
        while chunk.samples_left() > 0 {
            let mut histogram = Histogram::default();
            match chunk.next_into(&mut histogram) {
                Ok(at_ms) if is_wanted(at_ms) => piece.push((at_ms, histogram)),
                Ok(_unwanted) => {}
                Err(error) => return Ok(Err(error)),
            }
            if piece.len() == PIECE_HISTOGRAMS_MAX || chunk.samples_left() == 0 && !piece.is_empty() {
                self.give(ImportPiece::Histograms(Arc::clone(labels), std::mem::take(&mut piece)))?;
            }
        }
        Ok(Ok(()))
    }

    fn give(&self, piece: ImportPiece) -> Result<(), HeadImportError> {
        self.sender.blocking_send(Ok(piece)).map_err(|_unwanted| HeadImportError::Unwanted)
    }
}

/// What a chunk holds.
enum Decoded {
    Floats(Vec<(i64, f64)>),
    /// Looked through once, so that of a damaged chunk nothing is given.
    Histograms(HistogramKind, Vec<u8>),
    Other,
}

fn decode(block: &mut Block, place: ChunkPlace) -> Result<Decoded, BlockError> {
    let chunk = block.chunk(place)?;
    match chunk.contents {
        None => Ok(Decoded::Other),
        Some(Contents::Floats(encoding)) => {
            let samples = FloatIter::new(encoding, chunk.bytes);
            let decoded: Result<_, _> =
                samples.map(|sample| sample.map(|sample| (sample.timestamp_ms, sample.value))).collect();
            decoded.map(Decoded::Floats).map_err(|error| block.chunk_error(place, error))
        }
        Some(Contents::Histograms(kind)) => {
            let bytes = chunk.bytes.to_vec();
            let mut histograms = HistogramIter::new(kind, &bytes);
            while histograms.samples_left() > 0 {
                histograms.skip_one().map_err(|error| block.chunk_error(place, error))?;
            }
            Ok(Decoded::Histograms(kind, bytes))
        }
    }
}
