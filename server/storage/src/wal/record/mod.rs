//! Records: what a frame of the log carries, to and from bytes.
//!
//! Writers stage columns that are written as they are. Readers borrow from the payload, allocate
//! nothing, and trust no byte. Knows nothing of frames and files: [`super::frame`] and
//! [`super::segment`] do.
mod checkpoint_frame;
mod chunks;
mod claims;
mod counted;
mod exemplars;
mod group;
mod histograms;
mod metadata;
mod removed;
mod replaced;
mod runs;
mod samples;
mod series;
mod start_timestamps;
mod value;
mod varint;

#[cfg(test)]
mod example;
#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod tests;

use std::iter::FusedIterator;

pub use checkpoint_frame::{CHECKPOINT_FRAME_PARTS, CheckpointFrame};
pub use chunks::{ChunksReader, ChunksRecord, SealedBytes, SealedChunks, SeriesChunks};
pub use claims::{Claim, ClaimKind, ClaimsReader, ClaimsRecord};
pub use counted::{Counted, CountedRecord, ReadEntry};
pub use exemplars::{ExemplarsReader, ExemplarsRecord, SeriesExemplar};
pub use group::{GROUP_PARTS, Group};
pub use histograms::{
    HistogramEntry, HistogramsReader, HistogramsRecord, LoggedHistogramChunks, OpenHistogramBytes,
    SealedHistogramBytes, SealedHistograms,
};
pub use metadata::{MetadataEntry, MetadataReader, MetadataRecord};
pub use removed::{RemovedReader, RemovedRecord};
pub use replaced::{Replaced, ReplacedReader, ReplacedRecord};
pub use samples::{LoggedSample, SamplesIter, SamplesRecord};
pub use series::{NewSeries, RecordLabels, SeriesIter, SeriesReader, SeriesRecord};
pub use start_timestamps::{StartRun, StartTimestampsReader, StartTimestampsRecord};

use varint::{end, length, take, take_array, take_byte, take_length};

/// A type and the length of the content.
const HEAD_BYTES: usize = 5;

/// What a staging buffer keeps of its room from one group to the next.
const STAGING_KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum RecordType {
    Series = 1,
    Samples = 2,
    Removed = 3,
    Chunks = 4,
    CheckpointEnd = 5,
    Claims = 6,
    Replaced = 7,
    MarkedSamples = 8,
    Exemplars = 9,
    Metadata = 10,
    Histograms = 11,
    StartTimestamps = 12,
}

impl RecordType {
    const ALL: [Self; 12] = [
        Self::Series,
        Self::Samples,
        Self::Removed,
        Self::Chunks,
        Self::CheckpointEnd,
        Self::Claims,
        Self::Replaced,
        Self::MarkedSamples,
        Self::Exemplars,
        Self::Metadata,
        Self::Histograms,
        Self::StartTimestamps,
    ];

    fn of(byte: u8) -> Result<Self, RecordError> {
        let found = Self::ALL.into_iter().find(|known| *known as u8 == byte);
        found.ok_or(RecordError::UnknownType(byte))
    }
}

fn head(kind: RecordType, content_bytes: usize) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = length(content_bytes);
    [kind as u8, a, b, c, d]
}

