//! One request over HTTP/1.1, and what the receiver made of it.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::encode;
use crate::Series;

const SAMPLES_WRITTEN: &str = "x-prometheus-remote-write-samples-written";
/// From the connect to the answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// An answer's text in bytes; what is longer is not read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A receiver of remote write 2, by its address.
#[derive(Debug, Clone)]
pub struct RemoteWriter {
    authority: String,
    path: String,
}

/// What was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Samples.
    pub samples: u64,
}

/// Why a write did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The address isn't one that can be written to.
    #[error("{0:?} is no address like http://127.0.0.1:9009")]
    Address(String),
    /// Nobody answered in time.
    #[error("no answer within {TIMEOUT:?}")]
    TimedOut,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The receiver refused all or a part: what it says, and how much it stored.
    #[error("{status}: {text}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its words.
        text: String,
        /// Samples that it stored all the same.
        written: u64,
    },
}

impl RemoteWriter {
    /// A writer to the receiver at `address`: `http://host:port`, with a path where it isn't
    /// `/api/v1/write`.
    pub fn new(address: &str) -> Result<Self, WriteError> {
        let wrong = || WriteError::Address(address.to_owned());
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong());
        }
        let host = uri.host().ok_or_else(wrong)?;
        let path = match uri.path() {
            "/" => "/api/v1/write",
            path => path,
        };
        let authority = format!("{host}:{}", uri.port_u16().unwrap_or(80));
        Ok(Self { authority, path: path.to_owned() })
    }

    /// Writes all samples in one request. Once this returns, they are as durable as the receiver
    /// makes what it acknowledges.
    pub async fn write(&self, series: &[Series]) -> Result<Written, WriteError> {
        let sending = self.send(encode::body(series));
        let response = tokio::time::timeout(TIMEOUT, sending).await.map_err(|_| WriteError::TimedOut)??;
        let written = samples_written(&response);
        let status = response.status();
        if status.is_success() {
            return Ok(Written { samples: written });
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let text = body.map_err(WriteError::Connection)?.to_bytes();
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        Err(WriteError::Refused { status, text, written })
    }

    async fn send(&self, body: Vec<u8>) -> Result<Response<Incoming>, WriteError> {
        let failed = |error: hyper::Error| WriteError::Connection(error.into());
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.map_err(|error| WriteError::Connection(error.into()))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // An error of the connection shows in the request that is under way on it.
        tokio::spawn(connection);
        sender.send_request(self.request(body)).await.map_err(failed)
    }

    fn request(&self, body: Vec<u8>) -> Request<Full<Bytes>> {
        let request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/x-protobuf;proto=io.prometheus.write.v2.Request")
            .header(header::CONTENT_ENCODING, "snappy")
            .header(header::USER_AGENT, concat!("silverback-client/", env!("CARGO_PKG_VERSION")))
            .header("x-prometheus-remote-write-version", "2.0.0");
        request.body(Full::new(body.into())).expect("the address was checked")
    }
}

/// What the receiver says it stored; nothing where it doesn't say.
fn samples_written(response: &Response<Incoming>) -> u64 {
    let count = response.headers().get(SAMPLES_WRITTEN);
    count.and_then(|count| count.to_str().ok()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_perhaps_a_path() {
        let check = |address: &str, authority: &str, path: &str| {
            let client = RemoteWriter::new(address).unwrap();
            assert_eq!((client.authority.as_str(), client.path.as_str()), (authority, path));
        };
        check("http://127.0.0.1:9009", "127.0.0.1:9009", "/api/v1/write");
        check("http://node/api/v1/push", "node:80", "/api/v1/push");
        check("http://[::1]:1", "[::1]:1", "/api/v1/write");
        for wrong in ["", "node:9009", "https://node", "http://"] {
            assert!(RemoteWriter::new(wrong).is_err(), "{wrong}");
        }
    }
}
