//! Protocol buffers written by hand: messages that are too many, or too large, to be built first.

pub(crate) use silverback_model::varint::{put_varint, varint_len};

/// Field numbers fit one byte here, tag and wire type together.
pub(crate) const fn tag(field: u8, wire: Wire) -> u8 {
    assert!(field < 16);
    field << 3
        | match wire {
            Wire::Varint => 0,
            Wire::Fixed64 => 1,
            Wire::Len => 2,
        }
}

/// How a field is encoded.
#[derive(Debug, Clone, Copy)]
pub enum Wire {
    /// Seven bits a byte.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length, and so many bytes.
    Len,
}

/// A field with a length, head included, in bytes. Its number is below 16.
pub(crate) const fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Appends the head of a field that has a length.
pub(crate) fn put_len_head(out: &mut Vec<u8>, field: u8, len: usize) {
    out.push(tag(field, Wire::Len));
    put_varint(out, len as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_told_and_as_prost_writes_them() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                assert_eq!(prost::decode_length_delimiter(&out[..]).ok(), usize::try_from(value).ok());
            }
        }
    }
}
