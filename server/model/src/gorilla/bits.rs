//! The bit stream below a chunk: most significant bit first, written in 64-bit words, read from bytes.
//!
//! Knows widths and ends, not what the bits mean.
use super::iterate::ChunkError;

/// Where the full words of an open chunk go. A word's most significant bit is the stream's first.
pub trait WordSink {
    /// Takes the chunk's next 64 bits.
    fn push_word(&mut self, word: u64);
}

impl WordSink for Vec<u64> {
    #[inline]
    fn push_word(&mut self, word: u64) {
        self.push(word);
    }
}

/// Bits that are written together: the low `width` ones of `bits`, whose others are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitRun {
    pub bits: u64,
    /// 1 to 64.
    pub width: u32,
}

impl BitRun {
    #[inline(always)]
    pub(crate) const fn new(bits: u64, width: u32) -> Self {
        debug_assert!(1 <= width && width <= 64 && (width == 64 || bits >> width == 0));
        Self { bits, width }
    }

    /// This run and after it the low `width` bits of `bits`; both fit into 64.
    #[inline(always)]
    pub(crate) const fn then(self, bits: u64, width: u32) -> Self {
        debug_assert!(1 <= width && self.width + width <= 64);
        let low_bits = bits & (u64::MAX >> (64 - width));
        Self { bits: self.bits << width | low_bits, width: self.width + width }
    }

    /// A varint: seven bits a byte, the lowest first.
    pub(crate) const fn uvarint(value: u32) -> Self {
        let mut run = Self::new(Self::varint_byte(value), 8);
        let mut rest = value >> 7;
        while rest > 0 {
            run = run.then(Self::varint_byte(rest), 8);
            rest >>= 7;
        }
        run
    }

    /// The next byte of a varint of which `rest` is unwritten.
    const fn varint_byte(rest: u32) -> u64 {
        let more = if rest < 0x80 { 0 } else { 0x80 };
        (rest & 0x7f | more) as u64
    }
}

/// The bits of a word that isn't full yet, from the top; below them all is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PendingWord {
    pub bits: u64,
    /// Of `bits`: 0 to 63.
    pub len: u8,
}

impl PendingWord {
    /// Adds a run; `Some` is a full word.
    #[inline(always)]
    pub(crate) fn push(&mut self, BitRun { bits, width }: BitRun) -> Option<u64> {
        let room = 64 - u32::from(self.len);
        if width < room {
            self.bits |= bits << (room - width);
            self.len += width as u8;
            return None;
        }
        let left_over = width - room;
        let word = self.bits | bits >> left_over;
        // In two steps: with nothing left over it is a shift by 64.
        self.bits = (bits << 1) << (63 - left_over);
        self.len = left_over as u8;
        Some(word)
    }
}

/// Reads a bit stream from bytes, 64 bits at a load.
#[derive(Debug, Clone)]
pub(crate) struct BitReader<'a> {
    /// The next bits from the top; below `len` of them all is zero.
    window: u64,
    len: u32,
    rest: &'a [u8],
}

