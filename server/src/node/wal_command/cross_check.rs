//! What the records of a log must be to each other, checked without building what they mean.

use hashbrown::HashMap;
use roaring::RoaringBitmap;

use crate::gorilla::XorIter;
use crate::model::{SeriesId, SeriesRef};
use crate::wal::record::{ChunksRecord, Record, RemovedRecord, SamplesRecord, SealedBytes, SeriesRecord};
use crate::wal::replay::{Restore, RestoreError};

/// Follows a log's series from their creation to their removal.
#[derive(Debug, Default)]
pub(super) struct CrossCheck {
    /// Series that are there.
    series: HashMap<SeriesRef, SeriesId>,
    /// Samples name them, and nobody made them: they must be removed later.
    unknown: RoaringBitmap,
    counts: Counts,
}

/// What a log has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Series that were made.
    pub(super) series: u64,
    /// Samples of groups.
    pub(super) samples: u64,
    /// Chunks of the checkpoint.
    pub(super) chunks: u64,
    /// Samples in them.
    pub(super) chunk_samples: u64,
}

impl CrossCheck {
    /// What it met.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn series(&mut self, record: &SeriesRecord<'_>) -> Result<(), RestoreError> {
        for series in record.iter() {
            let series = series.map_err(contradicts)?;
            self.counts.series += 1;
            // A checkpoint and the groups behind it may both make it.
            if self.series.insert(series.series, series.id).is_some_and(|former| former != series.id) {
                return Err(RestoreError(format!("ref {} names two series", series.series.0)));
            }
        }
        Ok(())
    }

    fn samples(&mut self, record: &SamplesRecord<'_>) -> Result<(), RestoreError> {
        for entry in record.iter() {
            let (series, _) = entry.map_err(contradicts)?;
            self.counts.samples += 1;
            if !self.series.contains_key(&series) {
                self.unknown.insert(series.0);
            }
        }
        Ok(())
    }

    fn removed(&mut self, record: &RemovedRecord<'_>) -> Result<(), RestoreError> {
        for entry in record.iter() {
            let (series, id) = entry.map_err(contradicts)?;
            self.unknown.remove(series.0);
            if self.series.get(&series) == Some(&id) {
                self.series.remove(&series);
            }
        }
        Ok(())
    }

    fn chunks(&mut self, record: &ChunksRecord<'_>) -> Result<(), RestoreError> {
        for entry in record.iter() {
            let chunks = entry.map_err(contradicts)?;
            let series = chunks.series;
            if !self.series.contains_key(&series) {
                return Err(RestoreError(format!("chunks of ref {}, which no series has", series.0)));
            }
            let mut newest_ms = None;
            for sealed in chunks.sealed {
                self.counts.chunks += 1;
                self.chunk(series, sealed.bytes, &mut newest_ms, Some(sealed))?;
            }
            // A checkpoint counts the open chunk of every series.
            self.counts.chunks += 1;
            if !chunks.open.is_empty() {
                self.chunk(series, chunks.open, &mut newest_ms, None)?;
            }
        }
        Ok(())
    }

    /// Reads a chunk's samples, which come behind those of the chunks before.
    fn chunk(
        &mut self,
        series: SeriesRef,
        bytes: &[u8],
        newest_ms: &mut Option<i64>,
        said: Option<SealedBytes<'_>>,
    ) -> Result<(), RestoreError> {
        let fault = |what: &str| Err(RestoreError(format!("a chunk of ref {}: {what}", series.0)));
        let before_ms = *newest_ms;
        let mut oldest_ms = None;
        for sample in XorIter::new(bytes) {
            let Ok(sample) = sample else { return fault("its samples can't be read") };
            if newest_ms.is_some_and(|newest_ms| sample.timestamp_ms <= newest_ms) {
                return fault("its samples are out of order");
            }
            *newest_ms = Some(sample.timestamp_ms);
            oldest_ms.get_or_insert(sample.timestamp_ms);
            self.counts.chunk_samples += 1;
        }
        let said_ms = said.map(|said| (Some(said.min_ms), Some(said.max_ms)));
        if *newest_ms == before_ms {
            fault("it has no samples")
        } else if said_ms.is_some_and(|said_ms| said_ms != (oldest_ms, *newest_ms)) {
            fault("its samples are of another time than it says")
        } else {
            Ok(())
        }
    }

    fn checkpoint_end(&self, series: u64, chunks: u64) -> Result<(), RestoreError> {
        let found = self.counts;
        if (found.series, found.chunks) == (series, chunks) {
            return Ok(());
        }
        Err(RestoreError(format!(
            "the checkpoint has {} of its {series} series and {} of its {chunks} chunks",
            found.series, found.chunks
        )))
    }
}

impl Restore for CrossCheck {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        match record {
            Record::Series(record) => self.series(&record),
            Record::Samples(record) => self.samples(&record),
            Record::Removed(record) => self.removed(&record),
            Record::Chunks(record) => self.chunks(&record),
            Record::CheckpointEnd { series, chunks } => self.checkpoint_end(series, chunks),
        }
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        match self.unknown.len() {
            0 => Ok(()),
            unknown => Err(RestoreError(format!("samples of {unknown} series that nobody made"))),
        }
    }
}

fn contradicts(error: impl std::fmt::Display) -> RestoreError {
    RestoreError(error.to_string())
}
