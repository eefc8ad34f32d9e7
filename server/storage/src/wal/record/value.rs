//! A value by itself: a class of four bits and the bytes that this class keeps of it.

use std::hint::select_unpredictable;

/// How many bytes a value of each class takes: [`code`] says which is which.
pub(super) const CLASS_BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 3, 4, 2, 3, 4, 5, 6, 7, 8];

/// Whole numbers below this take as many bytes as their class says.
const WHOLE_END: i64 = 1 << 48;
/// Hundredths in three bytes; the next class has those in four.
const HUNDREDTHS: u8 = 7;
/// The first two bytes of a float, of which the others are zero; each next class has one more.
const FLOAT: u8 = 9;
const FLOAT_BYTES_MIN: u32 = 2;

/// A class and the value's bytes, little endian, with zeros after them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coded {
    pub(super) class: u8,
    pub(super) word: u64,
}

/// Which class a value is of can't be foreseen from the one before: no branch depends on it.
#[inline]
pub(super) fn code(value: f64) -> Coded {
    let bits = value.to_bits();
    let whole = value as i64;
    // Compared bit by bit: a negative zero is no whole number.
    let is_whole = (0..WHOLE_END).contains(&whole) & ((whole as f64).to_bits() == bits);
    let whole_bytes = (u64::BITS - whole.leading_zeros()).div_ceil(8);
    let whole = Coded { class: whole_bytes as u8, word: whole as u64 };
    select_unpredictable(is_whole, whole, code_fraction(value))
}

/// What counts in fractions of a second mostly has two decimals, which no short float can hold.
#[inline]
fn code_fraction(value: f64) -> Coded {
    let bits = value.to_bits();
    let float_bytes = (8 - bits.trailing_zeros() / 8).max(FLOAT_BYTES_MIN);
    let hundredths = (value * 100.0 + 0.5) as u32;
    let is_hundredths = (float_bytes > 3) & ((f64::from(hundredths) / 100.0).to_bits() == bits);
    let short = Coded { class: HUNDREDTHS + u8::from(hundredths >> 24 != 0), word: u64::from(hundredths) };
    let float_class = FLOAT + (float_bytes - FLOAT_BYTES_MIN) as u8;
    let float = Coded { class: float_class, word: bits.swap_bytes() };
    select_unpredictable(is_hundredths, short, float)
}

/// The value of which the lowest bytes of `word` are the coded ones; the others are not looked at.
#[inline]
pub(super) const fn decode(class: u8, word: u64) -> f64 {
    let kept = word & KEPT[(class & 0xf) as usize];
    if class < HUNDREDTHS {
        kept as i64 as f64
    } else if class < FLOAT {
        kept as i64 as f64 / 100.0
    } else {
        f64::from_bits(kept.swap_bytes())
    }
}

const KEPT: [u64; 16] = {
    let mut kept = [0; 16];
    let mut class = 1;
    while class < 16 {
        kept[class] = u64::MAX >> (64 - 8 * CLASS_BYTES[class]);
        class += 1;
    }
    kept
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The coded form of `value` takes `bytes`, and is read as the same bits.
    fn check(value: f64, bytes: u8) {
        let Coded { class, word } = code(value);
        assert_eq!(CLASS_BYTES[usize::from(class)], bytes, "{value:?}");
        let garbage = if bytes == 8 { 0 } else { u64::MAX << (8 * bytes) };
        assert_eq!(decode(class, word | garbage).to_bits(), value.to_bits(), "{value:?}");
    }

    #[test]
    fn whole_numbers_take_the_bytes_that_they_have() {
        check(0.0, 0);
        check(1.0, 1);
        check(255.0, 1);
        check(256.0, 2);
        check(4_294_967_296.0, 5);
        check(281_474_976_710_655.0, 6);
    }

    #[test]
    fn two_decimals_take_the_bytes_of_their_hundredths() {
        check(0.01, 3);
        check(167_772.15, 3);
        check(167_772.16, 4);
        check(42_949_672.95, 4);
        check(42_949_672.96, 8);
    }

    #[test]
    fn other_floats_lose_their_low_zero_bytes_and_no_bit() {
        check(-0.0, 2);
        check(0.5, 2);
        check(-3.0, 2);
        check(f64::INFINITY, 2);
        check(f64::NAN, 2);
        check(281_474_976_710_656.0, 2);
        check(9_223_372_036_854_775_808.0, 2);
        check(0.1 + 0.2, 8);
        check(-0.01, 8);
        check(f64::MIN_POSITIVE, 2);
        check(f64::from_bits(1), 8);
        check(f64::from_bits(silverback_model::STALE_NAN_BITS), 8);
    }

    proptest! {
        #[test]
        fn any_bits_are_read_as_written(bits: u64, zeros in 0..64, hundredths: u32) {
            for value in [f64::from_bits(bits >> zeros << zeros), f64::from(hundredths) / 100.0, (bits >> zeros) as f64] {
                let Coded { class, word } = code(value);
                prop_assert_eq!(decode(class, word).to_bits(), value.to_bits());
            }
        }
    }
}
