//! `silverback.v1.Batch`, read in place: its columns side by side, sample by sample. It knows no
//! series: only refs. Of native histograms it knows where they are, and looks into none.
//!
//! A batch in the usual form has each column in one packed field. Protocol buffers allow others; a
//! batch in one of them is brought into the usual one first.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use prost::Message;
use silverback_model::varint::{unzigzag, unzigzag_32};
use silverback_proto::v1;

use crate::api::ingest::remote_write::wire::{Tag, WireReader, WireType};
use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind};
use silverback_model::Sample;
use silverback_model::limits::STREAM_BATCH_SAMPLES_MAX;
use silverback_storage::message::{PartHistogram, PartSeries, RefUpdates};

const NUMBER: Tag = Tag::new(1, WireType::Varint);
const REF_DELTAS: Tag = Tag::new(2, WireType::Len);
const BASE_TIMESTAMP: Tag = Tag::new(3, WireType::Varint);
const TIMESTAMP_DELTAS: Tag = Tag::new(4, WireType::Len);
const VALUES: Tag = Tag::new(5, WireType::Len);
const HISTOGRAM_REF_DELTAS: Tag = Tag::new(6, WireType::Len);
const HISTOGRAMS: Tag = Tag::new(7, WireType::Len);
/// Columns element by element.
const UNPACKED: [Tag; 4] = [
    Tag::new(2, WireType::Varint),
    Tag::new(4, WireType::Varint),
    Tag::new(5, WireType::Fixed64),
    Tag::new(6, WireType::Varint),
];
const KNOWN_MAX: u32 = 7;

/// A batch whose samples are not looked at yet.
#[derive(Debug, Clone, Default)]
pub struct Columns<'a> {
    /// Its number on the stream.
    pub number: u64,
    ref_deltas: Cow<'a, [u8]>,
    base_timestamp_ms: i64,
    timestamp_deltas: Cow<'a, [u8]>,
    values: Cow<'a, [u8]>,
    histogram_ref_deltas: Cow<'a, [u8]>,
    histograms: HistogramFields<'a>,
}

/// Where a batch's native histograms are.
#[derive(Debug, Clone, Copy, Default)]
struct HistogramFields<'a> {
    /// From the first one's tag to the end of the last one; other fields may be between them.
    bytes: &'a [u8],
    count: usize,
}

/// One of a batch's floats or native histograms, counted from 0 among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchRow {
    /// A float.
    Sample(usize),
    /// A native histogram.
    Histogram(usize),
}

impl fmt::Display for BatchRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample(at) => write!(f, "sample {at}"),
            Self::Histogram(at) => write!(f, "native histogram {at}"),
        }
    }
}

/// What is wrong with a batch, so that nothing of it is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Not a batch at all.
    #[error(transparent)]
    Malformed(#[from] MalformedError),
    /// Nothing in it.
    #[error("the batch has no samples")]
    Empty,
    /// More in it than the terms allow.
    #[error("the batch has {samples} samples, and may have {samples_max}")]
    TooManySamples {
        /// Samples in it.
        samples: usize,
        /// What is allowed.
        samples_max: usize,
    },
    /// Native histograms with much else between them, over which each look at them would go.
    #[error("the batch's native histograms are {gaps_bytes} bytes apart, and may be {gaps_bytes_max}")]
    Scattered {
        /// Bytes of other fields between them.
        gaps_bytes: usize,
        /// What is allowed.
        gaps_bytes_max: usize,
    },
    /// The same of native histograms, which are counted no further.
    #[error("the batch has more than {histograms_max} native histograms, as many as it may have")]
    TooManyHistograms {
        /// What is allowed.
        histograms_max: usize,
    },
    /// Some samples lack something.
    #[error(
        "the batch's columns are of unequal length: {refs} refs, {timestamps} timestamps, {values} values"
    )]
    UnequalColumns {
        /// Refs in it.
        refs: usize,
        /// Timestamps in it.
        timestamps: usize,
        /// Values in it.
        values: usize,
    },
    /// Some native histograms lack a ref, or some refs a histogram.
    #[error("the batch has {refs} refs of native histograms, and {histograms} native histograms")]
    UnequalHistograms {
        /// Refs in it.
        refs: usize,
        /// Native histograms in it.
        histograms: usize,
    },
    /// The refs' differences lead out of the refs' range.
    #[error("{row} of the batch has a ref below 0 or beyond 32 bits")]
    RefOutOfRange {
        /// Which.
        row: BatchRow,
    },
    /// A ref that stands for no series of this stream.
    #[error(
        "{row} of the batch has the ref {stream_ref}, which was not defined on this stream; \
         refs of another stream, or of one that has ended, mean nothing here"
    )]
    UndefinedRef {
        /// Which.
        row: BatchRow,
        /// The ref.
        stream_ref: u32,
    },
}

