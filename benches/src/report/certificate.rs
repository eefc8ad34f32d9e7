//! A server's own certificate, made for its run: ECDSA on P-256, for the loopback address and nothing else.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, SanType};

/// Where clients find whom to believe, in a server's directory.
pub fn ca_file(directory: &Path) -> PathBuf {
    directory.join("server.crt")
}

/// Prometheus' web configuration file that names the certificate, in a server's directory.
pub fn web_file(directory: &Path) -> PathBuf {
    directory.join("web.yml")
}

/// Makes certificate, key and web configuration file in a server's directory.
pub fn write(directory: &Path) -> io::Result<()> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    fs::write(ca_file(directory), certificate.pem())?;
    fs::write(directory.join("server.key"), key.serialize_pem())?;
    fs::write(web_file(directory), "tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
}
