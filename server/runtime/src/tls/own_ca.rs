//! Clients whose certificate itself is among those of the CAs: self-signed, as tests and small set-ups have them.
//! Prometheus takes these; rustls knows CAs and those whom they vouch for, and takes no certificate for both.

use rustls::pki_types::CertificateDer;

use super::der::{Elements, OBJECT_ID, SEQUENCE, extension, of_kind, only};
use super::validity::{CertificateStatus, Validity};

/// 2.5.29.37
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// 2.5.29.37.0: for everything.
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
/// 1.3.6.1.5.5.7.3.2: for clients of TLS.
const CLIENT_USAGE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Whether a client's certificate is one of `cas` byte for byte, holds, and is for clients.
pub(super) fn has(cas: &[CertificateDer<'_>], certificate: &CertificateDer<'_>, now_ms: i64) -> bool {
    let holds = || {
        Validity::of(certificate)
            .is_some_and(|validity| validity.status_at(now_ms) == CertificateStatus::Valid)
    };
    cas.iter().any(|ca| ca == certificate) && holds() && is_for_clients(certificate)
}

/// One that doesn't say what it is for is for everything.
fn is_for_clients(certificate: &[u8]) -> bool {
    let Some(usages) = extension(certificate, EXTENDED_KEY_USAGE) else { return true };
    let mut usages = only(usages, SEQUENCE).map(Elements).into_iter().flatten();
    usages.any(|usage| matches!(of_kind(usage, OBJECT_ID), Some(ANY_USAGE | CLIENT_USAGE)))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};
    use silverback_model::utc::parse_rfc3339_ms;

    use super::*;

    fn certificate(usages: &[ExtendedKeyUsagePurpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = usages.to_vec();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_that_is_among_the_cas_will_do_while_it_holds_and_if_it_is_for_clients() {
        let [while_it_holds, afterwards] =
            ["2020-06-01T00:00:00Z", "2021-06-01T00:00:00Z"].map(|text| parse_rfc3339_ms(text).unwrap());
        let check = |usages: &[ExtendedKeyUsagePurpose], expect| {
            let cas = [certificate(&[]), certificate(usages)];
            assert_eq!(has(&cas, &cas[1], while_it_holds), expect, "{usages:?}");
            assert!(!has(&cas, &cas[1], afterwards) && !has(&cas[..1], &cas[1], while_it_holds));
        };
        check(&[], true);
        check(&[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth], true);
        check(&[ExtendedKeyUsagePurpose::Any], true);
        check(&[ExtendedKeyUsagePurpose::ServerAuth], false);
    }
}