impl<'a> Columns<'a> {
    /// Finds the columns of a batch; `reader` ends where the batch ends.
    pub fn read(reader: WireReader<'a>) -> Result<Self, BatchError> {
        match Self::read_usual(reader)? {
            Some(columns) => Ok(columns),
            None => Self::read_unusual(reader),
        }
    }

    /// `None`: it is not in the usual form.
    fn read_usual(mut reader: WireReader<'a>) -> Result<Option<Self>, BatchError> {
        let mut columns = Self::default();
        let mut histograms = HistogramPlaces::default();
        while !reader.is_empty() {
            let begin = reader.at();
            let tag = reader.tag()?;
            let column = match tag {
                NUMBER => {
                    columns.number = reader.varint()?;
                    continue;
                }
                BASE_TIMESTAMP => {
                    columns.base_timestamp_ms = reader.varint()? as i64;
                    continue;
                }
                REF_DELTAS => &mut columns.ref_deltas,
                TIMESTAMP_DELTAS => &mut columns.timestamp_deltas,
                VALUES => &mut columns.values,
                HISTOGRAM_REF_DELTAS => &mut columns.histogram_ref_deltas,
                HISTOGRAMS => {
                    reader.span()?;
                    histograms.add(begin..reader.at())?;
                    continue;
                }
                other if UNPACKED.contains(&other) => return Ok(None),
                other => {
                    reader.skip_unknown(other, KNOWN_MAX)?;
                    continue;
                }
            };
            if !column.is_empty() {
                return Ok(None);
            }
            let place = reader.span()?;
            *column = Cow::Borrowed(&reader.bytes()[place]);
        }
        columns.histograms = histograms.of(reader.bytes());
        Ok(Some(columns))
    }

    #[cold]
    fn read_unusual(reader: WireReader<'a>) -> Result<Self, BatchError> {
        let malformed = || MalformedError { offset: reader.at(), cause: MalformedErrorKind::WrongWireType };
        // Histograms stay where they are: many small ones would take far more than their bytes.
        let (mut fields, mut others) = (reader, Vec::new());
        let mut histograms = HistogramPlaces::default();
        while !fields.is_empty() {
            let begin = fields.at();
            let tag = fields.tag()?;
            fields.skip(tag)?;
            let place = begin..fields.at();
            if tag == HISTOGRAMS {
                histograms.add(place)?;
            } else {
                others.extend_from_slice(&fields.bytes()[place]);
            }
        }
        let batch = v1::Batch::decode(&others[..]).map_err(|_| malformed())?;
        let usual = batch.encode_to_vec();
        let columns = Columns::read_usual(WireReader::new(&usual, 0))?.ok_or_else(malformed)?;
        Ok(Self {
            number: columns.number,
            ref_deltas: columns.ref_deltas.into_owned().into(),
            base_timestamp_ms: columns.base_timestamp_ms,
            timestamp_deltas: columns.timestamp_deltas.into_owned().into(),
            values: columns.values.into_owned().into(),
            histogram_ref_deltas: columns.histogram_ref_deltas.into_owned().into(),
            histograms: histograms.of(reader.bytes()),
        })
    }

