//! Varints as protocol buffers and the log write them: seven bits a byte, the lowest first; and how signed numbers are
//! written in them. Each format reads its own: it has its own words for what isn't one.

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Its length in bytes.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Signed numbers near zero as unsigned ones near zero.
#[inline(always)]
pub const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The number that [`zigzag`] made this of.
#[inline(always)]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The same of protocol buffers' `sint32`: a longer varint is cut to 32 bits before it gets its sign.
#[inline(always)]
pub const fn unzigzag_32(value: u64) -> i32 {
    let value = value as u32;
    (value >> 1) as i32 ^ -((value & 1) as i32)
}
