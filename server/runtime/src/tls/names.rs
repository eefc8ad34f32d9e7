//! Suites and curves by the names that Go has for them, as Prometheus' web configuration file writes them.

use rustls::{
    NamedGroup, SupportedCipherSuite,
    crypto::{CryptoProvider, SupportedKxGroup},
};

use super::{TlsError, TlsSettings, TlsVersions};

/// What Go knows and isn't here: what has CBC. Where others are named too, these are left out.
const SUITES_MISSING: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];
/// As in Go, TLS 1.3 has all of its own, named or not.
const SUITES_OF_TLS13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
/// Of these, HTTP/2 wants one wherever TLS 1.2 is spoken.
const SUITES_OF_HTTP2: [&str; 2] =
    ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];

const CURVES: [(&str, NamedGroup); 3] = [
    ("CurveP256", NamedGroup::secp256r1),
    ("CurveP384", NamedGroup::secp384r1),
    ("X25519", NamedGroup::X25519),
];
const CURVES_MISSING: [&str; 2] = ["CurveP521", "X25519MLKEM768"];

/// The suites that are named, and those of TLS 1.3.
pub(super) fn cipher_suites(
    provider: &CryptoProvider,
    settings: &TlsSettings,
    cautions: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    const SETTING: &str = "cipher_suites";
    let named = &settings.cipher_suites;
    if named.is_empty() {
        return Ok(provider.cipher_suites.clone());
    }
    let name_of = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite());
    let mut suites: Vec<_> =
        provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some()).copied().collect();
    let mut is_any_of_tls12 = false;
    for (at, name) in named.iter().enumerate() {
        match provider.cipher_suites.iter().find(|suite| suite.tls13().is_none() && name_of(suite) == *name) {
            Some(suite) => {
                is_any_of_tls12 = true;
                suites.push(*suite);
            }
            None if SUITES_MISSING.contains(&name.as_str()) => {
                cautions.push(format!("{SETTING}: {name} isn't spoken here and is left out: it has CBC"));
            }
            None if SUITES_OF_TLS13.contains(&name.as_str()) => {}
            None => {
                let known =
                    provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).map(name_of);
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(TlsError::new(
                    SETTING,
                    format!("number {} is no suite; allowed: {known}", at + 1),
                ));
            }
        }
    }
    let speaks_tls12 = settings.versions != TlsVersions::Tls13;
    if settings.versions == TlsVersions::Tls12 && !is_any_of_tls12 {
        return Err(TlsError::new(SETTING, "none of these is spoken here with TLS 1.2"));
    }
    let has_http2_s = named.iter().any(|name| SUITES_OF_HTTP2.contains(&name.as_str()));
    if speaks_tls12 && settings.http2 && !has_http2_s {
        let wrong =
            format!("HTTP/2 wants one of {}: add it, or set http2: false", SUITES_OF_HTTP2.join(", "));
        return Err(TlsError::new(SETTING, wrong));
    }
    Ok(suites)
}

/// The curves that are named, in their order.
pub(super) fn curves(
    provider: &CryptoProvider,
    named: &[String],
    cautions: &mut Vec<String>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, TlsError> {
    const SETTING: &str = "curve_preferences";
    if named.is_empty() {
        return Ok(provider.kx_groups.clone());
    }
    let mut curves = Vec::new();
    for (at, name) in named.iter().enumerate() {
        let group = CURVES.iter().find(|(known, _)| known == name).map(|(_, group)| *group);
        match group.and_then(|group| provider.kx_groups.iter().find(|known| known.name() == group)) {
            Some(curve) => curves.push(*curve),
            None if CURVES_MISSING.contains(&name.as_str()) => {
                cautions.push(format!("{SETTING}: {name} isn't spoken here and is left out"));
            }
            None => {
                let known = CURVES.map(|(name, _)| name).join(", ");
                return Err(TlsError::new(
                    SETTING,
                    format!("number {} is no curve; allowed: {known}", at + 1),
                ));
            }
        }
    }
    match curves.is_empty() {
        true => {
            Err(TlsError::new(SETTING, "none of these is spoken here; allowed: CurveP256, CurveP384, X25519"))
        }
        false => Ok(curves),
    }
}
