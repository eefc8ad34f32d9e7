//! Byte slices that are written one after the other, and the zeros up to the end of the last block.

/// The bytes of all `parts`.
pub fn len(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Fills `into` with what is at `from` in `parts` put together, and with zeros past their end.
pub fn copy(parts: &[&[u8]], from: usize, into: &mut [u8]) {
    let (mut skip, mut filled) = (from, 0);
    for part in parts {
        let rest = &part[skip.min(part.len())..];
        skip -= part.len() - rest.len();
        let taken = rest.len().min(into.len() - filled);
        into[filled..filled + taken].copy_from_slice(&rest[..taken]);
        filled += taken;
        if filled == into.len() {
            return;
        }
    }
    into[filled..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: usize, bytes: usize, expect: &[u8]) {
        let parts: [&[u8]; 4] = [b"ab", b"", b"cde", b"f"];
        assert_eq!(len(&parts), 6);
        let mut into = vec![b'#'; bytes];
        copy(&parts, from, &mut into);
        assert_eq!(into, expect, "{bytes} bytes from {from}");
    }

    #[test]
    fn parts_are_copied_in_order_from_anywhere_and_zeros_follow_them() {
        check(0, 6, b"abcdef");
        check(0, 8, b"abcdef\0\0");
        check(1, 3, b"bcd");
        check(2, 1, b"c");
        check(4, 4, b"ef\0\0");
        check(6, 2, b"\0\0");
        check(9, 2, b"\0\0");
        check(0, 0, b"");
    }
}
