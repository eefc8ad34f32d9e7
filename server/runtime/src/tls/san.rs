//! The names that a certificate is for: its subject alternative names, found in its DER. It goes as far as these, and
//! takes what isn't a certificate for one without names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::der::{Element, Elements, SEQUENCE, extension, only};

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
    let value = extension(certificate, SUBJECT_ALT_NAME)?;
    Some(Elements(only(value, SEQUENCE)?).filter_map(name).collect())
}

fn name((kind, bytes): Element<'_>) -> Option<String> {
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
