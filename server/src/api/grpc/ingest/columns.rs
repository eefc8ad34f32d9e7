//! `silverback.v1.Batch`, read in place: its columns side by side, sample by sample. It knows no
//! series: only refs.
//!
//! A batch in the usual form has each column in one packed field. Protocol buffers allow others; a
//! batch in one of them is brought into the usual one first.

use std::borrow::Cow;

use prost::Message;
use silverback_proto::v1;

use crate::api::ingest::remote_write::wire::{Reader, Tag, WireType};
use crate::api::ingest::remote_write::{MalformedBody, MalformedCause};
use silverback_model::Sample;

const NUMBER: Tag = Tag::new(1, WireType::Varint);
const REF_DELTAS: Tag = Tag::new(2, WireType::Len);
const BASE_TIMESTAMP: Tag = Tag::new(3, WireType::Varint);
const TIMESTAMP_DELTAS: Tag = Tag::new(4, WireType::Len);
const VALUES: Tag = Tag::new(5, WireType::Len);
/// Columns element by element.
const UNPACKED: [Tag; 3] =
    [Tag::new(2, WireType::Varint), Tag::new(4, WireType::Varint), Tag::new(5, WireType::Fixed64)];
const KNOWN_MAX: u32 = 5;

/// A batch whose samples are not looked at yet.
#[derive(Debug, Clone, Default)]
pub struct Columns<'a> {
    /// Its number on the stream.
    pub number: u64,
    ref_deltas: Cow<'a, [u8]>,
    base_timestamp_ms: i64,
    timestamp_deltas: Cow<'a, [u8]>,
    values: Cow<'a, [u8]>,
}

/// What is wrong with a batch, so that nothing of it is taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchFault {
    /// Not a batch at all.
    #[error(transparent)]
    Malformed(#[from] MalformedBody),
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
    /// The refs' differences lead out of the refs' range.
    #[error("sample {sample} of the batch has a ref below 0 or beyond 32 bits")]
    RefOutOfRange {
        /// Counted from 0.
        sample: usize,
    },
    /// A ref that stands for no series of this stream.
    #[error(
        "sample {sample} of the batch has the ref {stream_ref}, which was not defined on this stream; \
         refs of another stream, or of one that has ended, mean nothing here"
    )]
    UndefinedRef {
        /// Counted from 0.
        sample: usize,
        /// The ref.
        stream_ref: u32,
    },
}

impl<'a> Columns<'a> {
    /// Finds the columns of a batch; `reader` ends where the batch ends.
    pub fn read(reader: Reader<'a>) -> Result<Self, BatchFault> {
        match Self::read_usual(reader)? {
            Some(columns) => Ok(columns),
            None => Self::read_unusual(reader),
        }
    }

    /// `None`: it is not in the usual form.
    fn read_usual(mut reader: Reader<'a>) -> Result<Option<Self>, MalformedBody> {
        let mut columns = Self::default();
        while !reader.is_empty() {
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
        Ok(Some(columns))
    }

    #[cold]
    fn read_unusual(reader: Reader<'a>) -> Result<Self, BatchFault> {
        let malformed = || MalformedBody { offset: reader.at(), cause: MalformedCause::WrongWireType };
        let batch = v1::Batch::decode(&reader.bytes()[reader.at()..]).map_err(|_| malformed())?;
        let usual = batch.encode_to_vec();
        let columns = Columns::read_usual(Reader::new(&usual, 0))?.ok_or_else(malformed)?;
        Ok(Self {
            number: columns.number,
            ref_deltas: columns.ref_deltas.into_owned().into(),
            base_timestamp_ms: columns.base_timestamp_ms,
            timestamp_deltas: columns.timestamp_deltas.into_owned().into(),
            values: columns.values.into_owned().into(),
        })
    }

    /// How many samples there are.
    pub(crate) fn samples(&self) -> usize {
        self.values.len() / 8
    }

    /// Gives every sample with its ref to `each`, in order, until `each` refuses one.
    #[inline]
    pub fn for_each(
        &self,
        samples_max: usize,
        mut each: impl FnMut(u32, Sample) -> Result<(), BatchFault>,
    ) -> Result<(), BatchFault> {
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
                return Err(BatchFault::RefOutOfRange { sample });
            };
            if !at_once {
                let Some(delta) = timestamps.next() else { return Err(self.unequal()) };
                timestamp_ms = timestamp_ms.wrapping_add(unzigzag(delta));
            }
            each(checked, Sample::new(timestamp_ms, f64::from_bits(u64::from_le_bytes(*value))))?;
        }
        if refs.0.is_empty() && timestamps.0.is_empty() { Ok(()) } else { Err(self.unequal()) }
    }

    fn check(&self, samples_max: usize) -> Result<(), BatchFault> {
        let samples = self.samples();
        if !self.values.len().is_multiple_of(8) {
            return Err(BatchFault::Malformed(MalformedBody { offset: 0, cause: MalformedCause::Truncated }));
        }
        if samples > samples_max {
            return Err(BatchFault::TooManySamples { samples, samples_max });
        }
        if samples == 0 && self.ref_deltas.is_empty() {
            return Err(BatchFault::Empty);
        }
        Ok(())
    }

    #[cold]
    fn unequal(&self) -> BatchFault {
        BatchFault::UnequalColumns {
            refs: count(&self.ref_deltas),
            timestamps: count(&self.timestamp_deltas),
            values: self.samples(),
        }
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
        let mut reader = Reader::new(self.0, 0);
        let value = reader.varint().ok()?;
        self.0 = &self.0[reader.at()..];
        Some(value)
    }
}

#[inline(always)]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A longer varint is cut to 32 bits before it gets its sign, as protobuf's `sint32` is.
#[inline(always)]
fn unzigzag_32(value: u64) -> i32 {
    let value = value as u32;
    (value >> 1) as i32 ^ -((value & 1) as i32)
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
        }
    }

    /// A ref, a time, a value's bits.
    type Bits = (u32, i64, u64);

    fn read(bytes: &[u8]) -> Result<(u64, Vec<Bits>), BatchFault> {
        let columns = Columns::read(Reader::new(bytes, 0))?;
        let mut samples = Vec::new();
        columns.for_each(100, |stream_ref, sample| {
            samples.push((stream_ref, sample.timestamp_ms, sample.value.to_bits()));
            Ok(())
        })?;
        Ok((columns.number, samples))
    }

    fn check(batch: &v1::Batch, expect: Result<&[Bits], BatchFault>) {
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
            check(&batch, Err(BatchFault::UnequalColumns { refs, timestamps, values }));
        }
    }

    #[test]
    fn what_is_no_batch_is_told() {
        check(&batch(&[], &[], &[]), Err(BatchFault::Empty));
        check(
            &batch(&[0], &[], &[0.5; 101]),
            Err(BatchFault::TooManySamples { samples: 101, samples_max: 100 }),
        );
        check(&batch(&[1, -2], &[], &[0.5; 2]), Err(BatchFault::RefOutOfRange { sample: 1 }));
        let half_a_value = [0x12, 1, 0, 0x2a, 3, 1, 2, 3];
        assert!(matches!(read(&half_a_value), Err(BatchFault::Malformed(_))));
        for bytes in [&[0x12][..], &[0x12, 9, 1], &[0x10], &[0x0b], &[0x2a, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(matches!(read(bytes), Err(BatchFault::Malformed(_))), "{bytes:x?}");
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
}
