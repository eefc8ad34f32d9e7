//! DER, as far as it takes to find something in a certificate: elements one after the other, by kind. What an element
//! means is its reader's.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const OCTETS: u8 = 0x04;
/// A time with two digits of the year.
pub(super) const UTC_TIME: u8 = 0x17;
/// A time with four of them.
pub(super) const GENERALIZED_TIME: u8 = 0x18;

/// A kind, and what is inside.
pub(super) type Element<'a> = (u8, &'a [u8]);

/// The inside of a text that begins with an element of that kind.
pub(super) fn only(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    of_kind(Elements(bytes).next()?, kind)
}

/// The inside of an element of that kind.
pub(super) fn of_kind((found, inside): Element<'_>, kind: u8) -> Option<&[u8]> {
    (found == kind).then_some(inside)
}

/// The fields of a certificate: what its issuer has signed.
pub(super) fn fields(certificate: &[u8]) -> Option<Elements<'_>> {
    let whole = only(certificate, SEQUENCE)?;
    only(whole, SEQUENCE).map(Elements)
}

/// Elements of DER, one after the other: a kind, a length, and so many bytes. It ends at the first byte that begins
/// none.
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            // What ends where something says so: DER has no such thing.
            0x80 => return None,
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
            }
            0x85..=0xff => return None,
        };
        let (inside, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*kind, inside))
    }
}

/// `[3]` of a certificate's fields: its extensions.
const EXTENSIONS: u8 = 0xa3;

/// The value of a certificate's extension; `None`: it has no such one, or can't be read up to it.
pub(super) fn extension<'a>(certificate: &'a [u8], id: &[u8]) -> Option<&'a [u8]> {
    let extensions = fields(certificate)?.find(|(kind, _)| *kind == EXTENSIONS)?.1;
    for extension in Elements(only(extensions, SEQUENCE)?) {
        let mut parts = Elements(of_kind(extension, SEQUENCE)?);
        if of_kind(parts.next()?, OBJECT_ID)? == id {
            return parts.find(|(kind, _)| *kind == OCTETS).map(|(_, value)| value);
        }
    }
    None
}
