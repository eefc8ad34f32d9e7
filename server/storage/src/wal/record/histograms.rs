//! The Histograms record: native histograms in the order in which they were stored, each as the message of remote
//! write; and, between them, all that a series has, in place of what it had. Knows nothing of what is in a message or a
//! chunk.
use std::iter::FusedIterator;

use super::counted::{CountedRecord, CountedWriter, ReadEntry, WriteEntry};
use super::varint::{RefSteps, put_varint, take, take_byte, take_bytes, take_varint, unzigzag, zigzag};
use super::{RecordError, RecordType};
use silverback_model::SeriesRef;
use silverback_model::histogram::wire::{HistogramTimes, Untimed};
use silverback_model::histogram::{EndPlan, HistogramKind, SealedHistogram};

/// Before a histogram.
const STORED: u8 = 0;
/// Before all that a series has.
const CHUNKS: u8 = 1;
/// Before a histogram that came late.
const STORED_LATE: u8 = 2;

/// Takes histograms and chunks of them.
pub(super) type HistogramsWriter = CountedWriter<WriteHistograms>;

/// What the next entry is written as a step from.
#[derive(Debug, Default)]
pub(super) struct WriteHistograms {
    refs: RefSteps,
    timestamp_ms: i64,
    message: Vec<u8>,
}

impl WriteEntry for WriteHistograms {
    const KIND: RecordType = RecordType::Histograms;
}

impl HistogramsWriter {
    pub(super) fn push(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>) {
        self.push_as(STORED, series, times, histogram);
    }

    /// One that isn't the newest of its series.
    pub(super) fn push_late(&mut self, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>) {
        self.push_as(STORED_LATE, series, times, histogram);
    }

    fn push_as(&mut self, kind: u8, series: SeriesRef, times: HistogramTimes, histogram: Untimed<'_>) {
        let HistogramTimes { timestamp_ms, start_timestamp_ms } = times;
        self.put(|writer, entries| {
            entries.push(kind);
            writer.refs.put(entries, series);
            put_varint(entries, zigzag(timestamp_ms.wrapping_sub(writer.timestamp_ms)));
            writer.timestamp_ms = timestamp_ms;
            // Its timestamp is before it.
            let untimed = HistogramTimes { timestamp_ms: 0, start_timestamp_ms };
            let pieces = match histogram {
                Untimed::AsItCame(pieces) => pieces,
                Untimed::Unwritten(histogram) => {
                    writer.message.clear();
                    histogram.put_message(untimed, &mut writer.message);
                    [&*writer.message, &[]]
                }
            };
            put_varint(entries, (pieces[0].len() + pieces[1].len()) as u64);
            pieces.into_iter().for_each(|piece| entries.extend_from_slice(piece));
        });
    }

    /// The open chunk with its plan, as bytes, where there is one.
    pub(super) fn push_chunks(
        &mut self,
        series: SeriesRef,
        sealed: &[SealedHistogram],
        open: Option<OpenHistogramBytes>,
    ) {
        self.put(|writer, entries| {
            entries.push(CHUNKS);
            writer.refs.put(entries, series);
            sealed.iter().for_each(|chunk| put_sealed(entries, chunk));
            put_varint(entries, 0);
            put_open(entries, open);
        });
    }
}

fn put_sealed(entries: &mut Vec<u8>, chunk: &SealedHistogram) {
    let (min_ms, max_ms) = (chunk.min_timestamp_ms(), chunk.max_timestamp_ms());
    // One more than the length: zero ends the list.
    put_varint(entries, chunk.bytes().len() as u64 + 1);
    entries.push(chunk.kind().chunk_encoding());
    put_varint(entries, zigzag(min_ms));
    put_varint(entries, max_ms.wrapping_sub(min_ms) as u64);
    entries.extend_from_slice(chunk.bytes());
}

fn put_open(entries: &mut Vec<u8>, open: Option<OpenHistogramBytes>) {
    let Some(OpenHistogramBytes { kind, plan, bytes }) = open else { return put_varint(entries, 0) };
    put_varint(entries, bytes.len() as u64 + 1);
    entries.push(kind.chunk_encoding());
    put_varint(entries, zigzag(plan.end_ms));
    entries.push(u8::from(plan.is_reckoned));
    entries.extend_from_slice(bytes);
}

/// The histograms of a group, or of some series of a checkpoint; each entry has four bytes at least.
pub type HistogramsRecord<'a> = CountedRecord<'a, HistogramsReader>;

/// What the log says of a series' histograms.
#[derive(Debug, Clone)]
pub enum HistogramEntry<'a> {
    /// One was stored.
    Stored {
        /// What the log calls its series.
        series: SeriesRef,
        /// When it was.
        timestamp_ms: i64,
        /// Its message. Only its reader can tell whether these bytes are one.
        message: &'a [u8],
        /// Whether it came late; else it was the newest of its series.
        is_late: bool,
    },
    /// From here on the series has these, whatever it had.
    Chunks(LoggedHistogramChunks<'a>),
}

