//! TLS below HTTP, by rustls: how connections are encrypted, who of the clients must show a certificate, and the stream
//! that hyper reads and writes. Knows PEM text and Go's names of suites; doesn't know where the text came from.
mod clients;
mod der;
mod handshakes;
mod names;
mod own_ca;
mod san;
mod stream;
mod validity;

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::ring::{Ticketer, default_provider},
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    version::{TLS12, TLS13},
};

pub use clients::ClientCertificates;
use clients::Strictness;
pub(crate) use handshakes::Handshakes;
pub(crate) use stream::{TlsParts, TlsStream};
pub use validity::{CertificateStatus, Validity};

/// What is encrypted of answers before it is sent, in bytes.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// How connections are to be encrypted, as an operator says it.
pub struct TlsSettings {
    /// The node's certificate, and those between it and its root: PEM.
    pub cert_pem: String,
    /// Its key: PEM.
    pub key_pem: String,
    /// What clients show.
    pub clients: ClientCertificates,
    /// Of these names one must be in a client's certificate, where one is asked for; `None`: no such rule.
    pub client_allowed_sans: Option<Vec<String>>,
    /// The versions that are spoken.
    pub versions: TlsVersions,
    /// Suites of TLS 1.2 by Go's names; none: all that there are.
    pub cipher_suites: Vec<String>,
    /// Curves by Go's names, the preferred ones first; none: all that there are.
    pub curves: Vec<String>,
    /// Whether the node's order of suites counts, or the client's.
    pub prefers_own_order: bool,
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub http2: bool,
}

/// The versions of TLS that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersions {
    /// 1.2 alone.
    Tls12,
    /// 1.2 and 1.3.
    Tls12AndTls13,
    /// 1.3 alone.
    Tls13,
}

impl TlsVersions {
    fn list(self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

        match self {
            Self::Tls12 => &BOTH[1..],
            Self::Tls12AndTls13 => &BOTH,
            Self::Tls13 => &BOTH[..1],
        }
    }
}

/// What is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {wrong}")]
pub struct TlsError {
    /// Which one.
    pub setting: &'static str,
    /// What.
    pub wrong: String,
}

impl TlsError {
    pub(crate) fn new(setting: &'static str, wrong: impl fmt::Display) -> Self {
        Self { setting, wrong: wrong.to_string() }
    }
}

/// How connections are encrypted; clones are the same.
#[derive(Clone)]
pub struct TlsConfig {
    config: Arc<ServerConfig>,
    http2: bool,
    strictness: Strictness,
    names_clients: bool,
    dates: Vec<(Role, Validity)>,
}

/// What a certificate is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The node's own.
    Server,
    /// One of those between it and its root, which the node sends with it.
    Chain,
    /// A CA's whose clients come in.
    ClientCa,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Server, Self::Chain, Self::ClientCa];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Chain => "chain",
            Self::ClientCa => "client_ca",
        }
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config: _, http2, strictness, names_clients, dates } = self;
        f.debug_struct("TlsConfig")
            .field("http2", http2)
            .field("strictness", strictness)
            .field("names_clients", names_clients)
            .field("dates", dates)
            .finish_non_exhaustive()
    }
}

