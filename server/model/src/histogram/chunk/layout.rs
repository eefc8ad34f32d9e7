//! What all histograms of a chunk have in common, as it stands in front of them.
use super::error::HistogramChunkError;
use crate::gorilla::bit_writer::{BitSink, BitWriter};
use crate::gorilla::bits::BitReader;
use crate::gorilla::varbit;
use crate::histogram::spans::bucket_count;
use crate::histogram::value::{CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, SCHEMA_REDUCED_MAX, Span};
use crate::limits::{HISTOGRAM_BOUNDS_MAX, HISTOGRAM_BUCKETS_MAX, HISTOGRAM_SPANS_MAX};

/// The coarsest schema that a chunk may have; below [`super::super::SCHEMA_MIN`] none was ever written.
const SCHEMA_KNOWN_MIN: i64 = -9;

/// Powers of two as thresholds take one byte: 2^-243 is 1.
const THRESHOLD_EXPONENT_MIN: i32 = -243;
/// 2^10 is 254.
const THRESHOLD_EXPONENT_MAX: i32 = 10;
/// Any other threshold follows as a float.
const THRESHOLD_RAW: u64 = 255;

/// Bounds up to this many thousandths are written as integers of these.
const BOUND_THOUSANDTHS_MAX: f64 = 33_554_430.0;

/// A chunk's schema, threshold, buckets and bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChunkLayout {
    pub(super) kind: HistogramKind,
    pub(super) schema: i32,
    pub(super) zero_threshold: f64,
    pub(super) positive: Vec<Span>,
    pub(super) negative: Vec<Span>,
    pub(super) bounds: Vec<f64>,
}

