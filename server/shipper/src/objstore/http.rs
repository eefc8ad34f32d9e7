//! `http_config`: how a bucket is reached by HTTP, and the client that does it.

use std::time::Duration;

use object_store::client::{HttpClient, HttpConnector};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use reqwest::tls::{Certificate, Identity};
use silverback_host::read_named;

use super::ObjstoreConfigError;
use super::fields::Fields;

/// A connection to the bucket, with its handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A request from its first byte to the end of its answer: a part at 70 KB/s.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
const REQUEST_LIMIT_MAX: Duration = Duration::from_secs(3600);
/// How long a connection is kept for the next request.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Those of Thanos that say how its own client is to share out connections.
const IGNORED: [&str; 6] = [
    "expect_continue_timeout",
    "max_idle_conns",
    "max_idle_conns_per_host",
    "max_conns_per_host",
    "disable_compression",
    "force_attempt_http2",
];

/// Connects to a bucket and to what gives credentials for it.
#[derive(Debug, Clone)]
pub(super) struct Connector(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, _made_already: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl Connector {
    /// Reads `http_config`, and the files that it names.
    pub(super) fn read(mut http: Fields, ignored: &mut Vec<String>) -> Result<Self, ObjstoreConfigError> {
        // Ring, as for the node's own TLS. The one before stays where a client was made already.
        let _stays = rustls::crypto::ring::default_provider().install_default();
        let idle = http.duration("idle_conn_timeout")?.unwrap_or(IDLE_LIMIT);
        let limit = http.duration("response_header_timeout")?.unwrap_or(REQUEST_LIMIT);
        let connect = http.duration("tls_handshake_timeout")?.unwrap_or(CONNECT_LIMIT);
        let mut insecure = http.flag("insecure_skip_verify")?;
        http.ignore(&IGNORED, ignored);
        let mut tls = http.fields("tls_config")?;
        http.end()?;
        insecure |= tls.flag("insecure_skip_verify")?;
        tls.refuse("server_name", "a name other than the endpoint's isn't supported")?;
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("silverback/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect.min(REQUEST_LIMIT_MAX))
            .timeout(limit.min(REQUEST_LIMIT_MAX))
            .pool_idle_timeout(idle)
            .pool_max_idle_per_host(2)
            .redirect(reqwest::redirect::Policy::none())
            .tls_danger_accept_invalid_certs(insecure);
        if let Some(file) = tls.text("ca_file")? {
            let pem = pem_of(&tls, "ca_file", &file)?;
            let certificates = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
            let certificates =
                certificates.ok_or_else(|| tls.wrong("ca_file", "there are no certificates in it"))?;
            client = client.tls_certs_only(certificates);
        }
        if let Some(identity) = identity(&mut tls)? {
            client = client.identity(identity);
        }
        tls.end()?;
        // An error of this one names no secret, and says nothing without its sources.
        let client = client.build().map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            ObjstoreConfigError::new(format!("an HTTP client can't be made: {error}: {source}"))
        })?;
        Ok(Self(client))
    }
}

fn identity(tls: &mut Fields) -> Result<Option<Identity>, ObjstoreConfigError> {
    let (cert, key) = (tls.text("cert_file")?, tls.text("key_file")?);
    let (Some(cert), Some(key)) = (&cert, &key) else {
        return match (cert, key) {
            (None, None) => Ok(None),
            _one => Err(tls.wrong("cert_file", "it and key_file are set together")),
        };
    };
    let mut pem = pem_of(tls, "cert_file", cert)?;
    pem.push(b'\n');
    pem.extend(pem_of(tls, "key_file", key)?);
    let unusable = |_unshown| tls.wrong("cert_file", "it and key_file are no certificate with its key");
    Identity::from_pem(&pem).map(Some).map_err(unusable)
}

fn pem_of(tls: &Fields, name: &str, file: &str) -> Result<Vec<u8>, ObjstoreConfigError> {
    read_named(file.as_ref(), PEM_BYTES_MAX).map_err(|error| tls.wrong(name, &format!("{file}: {error}")))
}

/// Within a request a lost connection is tried again at once, a few times; what lasts longer is the shipper's.
pub(super) fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
    }
}
