//! The small pieces that records are made of: varints, fixed numbers, refs as steps from the one
//! before. Reading takes from the front of a slice and trusts no byte.
use super::RecordError;
use silverback_model::SeriesRef;

pub(super) use silverback_model::varint::{put_varint, unzigzag, varint_len, zigzag};

/// A length or a count as records carry it.
///
/// # Panics
///
/// Beyond 32 bits: a frame's payload has its limit far below that.
pub(super) fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("a group is committed before it outgrows a frame").to_le_bytes()
}

#[inline]
pub(super) fn take_varint(rest: &mut &[u8]) -> Result<u64, RecordError> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = take_byte(rest)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(RecordError::VarintTooLong);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(RecordError::VarintTooLong)
}

#[inline]
pub(super) fn take_byte(rest: &mut &[u8]) -> Result<u8, RecordError> {
    let (&byte, after) = rest.split_first().ok_or(RecordError::Truncated)?;
    *rest = after;
    Ok(byte)
}

pub(super) fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], RecordError> {
    let (taken, after) = rest.split_at_checked(bytes).ok_or(RecordError::Truncated)?;
    *rest = after;
    Ok(taken)
}

pub(super) fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RecordError> {
    let (&taken, after) = rest.split_first_chunk().ok_or(RecordError::Truncated)?;
    *rest = after;
    Ok(taken)
}

/// A length or a count in four bytes.
pub(super) fn take_length(rest: &mut &[u8]) -> Result<usize, RecordError> {
    Ok(u32::from_le_bytes(take_array(rest)?) as usize)
}

/// A run of bytes with its length in front.
pub(super) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    let bytes = usize::try_from(take_varint(rest)?).map_err(|_| RecordError::Truncated)?;
    take(rest, bytes)
}

/// That nothing is left.
pub(super) const fn end(rest: &[u8]) -> Result<(), RecordError> {
    if rest.is_empty() { Ok(()) } else { Err(RecordError::TrailingBytes) }
}

/// Codes each ref as its distance from the one that would follow the last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RefSteps {
    next: i64,
}

impl RefSteps {
    pub(super) fn put(&mut self, out: &mut Vec<u8>, series: SeriesRef) {
        let series = i64::from(series.0);
        put_varint(out, zigzag(series - self.next));
        self.next = series + 1;
    }

    pub(super) fn take(&mut self, rest: &mut &[u8]) -> Result<SeriesRef, RecordError> {
        let series = self.next.checked_add(unzigzag(take_varint(rest)?));
        let series = series.and_then(|series| u32::try_from(series).ok());
        let series = series.ok_or(RecordError::RefOutOfRange)?;
        self.next = i64::from(series) + 1;
        Ok(SeriesRef(series))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let check = |bytes: &[u8], expect| assert_eq!(take_varint(&mut &bytes[..]), expect);
        let mut most = [0xff; 10];
        most[9] = 1;
        check(&most, Ok(u64::MAX));
        most[9] = 2;
        check(&most, Err(RecordError::VarintTooLong));
        check(&[0xff; 11], Err(RecordError::VarintTooLong));
        check(&[0x80; 3], Err(RecordError::Truncated));
    }

    proptest! {
        #[test]
        fn a_varint_is_read_as_written(value: u64, shift in 0..64, after: Vec<u8>) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
            bytes.extend(&after);
            let mut rest = &bytes[..];
            prop_assert_eq!(take_varint(&mut rest), Ok(value));
            prop_assert_eq!(rest, &after[..]);
        }

        #[test]
        fn zigzag_is_undone(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