impl TlsConfig {
    /// Makes it of settings, of whose CAs those count that hold at `now_ms`, in ms since the Unix epoch. `cautions` gets
    /// what can't be had and can be done without.
    ///
    /// Tickets of another one mean nothing to this one: clients whose CA is gone can't resume.
    pub fn new(settings: &TlsSettings, now_ms: i64, cautions: &mut Vec<String>) -> Result<Self, TlsError> {
        let mut provider = default_provider();
        provider.cipher_suites = names::cipher_suites(&provider, settings, cautions)?;
        provider.kx_groups = names::curves(&provider, &settings.curves, cautions)?;
        let provider = Arc::new(provider);
        let cas = clients::cas(&settings.clients)?;
        let mut dates = dates(Role::ClientCa, "client_ca", &cas)?;
        let holding = cas
            .into_iter()
            .zip(&dates)
            .filter(|(_, (_, dates))| dates.status_at(now_ms) == CertificateStatus::Valid);
        let holding = holding.map(|(ca, _)| ca).collect();
        let clients = clients::verifier(settings, holding, &provider, cautions)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(settings.versions.list())
            .map_err(|error| TlsError::new("cipher_suites", error))?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let (chain, key) = (certificates("cert", &settings.cert_pem)?, key(&settings.key_pem)?);
        let (own, others) = chain.split_at(1);
        dates.extend(self::dates(Role::Server, "cert", own)?);
        // Whoever needs one of these reads it: what is wrong with it keeps nobody out by itself.
        dates.extend(others.iter().filter_map(|other| Some((Role::Chain, Validity::of(other)?))));
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let wrong = match error {
                rustls::Error::InconsistentKeys(_) => "the key isn't that of the certificate".to_owned(),
                other => format!("the certificate and the key can't be used: {other}"),
            };
            TlsError::new("cert", wrong)
        })?;
        config.ignore_client_order = settings.prefers_own_order;
        config.ticketer = Ticketer::new().map_err(|error| TlsError::new("cert", error))?;
        let http1 = b"http/1.1".to_vec();
        config.alpn_protocols = if settings.http2 { vec![b"h2".to_vec(), http1] } else { vec![http1] };
        Ok(Self {
            config: Arc::new(config),
            http2: settings.http2,
            strictness: settings.clients.strictness(settings.client_allowed_sans.is_some()),
            names_clients: settings.client_allowed_sans.is_some(),
            dates,
        })
    }

    /// From when to when its certificates hold.
    pub fn dates(&self) -> &[(Role, Validity)] {
        &self.dates
    }

    /// Whether only clients come in whose certificate a given CA has signed.
    pub fn wants_known_clients(&self) -> bool {
        self.strictness == Strictness::Known
    }

    /// Whether clients come in by this that show less of themselves than `former` wants. Which CA it is isn't looked at.
    pub fn asks_less_than(&self, former: &Self) -> bool {
        self.strictness < former.strictness || former.names_clients && !self.names_clients
    }

    /// Whether HTTP/2 may be spoken.
    pub(crate) fn allows_http2(&self) -> bool {
        self.http2
    }
}

/// From when to when each of them holds. One that doesn't say so is left out.
fn dates(
    role: Role,
    setting: &'static str,
    certificates: &[CertificateDer<'_>],
) -> Result<Vec<(Role, Validity)>, TlsError> {
    let found = certificates.iter().map(|certificate| Some((role, Validity::of(certificate)?)));
    let found: Option<_> = found.collect();
    found.ok_or_else(|| TlsError::new(setting, "a certificate's dates can't be read"))
}

/// The certificates of a PEM text, at least one.
fn certificates(setting: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|error| {
        TlsError::new(setting, format!("it is no PEM text of certificates: {}", said(&error)))
    })?;
    match certificates.is_empty() {
        true => {
            Err(TlsError::new(setting, "there is no certificate in it (PEM: -----BEGIN CERTIFICATE-----)"))
        }
        false => Ok(certificates),
    }
}

/// What is wrong with a PEM text, and nothing of it: it may be a key that is where a certificate should.
fn said(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section doesn't end",
        pem::Error::IllegalSectionStart { .. } => "a section doesn't begin as one does",
        pem::Error::Base64Decode(_) => "a section isn't Base64",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::Io(_) | pem::Error::NoItemsFound => "there is nothing in it",
        _ => "it can't be read",
    }
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    // What the parser says of it could repeat it.
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_unshown| {
        TlsError::new(
            "key",
            "there is no private key in it that can be read (PEM: PKCS#8, PKCS#1 or SEC 1, not encrypted)",
        )
    })
}