impl<'a> BitReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { window: 0, len: 0, rest: bytes }
    }

    /// Of a stream of which so many bits were read before. Of one that has fewer it reads none.
    pub(crate) fn resumed(bytes: &'a [u8], bits_read: usize) -> Self {
        let mut reader = Self::new(bytes.get(bits_read / 8..).unwrap_or_default());
        let of_a_byte = (bits_read % 8) as u32;
        if of_a_byte > 0 && reader.bits(of_a_byte).is_err() {
            return Self::new(&[]);
        }
        reader
    }

    /// How many bits are left to read.
    pub(crate) const fn bits_left(&self) -> usize {
        8 * self.rest.len() + self.len as usize
    }

    /// The next bit.
    #[inline(always)]
    pub(crate) fn bit(&mut self) -> Result<bool, ChunkError> {
        Ok(self.bits(1)? == 1)
    }

    /// The next `width` (1 to 64) bits, as the low ones of a word.
    #[inline(always)]
    pub(crate) fn bits(&mut self, width: u32) -> Result<u64, ChunkError> {
        debug_assert!((1..=64).contains(&width));
        if width <= self.len { Ok(self.take(width)) } else { self.bits_over_two_loads(width) }
    }

    /// How many ones come before the next zero, and the zero too; after `ones_max` no zero is read.
    #[inline(always)]
    pub(crate) fn ones(&mut self, ones_max: u32) -> Result<u32, ChunkError> {
        let ones = self.window.leading_ones().min(ones_max);
        let width = ones + u32::from(ones < ones_max);
        if width <= self.len {
            self.take(width);
            return Ok(ones);
        }
        self.ones_one_by_one(ones_max)
    }

    /// A varint of up to 64 bits: seven bits a byte, the lowest first.
    pub(crate) fn uvarint(&mut self) -> Result<u64, ChunkError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bits(8)?;
            let low_bits = byte & 0x7f;
            if shift == 63 && byte > 1 {
                return Err(ChunkError::VarintTooLong);
            }
            value |= low_bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ChunkError::VarintTooLong)
    }

    /// A varint whose lowest bit is the sign.
    pub(crate) fn varint(&mut self) -> Result<i64, ChunkError> {
        let zigzag = self.uvarint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// `width` bits that the window has.
    #[inline(always)]
    fn take(&mut self, width: u32) -> u64 {
        let value = self.window >> (64 - width);
        // In two steps: `width` may be 64.
        self.window = (self.window << (width - 1)) << 1;
        self.len -= width;
        value
    }

    fn bits_over_two_loads(&mut self, width: u32) -> Result<u64, ChunkError> {
        let (had, missing) = (self.len, width - self.len);
        let high = if had == 0 { 0 } else { self.take(had) };
        self.load();
        if missing > self.len {
            return Err(ChunkError::Truncated);
        }
        // `missing` is 64 only where `high` is zero.
        Ok(high.checked_shl(missing).unwrap_or(0) | self.take(missing))
    }

    fn ones_one_by_one(&mut self, ones_max: u32) -> Result<u32, ChunkError> {
        for ones in 0..ones_max {
            if !self.bit()? {
                return Ok(ones);
            }
        }
        Ok(ones_max)
    }

    /// Fills the empty window with the next eight bytes, or with what is left.
    #[inline]
    fn load(&mut self) {
        if let Some((eight, rest)) = self.rest.split_first_chunk::<8>() {
            self.window = u64::from_be_bytes(*eight);
            self.len = 64;
            self.rest = rest;
        } else {
            let mut padded = [0; 8];
            padded[..self.rest.len()].copy_from_slice(self.rest);
            self.window = u64::from_be_bytes(padded);
            self.len = 8 * self.rest.len() as u32;
            self.rest = &[];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[(u64, u32)]) -> Vec<u8> {
        let (mut words, mut pending) = (Vec::new(), PendingWord::default());
        for &(value, width) in parts {
            words.extend(pending.push(BitRun::new(value, width)));
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(&pending.bits.to_be_bytes()[..usize::from(pending.len).div_ceil(8)]);
        bytes
    }

    fn check_round_trip(parts: &[(u64, u32)]) {
        let bytes = written(parts);
        let mut reader = BitReader::new(&bytes);
        for &(value, width) in parts {
            assert_eq!(reader.bits(width), Ok(value), "{width} bits of {parts:?}");
        }
    }

    #[test]
    fn bits_are_written_most_significant_first() {
        // 1 | 0000010 | 11111111 | 01......
        assert_eq!(written(&[(1, 1), (2, 7), (0xff, 8), (1, 2)]), [0b1000_0010, 0xff, 0b0100_0000]);
    }

    /// Miri takes a thousand times as long: every so many of what is tried are enough for it.
    const STEP: usize = if cfg!(miri) { 21 } else { 1 };

    #[test]
    fn every_width_is_read_back_from_every_place_in_a_word() {
        for before in (1..=64).step_by(STEP) {
            for width in (1..=64).step_by(STEP) {
                let ones = u64::MAX >> (64 - width);
                check_round_trip(&[(1, before), (ones, width), (0, 3), (ones - 1, width), (1, 1)]);
            }
        }
    }

    #[test]
    fn ones_are_counted_across_a_load() {
        for before in (1..=70).step_by(STEP) {
            let mut parts = vec![(0, 1); before];
            parts.extend([(0b10, 2), (0b1111, 4), (0b1110, 4), (0, 1), (1, 1)]);
            let bytes = written(&parts);
            let mut reader = BitReader::new(&bytes);
            for _ in 0..before {
                assert_eq!(reader.ones(4), Ok(0));
            }
            let counts: Vec<_> = (0..4).map(|_| reader.ones(4).unwrap()).collect();
            assert_eq!(counts, [1, 4, 3, 0], "after {before} bits");
            assert_eq!(reader.bit(), Ok(true));
        }
    }

    #[test]
    fn reading_past_the_end_is_an_error_and_stays_one() {
        let mut reader = BitReader::new(&[0xff; 9]);
        assert_eq!(reader.bits(64), Ok(u64::MAX));
        assert_eq!(reader.bits(9), Err(ChunkError::Truncated));
        assert_eq!(BitReader::new(&[]).bit(), Err(ChunkError::Truncated));
        assert_eq!(BitReader::new(&[]).ones(4), Err(ChunkError::Truncated));
        assert_eq!(BitReader::new(&[0xff]).ones(9), Err(ChunkError::Truncated));
    }

    #[test]
    fn varints_are_those_of_protocol_buffers_and_go() {
        assert_eq!(BitRun::uvarint(0), BitRun::new(0, 8));
        assert_eq!(BitRun::uvarint(127), BitRun::new(0x7f, 8));
        assert_eq!(BitRun::uvarint(300), BitRun::new(0xac02, 16));
        assert_eq!(BitRun::uvarint(u32::MAX), BitRun::new(0xff_ffff_ff0f, 40));
        assert_eq!(BitReader::new(&[0xac, 0x02]).uvarint(), Ok(300));
        assert_eq!(BitReader::new(&[0x03]).varint(), Ok(-2));
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(BitReader::new(&longest).uvarint(), Ok(u64::MAX));
        assert_eq!(BitReader::new(&longest).varint(), Ok(i64::MIN));
        assert_eq!(BitReader::new(&[0xff; 11]).uvarint(), Err(ChunkError::VarintTooLong));
    }
}
