//! Reading an XOR chunk: samples out of bytes, whoever wrote them. Trusts no byte and never panics.
mod columns;

pub use columns::read_columns;

use super::bits::BitReader;
use super::window::BitWindow;
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
    place: SamplePosition,
    samples_left: u16,
    timestamp_ms: i64,
    delta_ms: u64,
    value_bits: u64,
    window: BitWindow,
}

/// What a reader of a chunk has come to: another one goes on from there, over the same bytes or over those that the
/// chunk has grown to since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XorCursor {
    bits_read: u32,
    samples_read: u16,
    leading: u8,
    trailing: u8,
    timestamp_ms: i64,
    delta_ms: u64,
    value_bits: u64,
}

/// A piece of a chunk's stream.
#[derive(Debug, Clone, Copy)]
pub struct XorPiece<'a> {
    /// Samples of the whole chunk.
    pub samples: u16,
    /// Where the piece begins in the chunk's stream, in bits.
    pub first_bit: u32,
    /// Its bytes.
    pub stream: &'a [u8],
}

impl<'a> XorPiece<'a> {
    /// All of a chunk's bytes, its count of samples in front.
    pub const fn whole(chunk: &'a [u8]) -> Self {
        let (samples, stream) = match chunk {
            [high, low, stream @ ..] => (u16::from_be_bytes([*high, *low]), stream),
            // One sample that isn't there: the first `next` reports the truncation.
            [] | [_] => (1, [].as_slice()),
        };
        Self { samples, first_bit: 0, stream }
    }
}

impl XorCursor {
    /// How much of the chunk's stream was read, in bits.
    pub const fn bits_read(&self) -> usize {
        self.bits_read as usize
    }

    /// The sample that was read last.
    pub const fn last(&self) -> Sample {
        Sample { timestamp_ms: self.timestamp_ms, value: f64::from_bits(self.value_bits) }
    }
}

/// The first two samples are written otherwise than those after them.
#[derive(Debug, Clone, Copy)]
enum SamplePosition {
    First,
    Second,
    Later,
}

impl<'a> XorIter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(chunk: &'a [u8]) -> Self {
        let XorPiece { samples: samples_left, stream, .. } = XorPiece::whole(chunk);
        Self {
            reader: BitReader::new(stream),
            place: SamplePosition::First,
            samples_left,
            timestamp_ms: 0,
            delta_ms: 0,
            value_bits: 0,
            window: BitWindow::ALL,
        }
    }

    /// Goes on where another reader of the chunk was, in the piece that it was in or was about to enter. Over bytes that
    /// aren't the chunk's, or are fewer, it gives what they make, or an error, as any reader does.
    pub fn resumed(piece: XorPiece<'a>, cursor: &XorCursor) -> Self {
        let place = match cursor.samples_read {
            0 => SamplePosition::First,
            1 => SamplePosition::Second,
            _later => SamplePosition::Later,
        };
        let reader = match cursor.bits_read.checked_sub(piece.first_bit) {
            Some(bits_read) => BitReader::resumed(piece.stream, bits_read as usize),
            None => BitReader::new(&[]),
        };
        Self {
            reader,
            place,
            samples_left: piece.samples.saturating_sub(cursor.samples_read),
            timestamp_ms: cursor.timestamp_ms,
            delta_ms: cursor.delta_ms,
            value_bits: cursor.value_bits,
            window: BitWindow { leading: u32::from(cursor.leading), trailing: u32::from(cursor.trailing) },
        }
    }

    /// What this reader of a piece has come to. No error was met.
    pub const fn cursor(&self, piece: XorPiece<'_>) -> XorCursor {
        XorCursor {
            bits_read: piece.first_bit + (8 * piece.stream.len() - self.reader.bits_left()) as u32,
            samples_read: piece.samples - self.samples_left,
            leading: self.window.leading as u8,
            trailing: self.window.trailing as u8,
            timestamp_ms: self.timestamp_ms,
            delta_ms: self.delta_ms,
            value_bits: self.value_bits,
        }
    }

    /// Samples not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        self.samples_left as usize
    }

    #[inline]
    fn read_sample(&mut self) -> Result<Sample, ChunkError> {
        match self.place {
            SamplePosition::Later => {
                self.delta_ms = self.delta_ms.wrapping_add_signed(self.read_delta_of_delta()?);
                self.step_timestamp();
                self.read_value()?;
            }
            SamplePosition::Second => {
                self.delta_ms = self.reader.uvarint()?;
                self.step_timestamp();
                self.read_value()?;
                self.place = SamplePosition::Later;
            }
            SamplePosition::First => {
                self.timestamp_ms = self.reader.varint()?;
                self.value_bits = self.reader.bits(64)?;
                self.place = SamplePosition::Second;
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
            _two => self.window = BitWindow::read(&mut self.reader)?,
        }
        self.value_bits ^= self.window.read_changed(&mut self.reader)?;
        Ok(())
    }
}

/// Makes a reader with `samples_left` and `read_sample` an iterator over so many samples, which ends after the first
/// error.
macro_rules! counted_samples {
    ($reader:ident) => {
        impl Iterator for $reader<'_> {
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

        impl std::iter::FusedIterator for $reader<'_> {}
    };
}
pub(super) use counted_samples;

counted_samples!(XorIter);

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

        #[test]
        fn a_reader_that_goes_on_reads_what_one_that_never_stopped_reads(
            count in 0_u16..60,
            stream in prop::collection::vec(any::<u8>(), 0..400),
            grown in 0_u16..9,
            more in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let chunk = [count.to_be_bytes().as_slice(), &stream].concat();
            let longer = [(count + grown).to_be_bytes().as_slice(), &stream, &more].concat();
            let mut reader = XorIter::new(&chunk);
            let mut whole = XorIter::new(&longer);
            loop {
                let cursor = reader.cursor(XorPiece::whole(&chunk));
                prop_assert_eq!(XorIter::resumed(XorPiece::whole(&chunk), &cursor).next(), reader.clone().next());
                let rest: Vec<_> = XorIter::resumed(XorPiece::whole(&longer), &cursor).collect();
                prop_assert_eq!(rest, whole.clone().collect::<Vec<_>>());
                let Some(Ok(sample)) = reader.next() else { break };
                prop_assert_eq!(whole.next(), Some(Ok(sample)));
                let last = reader.cursor(XorPiece::whole(&chunk)).last();
                prop_assert_eq!(last, sample);
            }
        }

        #[test]
        fn a_cursor_of_another_chunk_harms_nothing(
            stream in prop::collection::vec(any::<u8>(), 20..400),
            other in prop::collection::vec(any::<u8>(), 0..400),
            at in 0_usize..60,
        ) {
            let mut reader = XorIter::new(&stream);
            for _ in 0..at {
                let before = reader.clone();
                if !matches!(reader.next(), Some(Ok(_))) {
                    reader = before;
                    break;
                }
            }
            let cursor = reader.cursor(XorPiece::whole(&stream));
            prop_assert!(XorIter::resumed(XorPiece::whole(&other), &cursor).count() <= usize::from(u16::MAX));
        }
    }
}
