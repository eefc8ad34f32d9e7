//! Reading an XOR2 chunk: samples out of bytes, whoever wrote them. Trusts no byte and never panics.
use super::{FIRST_HAS_START, STARTS_FROM};
use crate::gorilla::bits::BitReader;
use crate::gorilla::iterate::{ChunkError, counted_samples};
use crate::gorilla::varbit;
use crate::gorilla::window::BitWindow;
use crate::{STALE_NAN_BITS, Sample};

/// The samples of an XOR2 chunk's bytes, in the order written. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Xor2Iter<'a> {
    reader: BitReader<'a>,
    samples_left: u16,
    samples_read: u16,
    start_byte: u8,
    timestamp_ms: i64,
    delta_ms: u64,
    /// Of the last value that was no staleness marker.
    value_bits: u64,
    window: BitWindow,
    start_timestamp_ms: i64,
    /// From the start timestamp to the time of the sample before.
    start_distance_ms: i64,
}

impl<'a> Xor2Iter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(chunk: &'a [u8]) -> Self {
        let (samples_left, start_byte, stream) = match chunk {
            [high, low, start_byte, stream @ ..] => (u16::from_be_bytes([*high, *low]), *start_byte, stream),
            // One sample that isn't there: the first `next` reports the truncation.
            [] | [_] | [_, _] => (1, 0, [].as_slice()),
        };
        Self {
            reader: BitReader::new(stream),
            samples_left,
            samples_read: 0,
            start_byte,
            timestamp_ms: 0,
            delta_ms: 0,
            value_bits: 0,
            window: BitWindow::ALL,
            start_timestamp_ms: 0,
            start_distance_ms: 0,
        }
    }

    /// Samples not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        self.samples_left as usize
    }

    /// Since when the sample that was read last counts, in ms since the Unix epoch; `None`: that isn't known.
    pub const fn start_timestamp_ms(&self) -> Option<i64> {
        if self.start_timestamp_ms == 0 { None } else { Some(self.start_timestamp_ms) }
    }

    #[inline]
    fn read_sample(&mut self) -> Result<Sample, ChunkError> {
        let value_bits = if self.samples_read == 0 {
            self.read_first()?
        } else {
            let value_bits = if self.samples_read == 1 { self.read_second()? } else { self.read_later()? };
            let former_ms = self.timestamp_ms;
            self.timestamp_ms = former_ms.wrapping_add_unsigned(self.delta_ms);
            self.read_start(former_ms)?;
            value_bits
        };
        self.samples_read += 1;
        Ok(Sample::new(self.timestamp_ms, f64::from_bits(value_bits)))
    }

    fn read_first(&mut self) -> Result<u64, ChunkError> {
        self.timestamp_ms = self.reader.varint()?;
        let value_bits = self.reader.bits(64)?;
        if value_bits != STALE_NAN_BITS {
            self.value_bits = value_bits;
        }
        if self.start_byte & FIRST_HAS_START != 0 {
            self.start_timestamp_ms = self.timestamp_ms.wrapping_sub(self.reader.varint()?);
        }
        Ok(value_bits)
    }

    fn read_second(&mut self) -> Result<u64, ChunkError> {
        self.delta_ms = self.reader.uvarint()?;
        self.read_value()
    }

    #[inline]
    fn read_later(&mut self) -> Result<u64, ChunkError> {
        let dod_width = match self.reader.ones(5)? {
            0 => return Ok(self.value_bits),
            1 if self.reader.bit()? => return self.read_in_new_window(),
            1 => return self.read_in_window(),
            2 => 13,
            3 => 20,
            4 => 64,
            _five => return Ok(STALE_NAN_BITS),
        };
        let unused = 64 - dod_width;
        // Two's complement, unlike those of an XOR chunk.
        let dod_ms = (self.reader.bits(dod_width)? << unused) as i64 >> unused;
        self.delta_ms = self.delta_ms.wrapping_add_signed(dod_ms);
        self.read_value()
    }

    #[inline]
    fn read_value(&mut self) -> Result<u64, ChunkError> {
        match self.reader.ones(3)? {
            0 => Ok(self.value_bits),
            1 => self.read_in_window(),
            2 => self.read_in_new_window(),
            _three => Ok(STALE_NAN_BITS),
        }
    }

    #[inline]
    fn read_in_new_window(&mut self) -> Result<u64, ChunkError> {
        self.window = BitWindow::read(&mut self.reader)?;
        self.read_in_window()
    }

    #[inline]
    fn read_in_window(&mut self) -> Result<u64, ChunkError> {
        self.value_bits ^= self.window.read_changed(&mut self.reader)?;
        Ok(self.value_bits)
    }

    #[inline]
    fn read_start(&mut self, former_ms: i64) -> Result<(), ChunkError> {
        let starts_from = u16::from(self.start_byte & STARTS_FROM);
        if starts_from == 0 || self.samples_read < starts_from {
            return Ok(());
        }
        let change_ms = varbit::read_int(&mut self.reader)?;
        self.start_distance_ms = self.start_distance_ms.wrapping_add(change_ms);
        self.start_timestamp_ms = former_ms.wrapping_sub(self.start_distance_ms);
        Ok(())
    }
}

counted_samples!(Xor2Iter);
