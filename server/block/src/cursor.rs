//! Reads the numbers that Go's `encoding/binary` writes, out of a piece of a file.

use crate::error::{BlockErrorKind, BlockSectionError};

/// Bytes of a file, and how far they have been read.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where in the file `bytes` begin.
    begins: u64,
    /// What the bytes are, for whoever reads of a fault in them.
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Of bytes that begin there in their file.
    pub const fn new(bytes: &'a [u8], begins: u64, what: &'static str) -> Self {
        Self { bytes, at: 0, begins, what }
    }

    /// Where in the file it is.
    pub const fn offset(&self) -> u64 {
        self.begins + self.at as u64
    }

    /// Whether nothing is left.
    pub const fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next bytes, so many.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], BlockSectionError> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.error(BlockErrorKind::EndsEarly { what: self.what }))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BlockSectionError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A number of 8 bits, big endian.
    pub fn u8(&mut self) -> Result<u8, BlockSectionError> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of 16 bits, big endian.
    pub fn u16(&mut self) -> Result<u16, BlockSectionError> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number of 32 bits, big endian.
    pub fn u32(&mut self) -> Result<u32, BlockSectionError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of 64 bits, big endian.
    pub fn u64(&mut self) -> Result<u64, BlockSectionError> {
        self.array().map(u64::from_be_bytes)
    }

    /// An unsigned number, seven bits a byte, the lowest first.
    pub fn uvarint(&mut self) -> Result<u64, BlockSectionError> {
        let begins = self.offset();
        let too_long = || BlockSectionError::new(begins, BlockErrorKind::VarintTooLong);
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(too_long());
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(too_long())
    }

    /// A signed one, zigzag.
    pub fn varint(&mut self) -> Result<i64, BlockSectionError> {
        let zigzag = self.uvarint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Takes what files of a kind and version begin with; `what` these are.
    pub fn check_head(
        &mut self,
        magic: u32,
        version: u8,
        what: &'static str,
    ) -> Result<(), BlockSectionError> {
        let is_it = self.u32()? == magic && self.u8()? == version;
        if is_it { Ok(()) } else { Err(BlockSectionError::new(0, BlockErrorKind::NotA { what })) }
    }

    /// All that comes next.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// A problem with what comes next.
    pub fn error(&self, problem: BlockErrorKind) -> BlockSectionError {
        BlockSectionError::new(self.offset(), problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: Option<u64>) {
        assert_eq!(Cursor::new(bytes, 0, "a test").uvarint().ok(), expect, "{bytes:02x?}");
    }

    #[test]
    fn a_varint_ends_within_64_bits() {
        check(&[0x7f], Some(127));
        check(&[0x80, 0x01], Some(128));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(u64::MAX));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], None);
        check(&[0x80; 11], None);
        check(&[0x80], None);
        check(&[], None);
    }

    #[test]
    fn signed_ones_are_zigzag() {
        for (byte, expect) in [(0u8, 0i64), (1, -1), (2, 1), (3, -2)] {
            assert_eq!(Cursor::new(&[byte], 0, "a test").varint().unwrap(), expect);
        }
    }

    #[test]
    fn a_fault_says_where_in_the_file_it_is() {
        let mut cursor = Cursor::new(&[1, 2, 3], 100, "a test");
        cursor.u8().unwrap();
        assert_eq!(cursor.u32().unwrap_err().offset, 101);
    }
}
