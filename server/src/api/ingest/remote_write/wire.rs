//! The protobuf wire format, read in place. It knows tags, varints and lengths, and no message.

use std::ops::Range;

use super::malformed::{MalformedError, MalformedErrorKind};

/// Reads the fields of one message. Offsets are those of the whole body.
#[derive(Debug, Clone, Copy)]
pub struct WireReader<'a> {
    /// The body up to the message's end.
    bytes: &'a [u8],
    at: usize,
}

/// How a field is encoded. No field of remote write has four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// Up to ten bytes of seven bits.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length, and so many bytes.
    Len,
}

/// A field's number and wire type, as on the wire: `number << 3 | type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(pub u32);

impl Tag {
    /// The tag of field `number`.
    pub(crate) const fn new(number: u32, wire_type: WireType) -> Self {
        let wire_type = match wire_type {
            WireType::Varint => 0,
            WireType::Fixed64 => 1,
            WireType::Len => 2,
        };
        Self(number << 3 | wire_type)
    }

    /// The field's number.
    pub(crate) const fn number(self) -> u32 {
        self.0 >> 3
    }
}

impl<'a> WireReader<'a> {
    /// Reads the message that starts at `at` and ends where `bytes` end.
    #[inline]
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The body up to the message's end.
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The offset of the next byte.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether the message is read to its end.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next field's tag. Groups and unknown wire types are refused here.
    #[inline]
    pub(crate) fn tag(&mut self) -> Result<Tag, MalformedError> {
        let start = self.at;
        let raw = self.varint()?;
        let tag = u32::try_from(raw).map_err(|_| malformed(start, MalformedErrorKind::FieldNumber))?;
        if tag >> 3 == 0 {
            return Err(malformed(start, MalformedErrorKind::FieldNumber));
        }
        match tag & 7 {
            0 | 1 | 2 | 5 => Ok(Tag(tag)),
            3 | 4 => Err(malformed(start, MalformedErrorKind::Group)),
            _six_or_seven => Err(malformed(start, MalformedErrorKind::UnknownWireType)),
        }
    }

    /// The next varint.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, MalformedError> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            Some(_) | None => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, MalformedError> {
        let rest = &self.bytes[self.at..];
        let mut value = 0u64;
        for (i, &byte) in rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                // The tenth byte has room for the 64th bit alone.
                if i == 9 && byte > 1 {
                    return Err(malformed(self.at, MalformedErrorKind::VarintTooLong));
                }
                self.at += i + 1;
                return Ok(value);
            }
        }
        let cause =
            if rest.len() < 10 { MalformedErrorKind::Truncated } else { MalformedErrorKind::VarintTooLong };
        Err(malformed(self.at, cause))
    }

    /// The next eight bytes.
    #[inline]
    pub(crate) fn fixed64(&mut self) -> Result<u64, MalformedError> {
        let Some(bytes) = self.bytes[self.at..].first_chunk() else {
            return Err(malformed(self.at, MalformedErrorKind::Truncated));
        };
        self.at += 8;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// The place of the length-delimited field that starts here, after its tag.
    #[inline]
    pub(crate) fn span(&mut self) -> Result<Range<usize>, MalformedError> {
        let start = self.at;
        let len = self.varint()?;
        // Compared as u64, so that no length can wrap around.
        if len > (self.bytes.len() - self.at) as u64 {
            return Err(malformed(start, MalformedErrorKind::Truncated));
        }
        let span = self.at..self.at + len as usize;
        self.at = span.end;
        Ok(span)
    }

    /// The length-delimited field that starts here, as a message.
    #[inline]
    pub(crate) fn message(&mut self) -> Result<WireReader<'a>, MalformedError> {
        let span = self.span()?;
        Ok(WireReader { bytes: &self.bytes[..span.end], at: span.start })
    }

    /// Skips the value of a field that `tag` began and that isn't one of the message's: those have
    /// the numbers up to `known_max`, and are here with a wrong wire type.
    #[inline]
    pub(crate) fn skip_unknown(&mut self, tag: Tag, known_max: u32) -> Result<(), MalformedError> {
        if tag.number() <= known_max {
            return Err(malformed(self.at, MalformedErrorKind::WrongWireType));
        }
        self.skip(tag)
    }

    /// Skips the value of a field that `tag` began.
    pub(crate) fn skip(&mut self, tag: Tag) -> Result<(), MalformedError> {
        match tag.0 & 7 {
            0 => self.varint().map(|_| ()),
            1 => self.fixed64().map(|_| ()),
            2 => self.span().map(|_| ()),
            _fixed32 => self.skip_fixed32(),
        }
    }

    fn skip_fixed32(&mut self) -> Result<(), MalformedError> {
        if self.bytes.len() - self.at < 4 {
            return Err(malformed(self.at, MalformedErrorKind::Truncated));
        }
        self.at += 4;
        Ok(())
    }
}

#[cold]
pub(super) fn malformed(offset: usize, cause: MalformedErrorKind) -> MalformedError {
    MalformedError { offset, cause }
}
