//! What clients show of themselves, by Prometheus' `client_auth_type`, and whether it is enough.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use super::{TlsError, TlsSettings, certificates, own_ca, san};

const CA_SETTING: &str = "client_ca";

/// What clients show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Nothing: none is asked for.
    None,
    /// Any certificate, or none.
    Requested,
    /// Any certificate.
    AnyRequired,
    /// One of a CA's, or none. The CA's certificates: PEM; without them no certificate will do.
    KnownIfGiven(Option<String>),
    /// One of a CA's.
    KnownRequired(Option<String>),
}

impl ClientCertificates {
    /// A client without a certificate has no allowed name either.
    pub(super) fn strictness(&self, names_clients: bool) -> Strictness {
        match self {
            Self::None => Strictness::Anybody,
            Self::Requested if names_clients => Strictness::AnyCertificate,
            Self::KnownIfGiven(_) if names_clients => Strictness::Known,
            Self::Requested | Self::KnownIfGiven(_) => Strictness::Anybody,
            Self::AnyRequired => Strictness::AnyCertificate,
            Self::KnownRequired(_) => Strictness::Known,
        }
    }
}

/// How strictly clients are looked at, from the least on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strictness {
    /// Whoever shows no certificate comes in.
    Anybody,
    /// Any certificate will do.
    AnyCertificate,
    /// One of a CA's will do.
    Known,
}

/// Whose certificates will do.
#[derive(Debug)]
enum Trust {
    Anybody,
    Cas { verifier: Arc<dyn ClientCertVerifier>, certificates: Vec<CertificateDer<'static>> },
    Nobody,
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    is_mandatory: bool,
    allowed_sans: Option<Vec<String>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificates of the CAs that vouch for clients.
pub(super) fn cas(clients: &ClientCertificates) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match clients {
        ClientCertificates::None | ClientCertificates::Requested | ClientCertificates::AnyRequired => {
            Ok(Vec::new())
        }
        ClientCertificates::KnownIfGiven(ca) | ClientCertificates::KnownRequired(ca) => {
            ca.as_deref().map_or(Ok(Vec::new()), |pem| certificates(CA_SETTING, pem))
        }
    }
}

/// What looks at clients' certificates, by those CAs; `None`: none is asked for.
pub(super) fn verifier(
    settings: &TlsSettings,
    cas: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
    cautions: &mut Vec<String>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let trust = match &settings.clients {
        ClientCertificates::None => return Ok(None),
        ClientCertificates::Requested | ClientCertificates::AnyRequired => Trust::Anybody,
        ClientCertificates::KnownIfGiven(ca) | ClientCertificates::KnownRequired(ca) => {
            trust(ca.as_deref(), cas, provider, cautions)?
        }
    };
    let allowed_sans = settings.client_allowed_sans.clone();
    let is_mandatory = settings.clients.strictness(allowed_sans.is_some()) > Strictness::Anybody;
    let algorithms = provider.signature_verification_algorithms;
    Ok(Some(Arc::new(Verifier { trust, is_mandatory, allowed_sans, algorithms })))
}

/// rustls doesn't look at the dates of CAs: those that aren't valid are left out here.
fn trust(
    named: Option<&str>,
    cas: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
    cautions: &mut Vec<String>,
) -> Result<Trust, TlsError> {
    if named.is_none() {
        cautions.push(
            "client certificates are verified, and no client_ca_file says by whom: none will do".to_owned(),
        );
    }
    if cas.is_empty() {
        return Ok(Trust::Nobody);
    }
    let mut roots = RootCertStore::empty();
    for certificate in &cas {
        roots.add(certificate.clone()).map_err(|error| TlsError::new(CA_SETTING, error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    match verifier {
        Ok(verifier) => Ok(Trust::Cas { verifier, certificates: cas }),
        Err(error) => Err(TlsError::new(CA_SETTING, error)),
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.trust {
            Trust::Cas { verifier, .. } => verifier.root_hint_subjects(),
            Trust::Anybody | Trust::Nobody => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.trust {
            Trust::Anybody => {}
            Trust::Cas { certificates, .. } if own_ca::has(certificates, end_entity, ms_of(now)) => {}
            Trust::Cas { verifier, .. } => {
                verifier.verify_client_cert(end_entity, intermediates, now)?;
            }
            Trust::Nobody => return Err(CertificateError::UnknownIssuer.into()),
        }
        let is_named =
            |allowed: &Vec<String>| san::names(end_entity).iter().any(|name| allowed.contains(name));
        match self.allowed_sans.as_ref().is_none_or(is_named) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn ms_of(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX).saturating_mul(1_000)
}