    /// How many floats there are.
    pub(crate) fn samples(&self) -> usize {
        self.values.len() / 8
    }

    /// What floats and native histograms take in parts, at most, in bytes.
    pub(crate) fn part_bytes(&self) -> usize {
        // With where their series are, which their owner says.
        let float_bytes = size_of::<PartSeries>() + size_of::<Sample>() + RefUpdates::BYTES_EACH;
        let floats_bytes = self.samples() * float_bytes;
        floats_bytes + self.histograms() * size_of::<PartHistogram>()
    }

    /// How many native histograms there are.
    pub fn histograms(&self) -> usize {
        self.histograms.count
    }

    /// The bytes that the native histograms lie in.
    pub fn histogram_bytes(&self) -> &'a [u8] {
        self.histograms.bytes
    }

    /// Gives every native histogram with its ref to `each`, in order, as its place in
    /// [`histogram_bytes`](Self::histogram_bytes), until `each` refuses one.
    pub fn for_each_histogram(
        &self,
        mut each: impl FnMut(u32, Range<usize>) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        let mut refs = Varints(&self.histogram_ref_deltas);
        let mut fields = WireReader::new(self.histograms.bytes, 0);
        let (mut stream_ref, mut histogram) = (0i64, 0);
        while !fields.is_empty() {
            let tag = fields.tag()?;
            if tag != HISTOGRAMS {
                fields.skip(tag)?;
                continue;
            }
            let place = fields.span()?;
            let Some(delta) = refs.next() else { return Err(self.unequal_histograms()) };
            stream_ref += i64::from(unzigzag_32(delta));
            let Ok(checked) = u32::try_from(stream_ref) else {
                return Err(BatchError::RefOutOfRange { row: BatchRow::Histogram(histogram) });
            };
            each(checked, place)?;
            histogram += 1;
        }
        if refs.0.is_empty() { Ok(()) } else { Err(self.unequal_histograms()) }
    }

    /// Gives every float with its ref to `each`, in order, until `each` refuses one.
    #[inline]
    pub fn for_each(
        &self,
        samples_max: usize,
        mut each: impl FnMut(u32, Sample) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        self.check(samples_max)?;
        let mut refs = Varints(&self.ref_deltas);
        let mut timestamps = Varints(&self.timestamp_deltas);
        let at_once = self.timestamp_deltas.is_empty();
        let (mut stream_ref, mut timestamp_ms) = (0i64, self.base_timestamp_ms);
        let (values, _rest) = self.values.as_chunks::<8>();
        for (sample, value) in values.iter().enumerate() {
            let Some(delta) = refs.next() else { return Err(self.unequal()) };
            // Of 32 bits, these can't overflow 64.
            stream_ref += i64::from(unzigzag_32(delta));
            let Ok(checked) = u32::try_from(stream_ref) else {
                return Err(BatchError::RefOutOfRange { row: BatchRow::Sample(sample) });
            };
            if !at_once {
                let Some(delta) = timestamps.next() else { return Err(self.unequal()) };
                timestamp_ms = timestamp_ms.wrapping_add(unzigzag(delta));
            }
            each(checked, Sample::new(timestamp_ms, f64::from_bits(u64::from_le_bytes(*value))))?;
        }
        if refs.0.is_empty() && timestamps.0.is_empty() { Ok(()) } else { Err(self.unequal()) }
    }

    fn check(&self, samples_max: usize) -> Result<(), BatchError> {
        let samples = self.samples();
        if !self.values.len().is_multiple_of(8) {
            return Err(BatchError::Malformed(MalformedError {
                offset: 0,
                cause: MalformedErrorKind::Truncated,
            }));
        }
        let samples = samples + self.histograms.count;
        if samples > samples_max {
            return Err(BatchError::TooManySamples { samples, samples_max });
        }
        if self.histograms.count == 0 && !self.histogram_ref_deltas.is_empty() {
            return Err(self.unequal_histograms());
        }
        if samples == 0 && self.ref_deltas.is_empty() {
            return Err(BatchError::Empty);
        }
        Ok(())
    }

    #[cold]
    fn unequal_histograms(&self) -> BatchError {
        let refs = count(&self.histogram_ref_deltas);
        BatchError::UnequalHistograms { refs, histograms: self.histograms.count }
    }

    #[cold]
    fn unequal(&self) -> BatchError {
        BatchError::UnequalColumns {
            refs: count(&self.ref_deltas),
            timestamps: count(&self.timestamp_deltas),
            values: self.samples(),
        }
    }
}

