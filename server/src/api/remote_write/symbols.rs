//! The symbol table of a remote write 2 request: where each symbol lies, and its fingerprint, so
//! that a label set is recognised by its references without a look at its text.

use std::ops::Range;

use super::{
    malformed::{MalformedBody, MalformedCause},
    wire::malformed,
};
use crate::{
    limits::{LABELS_MAX, SYMBOLS_MAX},
    model::SeriesIdHasher,
};

/// The table, in the memory of the request's body.
pub struct SymbolTable<'a> {
    /// Offset and length in the body.
    pub places: &'a mut Vec<(u32, u32)>,
    /// Of each symbol, by the tenant's hasher.
    pub fingerprints: &'a mut Vec<[u8; 16]>,
}

impl SymbolTable<'_> {
    /// Adds the next symbol.
    #[inline]
    pub fn push(
        &mut self,
        bytes: &[u8],
        span: Range<usize>,
        hasher: &SeriesIdHasher,
    ) -> Result<(), MalformedBody> {
        if self.places.len() == SYMBOLS_MAX {
            return Err(malformed(span.start, MalformedCause::TooManySymbols));
        }
        self.places.push((span.start as u32, span.len() as u32));
        self.fingerprints.push(hasher.fingerprint(&bytes[span]).to_ne_bytes());
        Ok(())
    }

    /// Where a symbol lies.
    pub fn span(&self, index: u32) -> Option<Range<usize>> {
        let (offset, len) = *self.places.get(index as usize)?;
        Some(offset as usize..(offset + len) as usize)
    }

    /// The fingerprint of a series' packed references. `None` where they aren't names and values
    /// in pairs, each a plain varint, or there are too many: the slower way says what is wrong.
    #[inline]
    pub fn fingerprint(&self, mut refs: &[u8], hasher: &SeriesIdHasher) -> Option<u128> {
        let mut fingerprints = [[0; 16]; 2 * LABELS_MAX];
        let mut count = 0;
        while !refs.is_empty() {
            let index = take_plain_varint(&mut refs)?;
            *fingerprints.get_mut(count)? = *self.fingerprints.get(index as usize)?;
            count += 1;
        }
        let is_paired = count > 0 && count % 2 == 0;
        is_paired.then(|| hasher.fingerprint(fingerprints[..count].as_flattened()))
    }
}

/// A varint that fits 28 bits in at most four bytes: more than a table has symbols.
#[inline]
fn take_plain_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for i in 0..4 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
const _: () = assert!(SYMBOLS_MAX < 1 << 28);