impl ChunkLayout {
    pub(super) fn of(histogram: &Histogram) -> Self {
        Self {
            kind: histogram.kind,
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            positive: histogram.positive.spans.clone(),
            negative: histogram.negative.spans.clone(),
            bounds: histogram.bounds.clone(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.positive.capacity() + self.negative.capacity()) * size_of::<Span>()
            + self.bounds.capacity() * size_of::<f64>()
    }

    pub(super) fn put(&self, out: &mut BitWriter) {
        put_threshold(out, self.zero_threshold);
        varbit::put_int(out, i64::from(self.schema));
        put_spans(out, &self.positive);
        put_spans(out, &self.negative);
        if self.schema == CUSTOM_BUCKETS_SCHEMA {
            varbit::put_uint(out, self.bounds.len() as u64);
            self.bounds.iter().for_each(|bound| put_bound(out, *bound));
        }
    }

    pub(super) fn read(kind: HistogramKind, reader: &mut BitReader) -> Result<Self, HistogramChunkError> {
        let zero_threshold = read_threshold(reader)?;
        let schema = read_schema(reader)?;
        let (positive, negative) = (read_spans(reader)?, read_spans(reader)?);
        if bucket_count(&positive) + bucket_count(&negative) > HISTOGRAM_BUCKETS_MAX as u64 {
            return Err(HistogramChunkError::TooLarge);
        }
        let bounds = if schema == CUSTOM_BUCKETS_SCHEMA { read_bounds(reader)? } else { Vec::new() };
        Ok(Self { kind, schema, zero_threshold, positive, negative, bounds })
    }
}

fn read_schema(reader: &mut BitReader) -> Result<i32, HistogramChunkError> {
    match varbit::read_int(reader)? {
        schema if (SCHEMA_KNOWN_MIN..=i64::from(SCHEMA_REDUCED_MAX)).contains(&schema) => Ok(schema as i32),
        schema if schema == i64::from(CUSTOM_BUCKETS_SCHEMA) => Ok(CUSTOM_BUCKETS_SCHEMA),
        _unknown => Err(HistogramChunkError::UnknownSchema),
    }
}

fn put_threshold(out: &mut BitWriter, threshold: f64) {
    if threshold == 0.0 {
        return out.bits(0, 8);
    }
    match exponent_of(threshold) {
        Some(exponent @ THRESHOLD_EXPONENT_MIN..=THRESHOLD_EXPONENT_MAX) => {
            out.bits((exponent - THRESHOLD_EXPONENT_MIN + 1) as u64, 8);
        }
        Some(_) | None => {
            out.bits(THRESHOLD_RAW, 8);
            out.bits(threshold.to_bits(), 64);
        }
    }
}

/// Of a power of two that isn't a subnormal number, which power.
const fn exponent_of(value: f64) -> Option<i32> {
    /// The bits of the fraction, which is 1 in a power of two, that being left out.
    const FRACTION_BITS: u32 = 52;
    const BIAS: i32 = 1023;

    let bits = value.to_bits();
    let biased = (bits >> FRACTION_BITS) as i32;
    // With the sign 2,048 is added: a negative number isn't one of these.
    let is_power = bits & ((1 << FRACTION_BITS) - 1) == 0 && 0 < biased && biased < 2047;
    if is_power { Some(biased - BIAS) } else { None }
}

fn read_threshold(reader: &mut BitReader) -> Result<f64, HistogramChunkError> {
    Ok(match reader.bits(8)? {
        0 => 0.0,
        THRESHOLD_RAW => f64::from_bits(reader.bits(64)?),
        power => 2_f64.powi(power as i32 + THRESHOLD_EXPONENT_MIN - 1),
    })
}

fn put_spans(out: &mut BitWriter, spans: &[Span]) {
    varbit::put_uint(out, spans.len() as u64);
    for span in spans {
        varbit::put_uint(out, u64::from(span.length));
        varbit::put_int(out, i64::from(span.offset));
    }
}

fn read_spans(reader: &mut BitReader) -> Result<Vec<Span>, HistogramChunkError> {
    let count = varbit::read_uint(reader)?;
    if count > HISTOGRAM_SPANS_MAX as u64 {
        return Err(HistogramChunkError::TooLarge);
    }
    (0..count).map(|nth| read_span(reader, nth == 0)).collect()
}

fn read_span(reader: &mut BitReader, is_first: bool) -> Result<Span, HistogramChunkError> {
    let length = varbit::read_uint(reader)?;
    let offset = varbit::read_int(reader)?;
    match (u32::try_from(length), i32::try_from(offset)) {
        (Ok(length), Ok(offset)) if is_first || offset >= 0 => Ok(Span { offset, length }),
        _ => Err(HistogramChunkError::BadSpans),
    }
}

/// A bound of whole thousandths takes few bits; of any other a 0 is written, and the float.
fn put_bound(out: &mut BitWriter, bound: f64) {
    let thousandths = bound * 1000.0;
    let rounded = thousandths.round();
    if (0.0..=BOUND_THOUSANDTHS_MAX).contains(&thousandths) && rounded / 1000.0 == bound {
        varbit::put_uint(out, rounded as u64 + 1);
    } else {
        out.bits(0, 1);
        out.bits(bound.to_bits(), 64);
    }
}

fn read_bound(reader: &mut BitReader) -> Result<f64, HistogramChunkError> {
    Ok(match varbit::read_uint(reader)? {
        0 => f64::from_bits(reader.bits(64)?),
        above => (above - 1) as f64 / 1000.0,
    })
}

fn read_bounds(reader: &mut BitReader) -> Result<Vec<f64>, HistogramChunkError> {
    let count = varbit::read_uint(reader)?;
    if count > HISTOGRAM_BOUNDS_MAX as u64 {
        return Err(HistogramChunkError::TooLarge);
    }
    (0..count).map(|_| read_bound(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(write: impl FnOnce(&mut BitWriter)) -> Vec<u8> {
        let (mut writer, mut bytes) = (BitWriter::default(), Vec::new());
        write(&mut writer);
        writer.put_to(&mut bytes);
        bytes
    }

    #[test]
    fn usual_thresholds_take_a_byte_and_others_nine() {
        let cases = [(0.0, 0), (2_f64.powi(-243), 1), (2_f64.powi(-128), 116), (1.0, 244), (1024.0, 254)];
        for (threshold, byte) in cases {
            let bytes = bits(|out| put_threshold(out, threshold));
            assert_eq!(bytes, [byte]);
            assert_eq!(read_threshold(&mut BitReader::new(&bytes)), Ok(threshold));
        }
        for threshold in [2_f64.powi(-244), 2048.0, 0.001, -1.0, f64::INFINITY, f64::from_bits(1)] {
            let bytes = bits(|out| put_threshold(out, threshold));
            assert_eq!((bytes.len(), bytes[0]), (9, 255), "{threshold}");
            assert_eq!(read_threshold(&mut BitReader::new(&bytes)), Ok(threshold));
        }
    }

    #[test]
    fn bounds_of_whole_thousandths_take_few_bits() {
        let lens =
            [(0.0, 1), (0.005, 1), (0.25, 2), (33_554.43, 4), (33_554.431, 9), (-1.0, 9), (1.0 / 3.0, 9)];
        for (bound, len) in lens {
            let bytes = bits(|out| put_bound(out, bound));
            assert_eq!(bytes.len(), len, "{bound}");
            assert_eq!(read_bound(&mut BitReader::new(&bytes)), Ok(bound));
        }
    }

    #[track_caller]
    fn check_refused(write: impl FnOnce(&mut BitWriter), expect: HistogramChunkError) {
        let bytes = bits(|out| {
            out.bits(0, 8);
            write(out);
            out.bits(0, 64);
        });
        let read = ChunkLayout::read(HistogramKind::Integer, &mut BitReader::new(&bytes));
        assert_eq!(read, Err(expect));
    }

    #[test]
    fn a_layout_that_no_histogram_has_is_refused_before_it_takes_memory() {
        for schema in [-10, 53, -54, i64::MAX, 1 << 32] {
            check_refused(|out| varbit::put_int(out, schema), HistogramChunkError::UnknownSchema);
        }
        let spans = |spans: &'static [(u64, i64)]| {
            move |out: &mut BitWriter| {
                varbit::put_int(out, 0);
                varbit::put_uint(out, spans.len() as u64);
                for (length, offset) in spans {
                    varbit::put_uint(out, *length);
                    varbit::put_int(out, *offset);
                }
            }
        };
        check_refused(spans(&[(1, 0), (1, -1)]), HistogramChunkError::BadSpans);
        check_refused(spans(&[(1 << 32, 0)]), HistogramChunkError::BadSpans);
        check_refused(spans(&[(1, 1 << 31)]), HistogramChunkError::BadSpans);
        check_refused(spans(&[(4000, 0), (97, 0)]), HistogramChunkError::TooLarge);
        check_refused(
            |out| {
                varbit::put_int(out, 0);
                varbit::put_uint(out, u64::MAX);
            },
            HistogramChunkError::TooLarge,
        );
        check_refused(
            |out| {
                varbit::put_int(out, -53);
                out.bits(0, 2);
                varbit::put_uint(out, 1 << 40);
            },
            HistogramChunkError::TooLarge,
        );
    }
}