/// Where native histograms were found.
#[derive(Debug, Default)]
struct HistogramPlaces {
    begin: usize,
    end: usize,
    count: usize,
    /// Bytes of other fields between them.
    gaps_bytes: usize,
}

/// Fields between native histograms, in bytes: usual encoders put none there.
const GAPS_BYTES_MAX: usize = 64 << 10;

impl HistogramPlaces {
    /// Notes a whole field. More than a batch may have are not looked for.
    fn add(&mut self, field: Range<usize>) -> Result<(), BatchError> {
        if self.count == STREAM_BATCH_SAMPLES_MAX {
            return Err(BatchError::TooManyHistograms { histograms_max: STREAM_BATCH_SAMPLES_MAX });
        }
        if self.count == 0 {
            (self.begin, self.end) = (field.start, field.start);
        }
        self.gaps_bytes += field.start - self.end;
        if self.gaps_bytes > GAPS_BYTES_MAX {
            return Err(BatchError::Scattered {
                gaps_bytes: self.gaps_bytes,
                gaps_bytes_max: GAPS_BYTES_MAX,
            });
        }
        self.end = field.end;
        self.count += 1;
        Ok(())
    }

    fn of(self, bytes: &[u8]) -> HistogramFields<'_> {
        HistogramFields { bytes: &bytes[self.begin..self.end], count: self.count }
    }
}

/// Each varint has one byte without the continuation bit.
fn count(varints: &[u8]) -> usize {
    varints.iter().filter(|byte| **byte < 0x80).count()
}

/// Varints one after the other.
struct Varints<'a>(&'a [u8]);

