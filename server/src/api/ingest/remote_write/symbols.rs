//! The symbol table of a remote write 2 request: where each symbol is, and its fingerprint, so
//! that a label set is recognised by its references without a look at its text.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use super::{
    malformed::{MalformedError, MalformedErrorKind},
    wire::malformed,
};
use silverback_model::{
    SeriesIdHasher,
    limits::{LABELS_MAX, SYMBOLS_MAX},
};

/// The table, in the memory of the request's body.
pub(super) struct SymbolTable<'a> {
    /// Offset and length in the body.
    pub places: &'a mut Vec<(u32, u32)>,
    /// Of each symbol, by the tenant's hasher.
    pub(crate) fingerprints: &'a mut Vec<u128>,
}

impl SymbolTable<'_> {
    /// Adds the next symbol.
    #[inline]
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        span: Range<usize>,
        hasher: &SeriesIdHasher,
    ) -> Result<(), MalformedError> {
        if self.places.len() == SYMBOLS_MAX {
            return Err(malformed(span.start, MalformedErrorKind::TooManySymbols));
        }
        self.places.push((span.start as u32, span.len() as u32));
        self.fingerprints.push(hasher.fingerprint(&bytes[span]));
        Ok(())
    }

    /// Where a symbol is.
    pub(crate) fn span(&self, index: u32) -> Option<Range<usize>> {
        let (offset, len) = *self.places.get(index as usize)?;
        Some(offset as usize..(offset + len) as usize)
    }

    /// A symbol's fingerprint, and where it is.
    pub(crate) fn named(&self, index: u32) -> Option<(u128, Range<usize>)> {
        Some((*self.fingerprints.get(index as usize)?, self.span(index)?))
    }

    /// The fingerprint of a series' packed references. `None` where they aren't names and values
    /// in pairs, each a plain varint, or there are too many: the slower way says what is wrong.
    #[inline]
    pub(crate) fn fingerprint(
        &self,
        mut refs: &[u8],
        keys: &PairKeys,
        hasher: &SeriesIdHasher,
    ) -> Option<u128> {
        let mut sums = [0_u128; 2];
        let mut pairs = keys.0.iter();
        while !refs.is_empty() {
            let name = *self.fingerprints.get(take_plain_varint(&mut refs)?)?;
            let value = *self.fingerprints.get(take_plain_varint(&mut refs)?)?;
            add_pair(&mut sums, pairs.next()?, name, value);
        }
        let pairs_left = pairs.len() as u128;
        let [low, high, count] = [sums[0], sums[1], pairs_left].map(u128::to_ne_bytes);
        (pairs_left < LABELS_MAX as u128).then(|| hasher.fingerprint([low, high, count].as_flattened()))
    }
}

/// Secret numbers, four for each place in a label set, for the sums that tell one set from another
/// (the NH hash of UMAC, twice): of any two sets, all but one in 2^128 draws of these tell them
/// apart. Sums, unlike a chain, take the pairs of a set side by side.
pub(crate) struct PairKeys(Box<[[u64; 4]; LABELS_MAX]>);

impl PairKeys {
    /// Draws the numbers.
    pub(crate) fn draw() -> Self {
        let mut random = std::iter::repeat_with(|| RandomState::new().hash_one(0_u8));
        let mut keys = Box::new([[0; 4]; LABELS_MAX]);
        keys.as_flattened_mut().fill_with(|| random.next().expect("it never ends"));
        Self(keys)
    }
}

#[inline(always)]
fn add_pair(sums: &mut [u128; 2], keys: &[u64; 4], name: u128, value: u128) {
    let halves = |fingerprint: u128| [fingerprint as u64, (fingerprint >> 64) as u64];
    for (i, (name, value)) in halves(name).into_iter().zip(halves(value)).enumerate() {
        let (name, value) = (name.wrapping_add(keys[2 * i]), value.wrapping_add(keys[2 * i + 1]));
        sums[i] = sums[i].wrapping_add(u128::from(name) * u128::from(value));
    }
}

/// A varint that fits 28 bits in at most four bytes: more than a table has symbols.
#[inline(always)]
fn take_plain_varint(rest: &mut &[u8]) -> Option<usize> {
    // Nearly all tables have fewer symbols than two bytes can tell apart.
    let (value, after) = match *rest {
        [low, after @ ..] if *low < 0x80 => (usize::from(*low), after),
        [low, high, after @ ..] if *high < 0x80 => {
            (usize::from(*low & 0x7f) | usize::from(*high) << 7, after)
        }
        long => long_varint(long)?,
    };
    *rest = after;
    Some(value)
}

#[cold]
fn long_varint(rest: &[u8]) -> Option<(usize, &[u8])> {
    let len = 1 + rest.iter().take(4).position(|byte| *byte < 0x80)?;
    let (bytes, after) = rest.split_at(len);
    let value = bytes.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, after))
}
const _: () = assert!(SYMBOLS_MAX < 1 << 28);

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::varint::put_varint;

    #[test]
    fn varints_of_up_to_28_bits_are_read_and_others_are_none() {
        for bits in 0..=28 {
            let value = (1_u64 << bits) - 1;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!((take_plain_varint(&mut rest), rest), (Some(value as usize), &[7][..]), "{bits} bits");
            for cut in 0..bytes.len() - 1 {
                assert_eq!(take_plain_varint(&mut &bytes[..cut]), None, "{bits} bits, {cut} bytes");
            }
        }
        assert_eq!(take_plain_varint(&mut &[0xff, 0xff, 0xff, 0xff, 1][..]), None, "29 bits");
    }
}
