//! Certificates of a test's own authorities, and connections that are encrypted by them.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use silverback_test_support::{Scratch, TEST_TIMEOUT};

use crate::scene::write;

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// When a certificate holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holds {
    Now,
    NoMore,
    NotYet,
    /// To so many seconds from now, and that second.
    For(Duration),
}

impl Holds {
    fn set(self, params: &mut CertificateParams) {
        match self {
            Self::Now => {}
            Self::NoMore => params.not_after = date_time_ymd(2020, 1, 1),
            Self::NotYet => params.not_before = date_time_ymd(3000, 1, 1),
            Self::For(time) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                params.not_after = date_time_ymd(1970, 1, 1) + now + time;
            }
        }
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::holding(Holds::Now)
    }

    pub(crate) fn holding(holds: Holds) -> Self {
        let mut params = CertificateParams::default();
        holds.set(&mut params);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its own certificate, for a client that shows it itself.
    pub(crate) fn itself(&self) -> Issued {
        Issued { certificate: self.pem(), key: self.0.key().serialize_pem() }
    }

    /// A certificate for a name.
    pub(crate) fn issue(&self, name: &str) -> Issued {
        self.issue_holding(name, Holds::Now)
    }

    pub(crate) fn issue_holding(&self, name: &str, holds: Holds) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        holds.set(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// The files `server.crt` and `server.key` of a node whose name is localhost.
    pub(crate) fn write_server(&self, dir: &Scratch) {
        let Issued { certificate, key } = self.issue("localhost");
        write(dir, "server.crt", &certificate);
        write(dir, "server.key", &key);
    }

    /// A client that trusts it, with a certificate or without.
    pub(crate) fn client(&self, issued: Option<&Issued>) -> ClientConfig {
        self.client_of(default_provider(), issued)
    }

    /// The same, with a choice of suites.
    pub(crate) fn client_of(&self, provider: CryptoProvider, issued: Option<&Issued>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match issued {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
        }
    }
}

/// An encrypted connection.
pub(crate) type Encrypted = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// Connects; the handshake is made with the first request.
pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Encrypted {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    BufReader::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream))
}