impl Varints<'_> {
    /// `None` at the end, and at one that is cut off or too long.
    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let (&byte, rest) = self.0.split_first()?;
        if byte < 0x80 {
            self.0 = rest;
            return Some(u64::from(byte));
        }
        self.long()
    }

    fn long(&mut self) -> Option<u64> {
        let mut reader = WireReader::new(self.0, 0);
        let value = reader.varint().ok()?;
        self.0 = &self.0[reader.at()..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: u64 = 0x7ff0_0000_0000_0002;

    fn batch(refs: &[i32], timestamps: &[i64], values: &[f64]) -> v1::Batch {
        v1::Batch {
            number: 7,
            ref_deltas: refs.to_vec(),
            base_timestamp_ms: 1000,
            timestamp_deltas_ms: timestamps.to_vec(),
            values: values.to_vec(),
            ..v1::Batch::default()
        }
    }

    /// A ref, a time, a value's bits.
    type Bits = (u32, i64, u64);

    fn read(bytes: &[u8]) -> Result<(u64, Vec<Bits>), BatchError> {
        let columns = Columns::read(WireReader::new(bytes, 0))?;
        let mut samples = Vec::new();
        columns.for_each(100, |stream_ref, sample| {
            samples.push((stream_ref, sample.timestamp_ms, sample.value.to_bits()));
            Ok(())
        })?;
        Ok((columns.number, samples))
    }

    fn check(batch: &v1::Batch, expect: Result<&[Bits], BatchError>) {
        let expect = expect.map(|samples| (7, samples.to_vec()));
        assert_eq!(read(&batch.encode_to_vec()), expect);
    }

    #[test]
    fn columns_become_samples_bit_for_bit() {
        let one = 1f64.to_bits();
        let values = [1.0, f64::from_bits(STALE), 1.0];
        check(
            &batch(&[5, -2, 300], &[0, 15, -1], &values),
            Ok(&[(5, 1000, one), (3, 1015, STALE), (303, 1014, one)]),
        );
        check(&batch(&[0, 1, 0], &[], &values), Ok(&[(0, 1000, one), (1, 1000, STALE), (1, 1000, one)]));
        let first = 1000i64.wrapping_add(i64::MAX);
        let second = first.wrapping_add(i64::MAX);
        let third = second.wrapping_add(i64::MAX);
        let max = i32::MAX as u32;
        let expect = [(max, first, one), (2 * max, second, STALE), (2 * max + 1, third, one)];
        check(&batch(&[i32::MAX, i32::MAX, 1], &[i64::MAX; 3], &values), Ok(&expect));
    }

    #[test]
    fn a_delta_of_more_than_32_bits_is_cut_as_protobuf_cuts_it() {
        let mut bytes = vec![0x12, 5];
        bytes.extend([0x8a, 0x80, 0x80, 0x80, 0x10]);
        bytes.extend([0x2a, 8]);
        bytes.extend(1f64.to_le_bytes());
        let expect = v1::Batch::decode(&bytes[..]).unwrap();
        assert_eq!(expect.ref_deltas, [5]);
        assert_eq!(read(&bytes), Ok((0, vec![(5, 0, 1f64.to_bits())])));
    }

    #[test]
    fn columns_of_unequal_length_are_told() {
        for (refs, timestamps, values) in [(1, 0, 2), (3, 0, 2), (2, 1, 2), (2, 3, 2), (2, 2, 0)] {
            let batch = batch(&vec![1; refs], &vec![1000; timestamps], &vec![0.5; values]);
            check(&batch, Err(BatchError::UnequalColumns { refs, timestamps, values }));
        }
    }

    #[test]
    fn what_is_no_batch_is_told() {
        check(&batch(&[], &[], &[]), Err(BatchError::Empty));
        check(
            &batch(&[0], &[], &[0.5; 101]),
            Err(BatchError::TooManySamples { samples: 101, samples_max: 100 }),
        );
        let below = BatchError::RefOutOfRange { row: BatchRow::Sample(1) };
        check(&batch(&[1, -2], &[], &[0.5; 2]), Err(below));
        let half_a_value = [0x12, 1, 0, 0x2a, 3, 1, 2, 3];
        assert!(matches!(read(&half_a_value), Err(BatchError::Malformed(_))));
        for bytes in [&[0x12][..], &[0x12, 9, 1], &[0x10], &[0x0b], &[0x2a, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(matches!(read(bytes), Err(BatchError::Malformed(_))), "{bytes:x?}");
        }
    }

    #[test]
    fn every_encoding_that_protobuf_allows_is_read() {
        let mut unpacked = vec![0x08, 7, 0x18, 0xe8, 0x07];
        for value in [1.0f64, 2.0] {
            unpacked.extend([0x10, 2]);
            unpacked.push(0x29);
            unpacked.extend(value.to_le_bytes());
        }
        let expect = (7, vec![(1, 1000, 1f64.to_bits()), (2, 1000, 2f64.to_bits())]);
        assert_eq!(read(&unpacked), Ok(expect));
        let halves =
            [batch(&[1], &[], &[1.0]).encode_to_vec(), batch(&[1], &[], &[2.0]).encode_to_vec()].concat();
        let expect = (7, vec![(1, 1000, 1f64.to_bits()), (2, 1000, 2f64.to_bits())]);
        assert_eq!(read(&halves), Ok(expect));
    }

    type Histograms = Vec<(u32, Vec<u8>)>;

    fn read_histograms(bytes: &[u8]) -> Result<Histograms, BatchError> {
        let columns = Columns::read(WireReader::new(bytes, 0))?;
        columns.for_each(100, |_, _| Ok(()))?;
        let mut found = Vec::new();
        columns.for_each_histogram(|stream_ref, place| {
            found.push((stream_ref, columns.histogram_bytes()[place].to_vec()));
            Ok(())
        })?;
        assert_eq!(found.len(), columns.histograms());
        Ok(found)
    }

    fn with_histograms(refs: &[i32], histograms: &[&'static [u8]]) -> v1::Batch {
        let histograms = histograms.iter().map(|bytes| bytes::Bytes::from_static(bytes)).collect();
        v1::Batch { histogram_ref_deltas: refs.to_vec(), histograms, ..batch(&[5], &[], &[1.0]) }
    }

    #[test]
    fn histograms_come_beside_floats_and_without_any() {
        let expect = vec![(7, b"one".to_vec()), (4, Vec::new()), (4, b"three".to_vec())];
        let both = with_histograms(&[7, -3, 0], &[b"one", b"", b"three"]);
        assert_eq!(read_histograms(&both.encode_to_vec()), Ok(expect.clone()));
        check(&both, Ok(&[(5, 1000, 1f64.to_bits())]));
        let alone = v1::Batch { ref_deltas: vec![], values: vec![], ..both.clone() };
        assert_eq!(read_histograms(&alone.encode_to_vec()), Ok(expect.clone()));
        // Floats after the histograms, between them, and refs one by one.
        let [floats, histograms] = [batch(&[5], &[], &[1.0]), alone].map(|batch| batch.encode_to_vec());
        assert_eq!(read_histograms(&[&histograms[..], &floats].concat()), Ok(expect));
        let field = |bytes: &[u8]| [&[0x3a, bytes.len() as u8], bytes].concat();
        let scattered =
            [&[0x30, 14][..], &field(b"one"), &floats, &[0x30, 5], &field(b""), &[0x78, 9]].concat();
        assert_eq!(read_histograms(&scattered), Ok(vec![(7, b"one".to_vec()), (4, Vec::new())]));
        assert_eq!(read(&scattered), Ok((7, vec![(5, 1000, 1f64.to_bits())])));
        let between = [0x78, 9].repeat(40_000);
        let far = [&[0x30, 14][..], &field(b"one"), &between, &[0x30, 5], &field(b"")].concat();
        let told = BatchError::Scattered { gaps_bytes: 80_002, gaps_bytes_max: GAPS_BYTES_MAX };
        assert_eq!(read_histograms(&far), Err(told));
    }

    #[test]
    fn histograms_that_can_t_be_told_apart_or_are_too_many_are_told() {
        let check = |batch: &v1::Batch, expect| {
            assert_eq!(read_histograms(&batch.encode_to_vec()), Err(expect));
        };
        for (refs, histograms) in [(0, 1), (2, 1), (1, 0), (1, 2)] {
            let batch = with_histograms(&vec![1; refs], &vec![&b"h"[..]; histograms]);
            check(&batch, BatchError::UnequalHistograms { refs, histograms });
        }
        let below = BatchError::RefOutOfRange { row: BatchRow::Histogram(1) };
        check(&with_histograms(&[0, -1], &[&b"h"[..]; 2]), below);
        let many = with_histograms(&[0; 100], &[&b"h"[..]; 100]);
        check(&many, BatchError::TooManySamples { samples: 101, samples_max: 100 });
        // In the usual form and in another they are counted no further than they may be.
        for before in [&[][..], &[0x10, 2]] {
            let huge = [before, &[0x3a, 0].repeat(STREAM_BATCH_SAMPLES_MAX + 1)].concat();
            let fault = BatchError::TooManyHistograms { histograms_max: STREAM_BATCH_SAMPLES_MAX };
            assert_eq!(read_histograms(&huge), Err(fault));
        }
        for bytes in [&[0x3a][..], &[0x3a, 2, 1], &[0x38, 1], &[0x32, 9], &[0x10, 2, 0x3a, 2, 1]] {
            assert!(matches!(read_histograms(bytes), Err(BatchError::Malformed(_))), "{bytes:x?}");
        }
    }
}
