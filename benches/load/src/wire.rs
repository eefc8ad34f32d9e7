//! The bytes of a connection: plain, or by TLS as senders speak it. It knows no HTTP.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

/// How a client that was there before is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Handshake {
    /// By a ticket of the connection before: no certificate is looked at.
    Resumed,
    /// Not at all: everything is done again.
    Full,
}

/// Whom a client believes, and whom it wants to reach. Connections of one resume each other's sessions.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Believes the authorities whose certificates a PEM file has. `host` is a name or an address.
    pub fn trusting(ca_file: &Path, host: &str) -> io::Result<Self> {
        let named = |what: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {what}", ca_file.display()))
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca_file).map_err(|error| named(&error))? {
            let certificate = certificate.map_err(|error| named(&error))?;
            roots.add(certificate).map_err(|error| named(&error))?;
        }
        let versions = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = versions.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {error}")))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The same for one client alone, which has tickets of its own or none.
    pub fn of_one_client(&self, handshake: Handshake) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = match handshake {
            Handshake::Resumed => Resumption::in_memory_sessions(1),
            Handshake::Full => Resumption::disabled(),
        };
        Self { config: Arc::new(config), name: self.name.clone() }
    }
}

/// An open connection.
#[derive(Debug)]
pub enum Wire {
    /// What is written is what is sent.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Connects, the handshake of TLS included. The time is that of connecting, and of each wait afterwards.
    pub fn connect(address: SocketAddr, tls: Option<&Tls>, timeout: Duration) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let Some(Tls { config, name }) = tls else { return Ok(Self::Plain(stream)) };
        let mut session =
            ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// Whether its session is that of a connection before.
    pub fn is_resumed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write_vectored(parts),
            Self::Tls(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
