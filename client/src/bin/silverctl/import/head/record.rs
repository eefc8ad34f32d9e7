//! What a record of the log holds: series with their references, samples by these, deleted ranges.

use super::histograms;
use super::log::HeadRecord;
use silverback_block::DeletedRange;
use silverback_block::cursor::Cursor;
use silverback_block::error::{BlockErrorKind, BlockSectionError};
use silverback_client::histogram::{Histogram, HistogramKind};

const WHAT: &str = "a record of the log";

/// The kinds of records, as far as they matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadRecordKind {
    /// Label sets, with what samples call them.
    Series,
    /// Floats.
    Samples,
    /// What was deleted.
    Tombstones,
    /// Native histograms.
    Histograms(HistogramKind),
    /// Exemplars, metadata, and markers of out-of-order chunks: no samples.
    Other,
    /// Of a later Prometheus.
    Unknown,
}

/// A series as the log names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoggedSeries {
    /// What its samples call it.
    pub reference: u64,
    /// As they are there.
    pub labels: Vec<(String, String)>,
}

/// What a series that is named before it has: a float, or a native histogram, which nobody has validated and which is
/// none where it is larger than a node takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Logged<T> {
    /// The series.
    pub reference: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What it has then.
    pub value: T,
}

impl<'a> HeadRecord<'a> {
    /// What it holds; an empty one nothing.
    pub(super) fn kind(&self) -> HeadRecordKind {
        match self.bytes.first() {
            Some(1) => HeadRecordKind::Series,
            Some(2) => HeadRecordKind::Samples,
            Some(3) => HeadRecordKind::Tombstones,
            None | Some(4..=6) => HeadRecordKind::Other,
            Some(7 | 9) => HeadRecordKind::Histograms(HistogramKind::Integer),
            Some(8 | 10) => HeadRecordKind::Histograms(HistogramKind::Float),
            Some(_) => HeadRecordKind::Unknown,
        }
    }

    /// Its series.
    pub(super) fn series(&self) -> Result<Vec<LoggedSeries>, BlockSectionError> {
        self.all(|cursor| {
            let reference = cursor.u64()?;
            let mut labels = Vec::new();
            for _label in 0..cursor.uvarint()? {
                labels.push((text(cursor)?, text(cursor)?));
            }
            Ok(LoggedSeries { reference, labels })
        })
    }

    /// Its samples: all of them are written as distances from the first one's reference and time.
    pub(super) fn samples(&self) -> Result<Vec<Logged<f64>>, BlockSectionError> {
        self.by_series(|cursor| cursor.u64().map(f64::from_bits))
    }

    /// Its native histograms, likewise.
    pub(super) fn histograms(
        &self,
        kind: HistogramKind,
    ) -> Result<Vec<Logged<Option<Histogram>>>, BlockSectionError> {
        self.by_series(|cursor| histograms::read(kind, cursor))
    }

    fn by_series<T>(
        &self,
        mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, BlockSectionError>,
    ) -> Result<Vec<Logged<T>>, BlockSectionError> {
        if self.bytes.len() == 1 {
            return Ok(Vec::new());
        }
        let mut base = self.content();
        let begins = |cursor: &mut Cursor| Ok((cursor.u64()?, cursor.u64()?.cast_signed()));
        let (reference, at_ms) = begins(&mut base).map_err(|error: BlockSectionError| self.at(error))?;
        self.rest(base, |cursor| {
            let reference = reference.wrapping_add_signed(cursor.varint()?);
            let at_ms = at_ms.wrapping_add(cursor.varint()?);
            Ok(Logged { reference, at_ms, value: read(cursor)? })
        })
    }

    /// What was deleted, by series.
    pub(super) fn tombstones(&self) -> Result<Vec<(u64, DeletedRange)>, BlockSectionError> {
        self.all(|cursor| {
            let reference = cursor.u64()?;
            Ok((reference, DeletedRange { min_ms: cursor.varint()?, max_ms: cursor.varint()? }))
        })
    }

    fn content(&self) -> Cursor<'a> {
        Cursor::new(&self.bytes[1..], 0, WHAT)
    }

    fn all<T>(
        &self,
        read: impl FnMut(&mut Cursor<'a>) -> Result<T, BlockSectionError>,
    ) -> Result<Vec<T>, BlockSectionError> {
        self.rest(self.content(), read)
    }

    fn rest<T>(
        &self,
        mut cursor: Cursor<'a>,
        mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, BlockSectionError>,
    ) -> Result<Vec<T>, BlockSectionError> {
        let mut all = Vec::new();
        while !cursor.is_at_end() {
            all.push(read(&mut cursor).map_err(|error| self.at(error))?);
        }
        Ok(all)
    }

    /// A place within what may be compressed says less than where the record is.
    fn at(&self, error: BlockSectionError) -> BlockSectionError {
        BlockSectionError { offset: self.begins, ..error }
    }
}

fn text(cursor: &mut Cursor) -> Result<String, BlockSectionError> {
    let len = usize::try_from(cursor.uvarint()?).unwrap_or(usize::MAX);
    let bytes = cursor.take(len)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| cursor.error(BlockErrorKind::NotUtf8))
}
