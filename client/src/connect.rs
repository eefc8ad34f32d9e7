//! From an address and its options to a connection: TLS, credentials, compression, deadlines.
//!
//! Knows nothing of what is asked over the connection.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use crate::client::Client;
use crate::error::innermost;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a single answer, or the first of a stream's, may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A silent connection with requests on it is asked whether it lives.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection that then says nothing for so long is dead.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address isn't one that can be connected to.
    #[error("{0:?} isn't an address like http://127.0.0.1:9009")]
    Address(String),
    /// A header's name or value may not be sent.
    #[error("the header {0:?} has a name or a value that can't be sent")]
    Header(String),
    /// A certificate or a key can't be used.
    #[error("the certificates can't be used: {0}")]
    Certificates(#[source] tonic::transport::Error),
    /// Nobody answers there, or not as a gRPC server.
    #[error("can't connect to {address}: {}", innermost(.source))]
    Connection {
        /// Where.
        address: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// The connection took longer than [`ClientBuilder::connect_timeout`].
    #[error("no connection to {address} within {timeout:?}")]
    TimedOut {
        /// Where.
        address: String,
        /// What it was given.
        timeout: Duration,
    },
}

/// How messages are compressed, those that are sent and, where the node can do it, those that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Compression {
    /// Not at all: the cheapest where the network has room.
    #[default]
    None,
    /// By gzip.
    Gzip,
    /// By Zstandard: smaller than gzip, and cheaper.
    Zstd,
}

/// What a connection is made with; [`Client::builder`] begins one.
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    address: String,
    headers: Vec<(String, String)>,
    ca_certificate: Option<Certificate>,
    identity: Option<Identity>,
    domain_name: Option<String>,
    connect_timeout: Duration,
    request_timeout: Duration,
    compression: Compression,
}

impl ClientBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            headers: Vec::new(),
            ca_certificate: None,
            identity: None,
            domain_name: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            compression: Compression::None,
        }
    }

    /// Sends `authorization: Bearer …` with each request.
    pub fn bearer_token(self, token: impl AsRef<str>) -> Self {
        self.header("authorization", format!("Bearer {}", token.as_ref()))
    }

    /// Sends a user and a password with each request.
    pub fn basic_auth(self, user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        let credentials = BASE64.encode(format!("{}:{}", user.as_ref(), password.as_ref()));
        self.header("authorization", format!("Basic {credentials}"))
    }

    /// Sends a header with each request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Trusts what this certificate (PEM) has signed, instead of what the system trusts.
    pub fn ca_certificate(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.ca_certificate = Some(Certificate::from_pem(pem));
        self
    }

    /// Shows this certificate to the node, with its key (both PEM).
    pub fn client_identity(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.identity = Some(Identity::from_pem(certificate, key));
        self
    }

    /// The name that the node's certificate must be for, where it isn't the address' host.
    pub fn domain_name(mut self, name: impl Into<String>) -> Self {
        self.domain_name = Some(name.into());
        self
    }

    /// How long a connection may take to be made; 10 s by default.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a single answer, or the first of a stream's, may take; 30 s by default.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Compresses messages.
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Connects. Once this succeeded, a connection that breaks is made again by itself.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let headers = Headers::new(&self.headers)?;
        let endpoint = self.endpoint()?;
        let connecting = tokio::time::timeout(self.connect_timeout, endpoint.connect()).await;
        let channel = match connecting {
            Ok(Ok(channel)) => channel,
            Ok(Err(source)) => return Err(ConnectError::Connection { address: self.address, source }),
            Err(_elapsed) => {
                return Err(ConnectError::TimedOut { address: self.address, timeout: self.connect_timeout });
            }
        };
        let connection = Connection {
            channel,
            headers,
            request_timeout: self.request_timeout,
            compression: self.compression.encoding(),
        };
        Ok(Client::over(connection))
    }

    fn endpoint(&self) -> Result<Endpoint, ConnectError> {
        let wrong = || ConnectError::Address(self.address.clone());
        let endpoint = Endpoint::from_shared(self.address.clone()).map_err(|_| wrong())?;
        endpoint.uri().host().ok_or_else(wrong)?;
        let endpoint = match endpoint.uri().scheme_str() {
            Some("http") => endpoint,
            Some("https") => endpoint.tls_config(self.tls()).map_err(ConnectError::Certificates)?,
            Some(_) | None => return Err(wrong()),
        };
        let endpoint = endpoint.user_agent(concat!("silverback-client/", env!("CARGO_PKG_VERSION")));
        Ok(endpoint
            .expect("the user agent is a plain text")
            .connect_timeout(self.connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
    }

    fn tls(&self) -> ClientTlsConfig {
        let mut tls = ClientTlsConfig::new();
        tls = match &self.ca_certificate {
            Some(certificate) => tls.ca_certificate(certificate.clone()),
            None => tls.with_native_roots(),
        };
        if let Some(identity) = &self.identity {
            tls = tls.identity(identity.clone());
        }
        if let Some(name) = &self.domain_name {
            tls = tls.domain_name(name);
        }
        tls
    }
}

impl Compression {
    const fn encoding(self) -> Option<CompressionEncoding> {
        match self {
            Self::None => None,
            Self::Gzip => Some(CompressionEncoding::Gzip),
            Self::Zstd => Some(CompressionEncoding::Zstd),
        }
    }
}

/// A connection, and what every request over it has in common.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub channel: Channel,
    pub headers: Headers,
    pub request_timeout: Duration,
    pub compression: Option<CompressionEncoding>,
}

/// Headers that are sent with each request.
#[derive(Clone)]
pub(crate) struct Headers(Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>);

impl Headers {
    fn new(texts: &[(String, String)]) -> Result<Self, ConnectError> {
        let parse = |(name, value): &(String, String)| {
            let wrong = || ConnectError::Header(name.clone());
            // HTTP/2 knows no capitals in names.
            let key = name.to_lowercase().parse().map_err(|_| wrong())?;
            let mut value: MetadataValue<Ascii> = value.parse().map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((key, value))
        };
        texts.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in &self.0 {
            request.metadata_mut().insert(name.clone(), value.clone());
        }
        Ok(request)
    }
}

/// The names alone: values may be secrets.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_address_is_told() {
        for wrong in ["", "node:9009", "ftp://node", "http://", "/path"] {
            let error = Client::connect(wrong).await.unwrap_err();
            assert!(matches!(error, ConnectError::Address(_)), "{wrong}: {error}");
        }
    }

    #[tokio::test]
    async fn a_header_that_cannot_be_sent_is_told() {
        for (name, value) in [("a b", "c"), ("a", "b\nc"), ("a-bin", "b")] {
            let error =
                Client::builder("http://127.0.0.1:1").header(name, value).connect().await.unwrap_err();
            assert!(matches!(&error, ConnectError::Header(wrong) if wrong == name), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let headers = Headers::new(&[("Authorization".to_owned(), "Bearer secret".to_owned())]).unwrap();
        assert_eq!(format!("{headers:?}"), "[\"authorization\"]");
    }

    #[tokio::test]
    async fn nobody_there_is_told_with_the_address() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", socket.local_addr().unwrap());
        drop(socket);
        let text = Client::connect(address.clone()).await.unwrap_err().to_string();
        assert!(text.starts_with(&format!("can't connect to {address}: ")), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
}