/// All histograms of a series, in chunks.
#[derive(Debug, Clone)]
pub struct LoggedHistogramChunks<'a> {
    /// What the log calls it.
    pub series: SeriesRef,
    /// Those that are cut, oldest first.
    pub sealed: SealedHistograms<'a>,
    /// The one that grows; `None` where the series has none any more.
    pub open: Option<OpenHistogramBytes<'a>>,
}

/// An open chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHistogramBytes<'a> {
    /// What is in it.
    pub kind: HistogramKind,
    /// Until when it is to take histograms.
    pub plan: EndPlan,
    /// The chunk as if it had been sealed then. Only its decoder can tell whether these bytes are one.
    pub bytes: &'a [u8],
}

/// A sealed chunk's bytes, and the time that it is said to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedHistogramBytes<'a> {
    /// What is in it.
    pub kind: HistogramKind,
    /// The oldest histogram's timestamp.
    pub min_ms: i64,
    /// The newest one's, not below the oldest.
    pub max_ms: i64,
    /// The chunk.
    pub bytes: &'a [u8],
}

/// Reads entries.
#[derive(Debug, Clone, Default)]
pub struct HistogramsReader {
    refs: RefSteps,
    timestamp_ms: i64,
}

impl<'a> ReadEntry<'a> for HistogramsReader {
    type Entry = HistogramEntry<'a>;

    fn read(&mut self, rest: &mut &'a [u8]) -> Result<Self::Entry, RecordError> {
        let kind = take_byte(rest)?;
        let series = self.refs.take(rest)?;
        match kind {
            STORED | STORED_LATE => {
                self.timestamp_ms = self.timestamp_ms.wrapping_add(unzigzag(take_varint(rest)?));
                let message = take_bytes(rest)?;
                let is_late = kind == STORED_LATE;
                Ok(HistogramEntry::Stored { series, timestamp_ms: self.timestamp_ms, message, is_late })
            }
            CHUNKS => {
                let sealed = SealedHistograms { rest };
                // Each is looked at here, so that those who iterate over them meet no error.
                while take_sealed(rest)?.is_some() {}
                let open = take_open(rest)?;
                Ok(HistogramEntry::Chunks(LoggedHistogramChunks { series, sealed, open }))
            }
            other => Err(RecordError::UnknownType(other)),
        }
    }
}

fn take_kind(rest: &mut &[u8]) -> Result<HistogramKind, RecordError> {
    let encoding = take_byte(rest)?;
    HistogramKind::of_chunk_encoding(encoding).ok_or(RecordError::UnknownType(encoding))
}

fn take_chunk<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8], RecordError> {
    take(rest, usize::try_from(len).map_err(|_| RecordError::Truncated)?)
}

/// The next chunk of a list, if there is one more.
fn take_sealed<'a>(rest: &mut &'a [u8]) -> Result<Option<SealedHistogramBytes<'a>>, RecordError> {
    let Some(len) = take_varint(rest)?.checked_sub(1) else { return Ok(None) };
    let kind = take_kind(rest)?;
    let min_ms = unzigzag(take_varint(rest)?);
    let max_ms = min_ms.checked_add_unsigned(take_varint(rest)?).ok_or(RecordError::TimeOutOfRange)?;
    Ok(Some(SealedHistogramBytes { kind, min_ms, max_ms, bytes: take_chunk(rest, len)? }))
}

fn take_open<'a>(rest: &mut &'a [u8]) -> Result<Option<OpenHistogramBytes<'a>>, RecordError> {
    let Some(len) = take_varint(rest)?.checked_sub(1) else { return Ok(None) };
    let kind = take_kind(rest)?;
    let end_ms = unzigzag(take_varint(rest)?);
    let is_reckoned = match take_byte(rest)? {
        0 => false,
        1 => true,
        other => return Err(RecordError::UnknownType(other)),
    };
    let plan = EndPlan { end_ms, is_reckoned };
    Ok(Some(OpenHistogramBytes { kind, plan, bytes: take_chunk(rest, len)? }))
}

/// Iterates over the sealed chunks of a series.
#[derive(Debug, Clone)]
pub struct SealedHistograms<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for SealedHistograms<'a> {
    type Item = SealedHistogramBytes<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest;
        let sealed = take_sealed(&mut rest).ok().flatten()?;
        // Only past a chunk: at the end of the list it stays, and ends again.
        self.rest = rest;
        Some(sealed)
    }
}

