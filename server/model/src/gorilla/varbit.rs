//! Integers in as many bits as they need: a prefix of ones says how many.
use super::bit_writer::BitSink;
use super::bits::{BitReader, BitRun};
use super::iterate::ChunkError;

/// The bits after a prefix of so many ones.
const WIDTHS: [u32; 9] = [0, 3, 6, 9, 12, 18, 25, 56, 64];

/// The longest prefix; no zero ends it.
const PREFIX_MAX: u32 = 8;

/// How wide a signed number is: `width` bits hold -(2^(width-1) - 1) to 2^(width-1).
#[inline(always)]
const fn signed_width(value: i64) -> u32 {
    // The range isn't that of two's complement: its upper end is the one pattern that would be negative. So of positive
    // numbers this is one less than they are, of negative ones their size; of the least, which wraps, one less.
    let below = value.wrapping_sub(1);
    let size = (below ^ below >> 63) as u64;
    // A bit lower for a number that is never zero, of which to count zeros is one instruction.
    let width = 64 - (size << 1 | 1).leading_zeros();
    if value == 0 { 0 } else { width }
}

/// The place in [`WIDTHS`] of the first class of at least `width` bits.
const fn class(width: u32) -> usize {
    match width {
        0 => 0,
        1..=3 => 1,
        4..=6 => 2,
        7..=9 => 3,
        10..=12 => 4,
        13..=18 => 5,
        19..=25 => 6,
        26..=56 => 7,
        _ => 8,
    }
}

/// How a number is written.
#[derive(Clone, Copy)]
struct Form {
    /// The prefix, with room for the number after it.
    prefix: u64,
    /// The number's bits.
    mask: u64,
    /// Both together.
    width: u32,
}

impl Form {
    /// Of a number of so many bits; of one of the longest prefix, which doesn't go with it into 64 bits, that alone.
    const fn of(width: u32) -> Self {
        let ones = class(width) as u32;
        let bits = WIDTHS[ones as usize];
        if ones == PREFIX_MAX {
            return Self { prefix: (1 << PREFIX_MAX) - 1, mask: 0, width: PREFIX_MAX };
        }
        Self { prefix: ((1 << (ones + 1)) - 2) << bits, mask: (1 << bits) - 1, width: ones + 1 + bits }
    }
}

/// By the width of a number: as [`signed_width`] gives it, or that of an unsigned one.
const FORMS: [Form; 65] = {
    let mut forms = [Form::of(0); 65];
    let mut width = 0;
    while width < forms.len() {
        forms[width] = Form::of(width as u32);
        width += 1;
    }
    forms
};

#[inline(always)]
fn put(out: &mut impl BitSink, width: u32, bits: u64) {
    let form = FORMS[width as usize];
    out.push(BitRun::new(form.prefix | bits & form.mask, form.width));
    if width > WIDTHS[PREFIX_MAX as usize - 1] {
        out.push(BitRun::new(bits, 64));
    }
}

/// Writes a signed number.
#[inline(always)]
pub(crate) fn put_int(out: &mut impl BitSink, value: i64) {
    put(out, signed_width(value), value as u64);
}

/// Writes an unsigned number.
#[inline]
pub(crate) fn put_uint(out: &mut impl BitSink, value: u64) {
    put(out, 64 - value.leading_zeros(), value);
}

/// Reads a signed number.
#[inline]
pub(crate) fn read_int(reader: &mut BitReader) -> Result<i64, ChunkError> {
    let width = WIDTHS[reader.ones(PREFIX_MAX)? as usize];
    if width == 0 {
        return Ok(0);
    }
    let bits = reader.bits(width)?;
    // Of the patterns from the middle on the first alone is positive.
    let is_negative = width < 64 && bits > 1 << (width - 1);
    Ok(if is_negative { bits.wrapping_sub(1 << width) } else { bits } as i64)
}

/// Reads an unsigned number.
#[inline]
pub(crate) fn read_uint(reader: &mut BitReader) -> Result<u64, ChunkError> {
    match WIDTHS[reader.ones(PREFIX_MAX)? as usize] {
        0 => Ok(0),
        width => reader.bits(width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gorilla::bit_writer::BitWriter;

    fn written(write: impl FnOnce(&mut BitWriter)) -> Vec<u8> {
        let (mut writer, mut bytes) = (BitWriter::default(), Vec::new());
        write(&mut writer);
        writer.put_to(&mut bytes);
        bytes
    }

    /// Both ends of each class, and what is just beyond.
    fn edges() -> Vec<i64> {
        let ends = [3, 6, 9, 12, 18, 25, 56].map(|width| 1_i64 << (width - 1));
        let signed = ends.iter().flat_map(|end| [end - 1, *end, end + 1, 1 - end, -end, -end - 1]);
        signed.chain([0, 1, -1, i64::MAX, i64::MIN, i64::MIN + 1]).collect()
    }

    #[test]
    fn numbers_are_read_again() {
        for value in edges() {
            let bytes = written(|out| put_int(out, value));
            assert_eq!(read_int(&mut BitReader::new(&bytes)), Ok(value));
            let bytes = written(|out| put_uint(out, value as u64));
            assert_eq!(read_uint(&mut BitReader::new(&bytes)), Ok(value as u64));
        }
    }

    #[test]
    fn each_number_has_the_bits_of_its_class() {
        let bits = |write: &dyn Fn(&mut BitWriter)| {
            let with_end = written(|out| {
                write(out);
                out.bits(1, 1);
            });
            let all = with_end.iter().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
            8 * with_end.len() - 1 - all.trailing_zeros() as usize
        };
        let ints = [(0, 1), (4, 5), (-3, 5), (5, 9), (-4, 9), (32, 9), (256, 13), (2048, 17), (131_072, 24)];
        for (value, expect) in ints {
            assert_eq!(bits(&|out| put_int(out, value)), expect, "{value}");
        }
        let wide = [(16_777_216, 32), (16_777_217, 64), (1 << 55, 64), ((1 << 55) + 1, 72), (i64::MIN, 72)];
        for (value, expect) in wide {
            assert_eq!(bits(&|out| put_int(out, value)), expect, "{value}");
        }
        for (value, expect) in
            [(0, 1), (7, 5), (8, 9), (63, 9), (511, 13), (4095, 17), (262_143, 24), (u64::MAX, 72)]
        {
            assert_eq!(bits(&|out| put_uint(out, value)), expect, "{value}");
        }
    }

    #[test]
    fn prefixes_are_ones_up_to_a_zero() {
        assert_eq!(written(|out| put_uint(out, 1)), [0b1000_1000]);
        assert_eq!(written(|out| put_int(out, -1)), [0b1011_1000]);
        assert_eq!(written(|out| put_uint(out, 33_554_431)), [0xfd, 0xff, 0xff, 0xff]);
        assert_eq!(written(|out| put_int(out, i64::MIN)), [0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    }
}
