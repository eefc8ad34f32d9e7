//! Reading an XOR chunk: samples out of bytes, whoever wrote them. Trusts no byte and never panics.
use super::bits::BitReader;
use crate::model::Sample;

/// Why bytes are no XOR chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The bytes end before the samples that the header counts.
    #[error("chunk ends before its last sample")]
    Truncated,
    /// A timestamp's varint is longer than 64 bits.
    #[error("varint in a chunk is longer than 64 bits")]
    VarintTooLong,
    /// A value's leading zeros and significant bits are more than 64.
    #[error("value window in a chunk is wider than 64 bits")]
    BadWindow,
    /// A chunk must have a sample.
    #[error("chunk without samples")]
    Empty,
}

/// The samples of an XOR chunk's bytes, in the order written. Ends after the first error.
#[derive(Debug, Clone)]
pub struct XorIter<'a> {
    reader: BitReader<'a>,
    place: Place,
    samples_left: u16,
    timestamp_ms: i64,
    delta_ms: u64,
    value_bits: u64,
    leading: u32,
    trailing: u32,
}

/// The first two samples are written otherwise than those after them.
#[derive(Debug, Clone, Copy)]
enum Place {
    First,
    Second,
    Later,
}

impl<'a> XorIter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(chunk: &'a [u8]) -> Self {
        let (samples_left, stream) = match chunk {
            [high, low, stream @ ..] => (u16::from_be_bytes([*high, *low]), stream),
            // One sample that isn't there: the first `next` tells of the truncation.
            [] | [_] => (1, [].as_slice()),
        };
        Self {
            reader: BitReader::new(stream),
            place: Place::First,
            samples_left,
            timestamp_ms: 0,
            delta_ms: 0,
            value_bits: 0,
            // Prometheus, taking up a chunk of equal values after a restart, writes into this
            // window before it has opened any.
            leading: 0,
            trailing: 0,
        }
    }

    /// Samples not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        self.samples_left as usize
    }

    #[inline]
    fn read_sample(&mut self) -> Result<Sample, ChunkError> {
        match self.place {
            Place::Later => {
                self.delta_ms = self.delta_ms.wrapping_add_signed(self.read_delta_of_delta()?);
                self.step_timestamp();
                self.read_value()?;
            }
            Place::Second => {
                self.delta_ms = self.reader.uvarint()?;
                self.step_timestamp();
                self.read_value()?;
                self.place = Place::Later;
            }
            Place::First => {
                self.timestamp_ms = self.reader.varint()?;
                self.value_bits = self.reader.bits(64)?;
                self.place = Place::Second;
            }
        }
        Ok(Sample::new(self.timestamp_ms, f64::from_bits(self.value_bits)))
    }

    #[inline]
    fn step_timestamp(&mut self) {
        self.timestamp_ms = self.timestamp_ms.wrapping_add_unsigned(self.delta_ms);
    }

    #[inline]
    fn read_delta_of_delta(&mut self) -> Result<i64, ChunkError> {
        let width = match self.reader.ones(4)? {
            0 => return Ok(0),
            1 => 14,
            2 => 17,
            3 => 20,
            _four => return Ok(self.reader.bits(64)? as i64),
        };
        let bits = self.reader.bits(width)? as i64;
        // The pattern of the middle alone is the positive 2^(width-1).
        Ok(if bits > 1 << (width - 1) { bits - (1 << width) } else { bits })
    }

    #[inline]
    fn read_value(&mut self) -> Result<(), ChunkError> {
        match self.reader.ones(2)? {
            0 => return Ok(()),
            1 => {}
            _two => self.read_window()?,
        }
        let significant = self.reader.bits(64 - self.leading - self.trailing)?;
        self.value_bits ^= significant << self.trailing;
        Ok(())
    }

    #[inline]
    fn read_window(&mut self) -> Result<(), ChunkError> {
        let window = self.reader.bits(5 + 6)? as u32;
        let (leading, significant) = (window >> 6, window & 63);
        // None significant would have been "the same value": zero stands for 64.
        let significant = if significant == 0 { 64 } else { significant };
        self.trailing = 64_u32.checked_sub(leading + significant).ok_or(ChunkError::BadWindow)?;
        self.leading = leading;
        Ok(())
    }
}

impl Iterator for XorIter<'_> {
    type Item = Result<Sample, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.samples_left = self.samples_left.checked_sub(1)?;
        let sample = self.read_sample();
        if sample.is_err() {
            self.samples_left = 0;
        }
        Some(sample)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error is an item too, and the last.
        (usize::from(self.samples_left > 0), Some(self.samples_left()))
    }
}

impl std::iter::FusedIterator for XorIter<'_> {}
