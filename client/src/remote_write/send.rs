//! One request over HTTP/1.1, and what the receiver made of it.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::encode;
use crate::Series;

const SAMPLES_WRITTEN: &str = "x-prometheus-remote-write-samples-written";
const HISTOGRAMS_WRITTEN: &str = "x-prometheus-remote-write-histograms-written";
/// From the connect to the answer, where nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A refusal's text in bytes; what goes beyond is not read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A receiver of remote write 2, by its address.
#[derive(Debug, Clone)]
pub struct RemoteWriter {
    authority: String,
    path: String,
    timeout: Duration,
}

/// What was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteWritten {
    /// Samples.
    pub samples: u64,
    /// Native histograms.
    pub histograms: u64,
}

/// Why a write did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The address isn't one that can be written to.
    #[error("{0:?} isn't an address like http://127.0.0.1:9009")]
    Address(String),
    /// Nobody answered in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Success, of which remote write 2 says to take it for none: no count of stored samples is in it.
    #[error(
        "{0}, but without saying that samples were stored: the receiver may only speak remote write 1; \
         update it, or turn its remote write 2 on"
    )]
    Unconfirmed(StatusCode),
    /// The receiver refused all or a part: what it says, and how much it stored.
    #[error("{status}: {text}")]
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its words.
        text: String,
        /// What it stored all the same.
        written: RemoteWritten,
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
        Ok(Self { authority, path: path.to_owned(), timeout: TIMEOUT })
    }

    /// Waits so long for each answer, in place of 30 seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Writes all samples and native histograms in one request. Once this returns, they are as durable as the receiver
    /// makes what it acknowledges.
    pub async fn write(&self, series: &[Series]) -> Result<RemoteWritten, WriteError> {
        let deadline = Instant::now() + self.timeout;
        let sending = timeout_at(deadline, self.send(encode::body(series)));
        let response = sending.await.map_err(|_elapsed| WriteError::TimedOut(self.timeout))??;
        let (status, written) = (response.status(), written(&response));
        if !status.is_success() {
            let text = text_until(deadline, response.into_body()).await;
            return Err(WriteError::Refused { status, text, written });
        }
        let has_any = |series: &Series| series.samples.len() + series.histograms.len() > 0;
        if written == RemoteWritten::default() && series.iter().any(has_any) {
            return Err(WriteError::Unconfirmed(status));
        }
        Ok(written)
    }

    async fn send(&self, body: Vec<u8>) -> Result<Response<Incoming>, WriteError> {
        let failed = |error: hyper::Error| WriteError::Connection(error.into());
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.map_err(|error| WriteError::Connection(error.into()))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // An error of the connection shows in the request that is in flight on it.
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
fn written(response: &Response<Incoming>) -> RemoteWritten {
    let count = |name: &str| {
        let count = response.headers().get(name);
        count.and_then(|count| count.to_str().ok()?.parse().ok()).unwrap_or(0)
    };
    RemoteWritten { samples: count(SAMPLES_WRITTEN), histograms: count(HISTOGRAMS_WRITTEN) }
}

/// What came of a refusal's text. That it was cut short or broke off changes nothing of the refusal.
async fn text_until(deadline: Instant, mut body: Incoming) -> String {
    let mut text = Vec::new();
    while text.len() < ANSWER_BYTES_MAX
        && let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await
    {
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    text.truncate(ANSWER_BYTES_MAX);
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What a sample's writer makes of an answer on a connection that is then held open.
    async fn write_to_a_receiver_that_says(answer: &str) -> Result<RemoteWritten, WriteError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let writer = RemoteWriter::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let writer = writer.with_timeout(Duration::from_millis(500));
        let series = [Series::new("up", [("job", "a")]).sample(1, 1.0)];
        let receive = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            written = writer.write(&series) => written,
            () = receive => unreachable!("the connection stays open"),
        }
    }

    #[tokio::test]
    async fn success_counts_where_it_says_what_is_stored() {
        let answer = "HTTP/1.1 204 No Content\r\nX-Prometheus-Remote-Write-Samples-Written: 1\r\n\r\n";
        let written = write_to_a_receiver_that_says(answer).await;
        assert_eq!(written.unwrap(), RemoteWritten { samples: 1, histograms: 0 });
    }

    #[tokio::test]
    async fn a_refusal_tells_what_is_stored_of_either() {
        let answer = "HTTP/1.1 400 Bad Request\r\nX-Prometheus-Remote-Write-Samples-Written: 2\r\n\
                      X-Prometheus-Remote-Write-Histograms-Written: 3\r\nContent-Length: 0\r\n\r\n";
        let refused = write_to_a_receiver_that_says(answer).await.unwrap_err();
        let WriteError::Refused { written, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(written, RemoteWritten { samples: 2, histograms: 3 });
    }

    #[tokio::test]
    async fn success_from_a_receiver_of_remote_write_1_is_none() {
        let answer = "HTTP/1.1 204 No Content\r\n\r\n";
        let error = write_to_a_receiver_that_says(answer).await.unwrap_err();
        assert!(matches!(error, WriteError::Unconfirmed(StatusCode::NO_CONTENT)), "{error:?}");
        assert!(error.to_string().contains("remote write 1"), "{error}");
    }

    async fn check_refused(answer: &str, expect_text: &str) {
        let refused = write_to_a_receiver_that_says(answer).await.unwrap_err();
        let WriteError::Refused { status, text, .. } = refused else { panic!("{refused:?}") };
        assert_eq!((status, &*text), (StatusCode::BAD_REQUEST, expect_text));
    }

    #[tokio::test]
    async fn a_refusal_whose_text_does_not_end_is_told_in_time() {
        check_refused("HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\nno name", "no name").await;
    }

    #[tokio::test]
    async fn a_refusal_in_very_many_words_is_cut_short() {
        let text = "x".repeat(ANSWER_BYTES_MAX + 1000);
        let head = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n", text.len());
        check_refused(&(head + &text), &text[..ANSWER_BYTES_MAX]).await;
    }

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