impl FusedIterator for SealedHistograms<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::record::{Record, records};
    use silverback_model::histogram::Histogram;

    const SERIES: [SeriesRef; 2] = [SeriesRef(7), SeriesRef(3)];

    fn chunk() -> SealedHistogram {
        SealedHistogram::restored(HistogramKind::Float, -5, 70, Box::new([1, 2, 3]))
    }

    fn times(timestamp_ms: i64, start_timestamp_ms: i64) -> HistogramTimes {
        HistogramTimes { timestamp_ms, start_timestamp_ms }
    }

    fn payload() -> Vec<u8> {
        let mut writer = HistogramsWriter::default();
        let histogram = Histogram { count: 9, ..Histogram::default() };
        let unwritten = Untimed::Unwritten(&histogram);
        writer.push(SERIES[0], times(1_700_000_000_000, 0), unwritten);
        let plan = EndPlan { end_ms: -1, is_reckoned: true };
        let open = OpenHistogramBytes { kind: HistogramKind::Integer, plan, bytes: &[4, 5] };
        writer.push_chunks(SERIES[1], &[chunk(), chunk()], Some(open));
        writer.push_chunks(SERIES[0], &[], None);
        writer.push(SERIES[1], times(i64::MIN, 0), unwritten);
        writer.push_late(SERIES[0], times(1_700_000_000_000, 1_600_000_000_000), unwritten);
        writer.finish();
        writer.parts().concat()
    }

    fn entries(payload: &[u8]) -> Result<Vec<HistogramEntry<'_>>, RecordError> {
        let record = records(payload).next().expect("a record")?;
        let Record::Histograms(record) = record else { panic!("another record") };
        record.iter().collect()
    }

    #[test]
    fn what_is_staged_is_read_in_its_order() {
        let payload = payload();
        let entries = entries(&payload).unwrap();
        let [HistogramEntry::Stored { series, timestamp_ms, message, is_late }, chunks, none, last, late] =
            &entries[..]
        else {
            panic!("{entries:?}")
        };
        let mut histogram = Histogram::default();
        assert_eq!((*series, *timestamp_ms, *is_late), (SERIES[0], 1_700_000_000_000, false));
        assert_eq!((histogram.read_message(message), histogram.count), (Ok(times(0, 0)), 9));
        let HistogramEntry::Chunks(chunks) = chunks else { panic!("{chunks:?}") };
        let sealed: Vec<_> =
            chunks.sealed.clone().map(|chunk| (chunk.kind, chunk.min_ms, chunk.max_ms)).collect();
        assert_eq!((chunks.series, sealed), (SERIES[1], vec![(HistogramKind::Float, -5, 70); 2]));
        let open = chunks.open.unwrap();
        assert_eq!((open.plan.end_ms, open.plan.is_reckoned, open.bytes), (-1, true, &[4, 5][..]));
        let HistogramEntry::Chunks(none) = none else { panic!("{none:?}") };
        assert!(none.open.is_none() && none.sealed.clone().next().is_none());
        assert!(matches!(last, HistogramEntry::Stored { timestamp_ms: i64::MIN, is_late: false, .. }));
        let HistogramEntry::Stored { series, timestamp_ms, message, is_late: true } = late else {
            panic!("{late:?}")
        };
        assert_eq!((*series, *timestamp_ms), (SERIES[0], 1_700_000_000_000));
        let said = histogram.read_message(message);
        assert_eq!(
            (said, histogram.count),
            (Ok(times(0, 1_600_000_000_000)), 9),
            "its start timestamp alone"
        );
    }

    #[test]
    fn a_record_that_is_cut_or_says_what_cannot_be_is_refused() {
        let whole = payload();
        let content = &whole[5..];
        for len in 4..content.len() {
            let mut cut = vec![RecordType::Histograms as u8];
            cut.extend((len as u32).to_le_bytes());
            cut.extend_from_slice(&content[..len]);
            assert!(entries(&cut).is_err(), "{len} bytes");
        }
        let refused = |entry: &[u8]| {
            let mut payload = vec![RecordType::Histograms as u8];
            payload.extend((entry.len() as u32 + 4).to_le_bytes());
            payload.extend(1_u32.to_le_bytes());
            payload.extend_from_slice(entry);
            entries(&payload).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(&[3, 0]), RecordError::UnknownType(3));
        assert_eq!(refused(&[CHUNKS, 0, 2, 1, 0, 0, 9]), RecordError::UnknownType(1));
        assert_eq!(refused(&[CHUNKS, 0, 0, 2, 2, 0, 2, 9]), RecordError::UnknownType(2));
        assert_eq!(refused(&[CHUNKS, 0, 0, 9, 2, 0, 1, 9]), RecordError::Truncated);
        assert_eq!(refused(&[STORED, 0, 0, 0, 0]), RecordError::TrailingBytes);
    }
}
