//! The symbol table of a remote write 2 request: where each symbol lies, and its fingerprint, so
//! that a label set is recognised by its references without a look at its text.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use super::{
    malformed::{MalformedBody, MalformedCause},
    wire::malformed,
};
use silverback_model::{
    SeriesIdHasher,
    limits::{LABELS_MAX, SYMBOLS_MAX},
};

/// The table, in the memory of the request's body.
pub struct SymbolTable<'a> {
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
    ) -> Result<(), MalformedBody> {
        if self.places.len() == SYMBOLS_MAX {
            return Err(malformed(span.start, MalformedCause::TooManySymbols));
        }
        self.places.push((span.start as u32, span.len() as u32));
        self.fingerprints.push(hasher.fingerprint(&bytes[span]));
        Ok(())
    }

    /// Where a symbol lies.
    pub(crate) fn span(&self, index: u32) -> Option<Range<usize>> {
        let (offset, len) = *self.places.get(index as usize)?;
        Some(offset as usize..(offset + len) as usize)
    }

    /// A symbol's fingerprint, and where it lies.
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
    let mut value = 0;
    for i in 0..4 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
const _: () = assert!(SYMBOLS_MAX < 1 << 28);
