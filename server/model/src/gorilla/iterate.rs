//! Reading an XOR chunk: samples out of bytes, whoever wrote them. Trusts no byte and never panics.
use super::bits::BitReader;
use super::window::Window;
use crate::Sample;

/// Why bytes are no chunk of floats.
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
    /// Samples that no open chunk of this node would hold: out of order, or too many.
    #[error("samples that no open chunk holds together")]
    NotOfAnOpenChunk,
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
    window: Window,
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
            window: Window::ALL,
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
            _two => self.window = Window::read(&mut self.reader)?,
        }
        self.value_bits ^= self.window.read_changed(&mut self.reader)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A chunk of `count` samples whose stream is written as zeros and ones; spaces are for the eye.
    fn chunk(count: u16, stream: &str) -> Vec<u8> {
        let digits: Vec<u8> = stream.bytes().filter(|digit| *digit != b' ').collect();
        let byte = |bits: &[u8]| {
            bits.iter().enumerate().fold(0, |byte, (i, digit)| byte | (digit - b'0') << (7 - i))
        };
        count.to_be_bytes().into_iter().chain(digits.chunks(8).map(byte)).collect()
    }

    fn check(count: u16, stream: &str, expect: &[Result<Sample, ChunkError>]) {
        assert_eq!(XorIter::new(&chunk(count, stream)).collect::<Vec<_>>(), expect);
    }

    /// The first sample: at 0, of value 0.
    fn first() -> String {
        "0".repeat(8 + 64)
    }

    #[test]
    fn bytes_too_short_for_what_they_count_are_an_error_after_the_whole_samples() {
        let truncated = Err(ChunkError::Truncated);
        assert_eq!(XorIter::new(&[]).collect::<Vec<_>>(), [truncated]);
        assert_eq!(XorIter::new(&[0]).collect::<Vec<_>>(), [truncated]);
        check(0, "", &[]);
        check(1, "", &[truncated]);
        check(9, &first(), &[Ok(Sample::new(0, 0.0)), truncated]);
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_an_error() {
        check(1, &"1".repeat(8 * 20), &[Err(ChunkError::VarintTooLong)]);
    }

    #[test]
    fn a_window_of_more_than_64_bits_is_an_error() {
        // A delta of 1, a new window, 31 leading zeros, 34 significant bits: one too many.
        let stream = first() + "00000001 1 1 11111 100010" + &"1".repeat(100);
        check(2, &stream, &[Ok(Sample::new(0, 0.0)), Err(ChunkError::BadWindow)]);
    }

    #[test]
    fn a_value_before_any_window_has_all_of_its_bits() {
        // Prometheus writes this when it takes up a chunk of equal values after a restart.
        let stream = first() + "00000001 1 0" + &format!("{:064b}", 1.5_f64.to_bits());
        check(2, &stream, &[Ok(Sample::new(0, 0.0)), Ok(Sample::new(1, 1.5))]);
    }

    #[test]
    fn a_zero_byte_behind_the_last_sample_is_no_error() {
        // Prometheus before 3.0 ends some chunks with one.
        check(1, &(first() + "00000000"), &[Ok(Sample::new(0, 0.0))]);
    }

    #[test]
    fn timestamps_wrap_around_as_prometheus_lets_them() {
        let wide_delta = format!("{}00000001", "11111111".repeat(9));
        let wide_dod = "0 1111".to_owned() + &"1".repeat(64) + "0";
        let expect = [(0, 0.0), (-1, 0.0), (-3, 0.0)].map(|(t, v)| Ok(Sample::new(t, v)));
        check(3, &(first() + &wide_delta + &wide_dod), &expect);
    }

    proptest! {
        #[test]
        fn hostile_bytes_end_within_the_samples_they_count(
            count in any::<u16>(),
            stream in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let bytes = [count.to_be_bytes().as_slice(), &stream].concat();
            let samples: Vec<_> = XorIter::new(&bytes).collect();
            prop_assert!(samples.len() <= usize::from(count));
            prop_assert!(samples.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
