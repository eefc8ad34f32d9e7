//! The names that a certificate is for: its subject alternative names, found in its DER. It goes as far as these, and
//! takes what is no certificate for one without names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
/// `[3]` of a certificate's first part: its extensions.
const EXTENSIONS: u8 = 0xa3;
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

/// The DNS names, e-mail addresses, IP addresses and URIs of a certificate, as text.
pub(super) fn names(certificate: &[u8]) -> Vec<String> {
    find(certificate).unwrap_or_default()
}

fn find(certificate: &[u8]) -> Option<Vec<String>> {
    let whole = only(certificate, SEQUENCE)?;
    let to_be_signed = Elements(whole).next()?;
    let fields = of_kind(to_be_signed, SEQUENCE)?;
    let extensions = Elements(fields).find(|(kind, _)| *kind == EXTENSIONS)?.1;
    for extension in Elements(only(extensions, SEQUENCE)?) {
        let mut parts = Elements(of_kind(extension, SEQUENCE)?);
        if of_kind(parts.next()?, OBJECT_ID)? == SUBJECT_ALT_NAME {
            let value = parts.find(|(kind, _)| *kind == OCTETS)?.1;
            return Some(Elements(only(value, SEQUENCE)?).filter_map(name).collect());
        }
    }
    None
}

fn name((kind, bytes): (u8, &[u8])) -> Option<String> {
    match kind {
        EMAIL | DNS | URI => String::from_utf8(bytes.to_vec()).ok(),
        IP => address(bytes).map(|address| address.to_string()),
        _other => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(four), _) => Some(Ipv4Addr::from(four).into()),
        (_, Ok(sixteen)) => Some(Ipv6Addr::from(sixteen).into()),
        (Err(_), Err(_)) => None,
    }
}

/// The inside of a text that is one element of that kind.
fn only(bytes: &[u8], kind: u8) -> Option<&[u8]> {
    of_kind(Elements(bytes).next()?, kind)
}

fn of_kind((found, inside): (u8, &[u8]), kind: u8) -> Option<&[u8]> {
    (found == kind).then_some(inside)
}

/// Elements of DER, one after the other: a kind, a length, and so many bytes. It ends at what is none.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate() -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["agent.example".to_owned()]).unwrap();
        params.subject_alt_names.extend([
            SanType::IpAddress("10.0.0.7".parse().unwrap()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
            SanType::URI("spiffe://example/agent".try_into().unwrap()),
            SanType::Rfc822Name("agent@example.org".try_into().unwrap()),
        ]);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_of_every_kind_are_found() {
        let expect =
            ["agent.example", "10.0.0.7", "2001:db8::1", "spiffe://example/agent", "agent@example.org"];
        assert_eq!(names(&certificate()), expect);
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_anywhere_has_names_or_none_and_no_panic() {
        let whole = certificate();
        for len in 0..whole.len() {
            assert!(names(&whole[..len]).is_empty(), "{len}");
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _any = names(&changed);
            }
        }
    }
}