/// A record in a payload. Its content is read, and its errors are found, as it is iterated over.
#[derive(Debug, Clone)]
pub enum Record<'a> {
    /// New series; in a checkpoint, those that there are.
    Series(SeriesRecord<'a>),
    /// Samples that were stored.
    Samples(SamplesRecord<'a>),
    /// Start timestamps of the samples in the record before.
    StartTimestamps(StartTimestampsRecord<'a>),
    /// Series that were removed.
    Removed(RemovedRecord<'a>),
    /// What series of a checkpoint hold, or those that came from another shard.
    Chunks(ChunksRecord<'a>),
    /// Native histograms that were stored, and all that series have of them.
    Histograms(HistogramsRecord<'a>),
    /// What is left of series of which samples were deleted.
    Replaced(ReplacedRecord<'a>),
    /// Exemplars of series; in a checkpoint, those that there are.
    Exemplars(ExemplarsRecord<'a>),
    /// What is said of metrics; in a checkpoint, all that is.
    Metadata(MetadataRecord<'a>),
    /// Cells that came or went; in a checkpoint, those that came.
    Claims(ClaimsRecord<'a>),
    /// The checkpoint is whole.
    CheckpointEnd {
        /// Its series.
        series: u64,
        /// Its chunks, open ones too.
        chunks: u64,
    },
}

impl<'a> Record<'a> {
    fn parse(kind: RecordType, mut content: &'a [u8]) -> Result<Self, RecordError> {
        Ok(match kind {
            RecordType::Series => Self::Series(SeriesRecord::parse(content)?),
            RecordType::Samples => Self::Samples(SamplesRecord::parse(content)?),
            RecordType::MarkedSamples => Self::Samples(SamplesRecord::parse_marked(content)?),
            RecordType::StartTimestamps => Self::StartTimestamps(StartTimestampsRecord::parse(content)?),
            RecordType::Histograms => Self::Histograms(HistogramsRecord::parse(content)?),
            RecordType::Removed => Self::Removed(RemovedRecord::parse(content)?),
            RecordType::Chunks => Self::Chunks(ChunksRecord::parse(content)?),
            RecordType::Replaced => Self::Replaced(ReplacedRecord::parse(content)?),
            RecordType::Exemplars => Self::Exemplars(ExemplarsRecord::parse(content)?),
            RecordType::Metadata => Self::Metadata(MetadataRecord::parse(content)?),
            RecordType::Claims => Self::Claims(ClaimsRecord::parse(content)?),
            RecordType::CheckpointEnd => {
                let series = u64::from_le_bytes(take_array(&mut content)?);
                let chunks = u64::from_le_bytes(take_array(&mut content)?);
                end(content)?;
                Self::CheckpointEnd { series, chunks }
            }
        })
    }
}

/// The records of a payload. Nothing comes after an error, but for one of start timestamps that aren't of the samples
/// in the record before.
pub const fn records(payload: &[u8]) -> Records<'_> {
    Records { rest: payload, samples_before: 0 }
}

/// Iterates over the records of a payload.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// Samples of the record that was read last, if it has any.
    samples_before: usize,
}

impl<'a> Records<'a> {
    fn take(&mut self) -> Result<Record<'a>, RecordError> {
        let kind = RecordType::of(take_byte(&mut self.rest)?)?;
        let content_bytes = take_length(&mut self.rest)?;
        Record::parse(kind, take(&mut self.rest, content_bytes)?)
    }

    /// A record that says something of the one before it says it of that alone: none of another payload is meant.
    fn joined(&mut self, record: Record<'a>) -> Result<Record<'a>, RecordError> {
        let samples_before = std::mem::take(&mut self.samples_before);
        match &record {
            Record::Samples(samples) => self.samples_before = samples.count(),
            Record::StartTimestamps(starts) => starts.check_among(samples_before)?,
            Record::Series(_)
            | Record::Removed(_)
            | Record::Chunks(_)
            | Record::Histograms(_)
            | Record::Replaced(_)
            | Record::Exemplars(_)
            | Record::Metadata(_)
            | Record::Claims(_)
            | Record::CheckpointEnd { .. } => {}
        }
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match self.take() {
            Ok(record) => Some(self.joined(record)),
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

impl FusedIterator for Records<'_> {}

/// Why bytes are no records of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A type that this version doesn't write.
    #[error("a record of unknown type {0}")]
    UnknownType(u8),
    /// It ends in the middle of something.
    #[error("a record is cut short")]
    Truncated,
    /// There is more than its counts say.
    #[error("a record has bytes beyond its content")]
    TrailingBytes,
    /// A varint has more than 64 bits.
    #[error("a varint has more than 64 bits")]
    VarintTooLong,
    /// A run of nothing.
    #[error("a run is empty")]
    EmptyRun,
    /// A series ref has more than 32 bits, or is negative.
    #[error("a series ref is out of range")]
    RefOutOfRange,
    /// A chunk ends after all time.
    #[error("a chunk's time is out of range")]
    TimeOutOfRange,
    /// A claim of no cell, of no kind or of no epoch.
    #[error("a claim to a cell makes no sense")]
    BadClaim,
    /// A start timestamp is of a sample that the group doesn't have.
    #[error("a start timestamp is that of sample {0}, which the group doesn't have")]
    NoSuchSample(u64),
    /// The record's text isn't UTF-8.
    #[error("labels are not UTF-8")]
    NotUtf8,
    /// A label is given by a number beyond the record's symbols.
    #[error("symbol {0} isn't one of the record's")]
    NoSuchSymbol(u64),
    /// A symbol ends before it begins, beyond the text, or within a character.
    #[error("symbol {0} is no piece of the record's text")]
    BadSymbol(u64),
}
