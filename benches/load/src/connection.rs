//! One keep-alive connection that speaks just enough HTTP/1.1 to send a request and read the answer:
//! the one HTTP client of all loads. It knows no retries and no clock besides its timeout.

use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crate::encode::RemoteWrite;
use crate::wire::{Handshake, Tls, Wire};

/// What is kept of a refusal's text.
const EXCERPT_BYTES_MAX: usize = 256;
/// A response's line, and its header lines: what is longer isn't from a server we know.
const LINE_BYTES_MAX: u64 = 8 << 10;
const HEADER_LINES_MAX: usize = 64;

/// Where requests go: `http://host:port/path`, or `https://`.
#[derive(Debug, Clone)]
pub struct Endpoint {
    address: SocketAddr,
    host: String,
    path: String,
    tls: Option<Tls>,
}

impl Endpoint {
    /// Resolves a URL; one of `https://` takes the file of authorities that its certificate is of.
    pub fn resolve(url: &str, ca_file: Option<&Path>) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, format!("{url}: {what}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("no URL"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        let (port, tls) = match (scheme, ca_file) {
            ("http", _) => (":80", None),
            ("https", Some(file)) => (":443", Some(Tls::trusting(file, name)?)),
            ("https", None) => return Err(invalid("whom to believe is missing: give --ca-file")),
            (_other, _) => return Err(invalid("only http:// and https:// are spoken")),
        };
        let port = if host.contains(':') { "" } else { port };
        let address =
            format!("{host}{port}").to_socket_addrs()?.next().ok_or_else(|| invalid("no address"))?;
        Ok(Self { address, host: host.to_owned(), path: format!("/{path}"), tls })
    }

    /// The same for one client alone, which has tickets of its own or none.
    pub fn of_one_client(&self, handshake: Handshake) -> Self {
        let tls = self.tls.as_ref().map(|tls| tls.of_one_client(handshake));
        Self { tls, ..self.clone() }
    }
}

/// What a connection's requests ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// To be answered something.
    Get,
    /// To take a body.
    Post,
}

/// The answer to one request.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// How many samples were stored, where it says so.
    pub samples_written: Option<u64>,
    /// When to try again, where it says so.
    pub retry_after_s: Option<u64>,
    /// The start of its body.
    pub excerpt: String,
}

impl Response {
    /// Whether the samples were acknowledged.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the protocol wants this sent again.
    pub fn asks_for_retry(&self) -> bool {
        self.status == 429 || self.status >= 500
    }
}

/// A connection; it is opened again by the first request after it broke.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    tls: Option<Tls>,
    /// The request's head up to the length's digits.
    head_prefix: Vec<u8>,
    head: Vec<u8>,
    stream: Option<BufReader<Wire>>,
    line: Vec<u8>,
    timeout: Duration,
}

impl Connection {
    /// Connects, to post remote write's bodies.
    pub fn open(
        endpoint: &Endpoint,
        version: RemoteWrite,
        headers: &[String],
        timeout: Duration,
    ) -> io::Result<Self> {
        let version_headers = match version {
            RemoteWrite::V1 => {
                "Content-Type: application/x-protobuf\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n"
            }
            RemoteWrite::V2 => {
                "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n\
                 X-Prometheus-Remote-Write-Version: 2.0.0\r\n"
            }
        };
        let own_headers: String = headers.iter().map(|header| format!("{}\r\n", header.trim())).collect();
        let headers = format!("Content-Encoding: snappy\r\n{version_headers}{own_headers}");
        Self::open_for(Method::Post, endpoint, &headers, timeout)
    }

    /// Connects, to send requests of one method and no particular kind.
    pub fn open_plain(method: Method, endpoint: &Endpoint, timeout: Duration) -> io::Result<Self> {
        Self::open_for(method, endpoint, "", timeout)
    }

    /// Each of the headers ends its line.
    fn open_for(method: Method, endpoint: &Endpoint, headers: &str, timeout: Duration) -> io::Result<Self> {
        let method = match method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let head_prefix = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: silverback-load\r\n{headers}Content-Length: ",
            endpoint.path, endpoint.host
        );
        let mut connection = Self {
            address: endpoint.address,
            tls: endpoint.tls.clone(),
            head_prefix: head_prefix.into_bytes(),
            head: Vec::new(),
            stream: None,
            line: Vec::new(),
            timeout,
        };
        connection.stream = Some(connection.connect()?);
        Ok(connection)
    }

    /// Sends one request with this body, which may be empty, and reads the whole answer. After an error the
    /// connection is closed.
    pub fn send(&mut self, body: &[u8]) -> io::Result<Response> {
        self.begin(body)?;
        self.finish()
    }

    /// The first half of it: the answer is to be read by [`finish`](Self::finish).
    pub fn begin(&mut self, body: &[u8]) -> io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        self.head.clear();
        self.head.extend_from_slice(&self.head_prefix);
        write!(self.head, "{}\r\n\r\n", body.len())?;
        write_both(stream.get_mut(), &self.head, body)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// The second half: waits for the answer.
    pub fn finish(&mut self) -> io::Result<Response> {
        let mut stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let head = ResponseHead::read(&mut stream, &mut self.line)?;
        let (excerpt, reuse) = head.read_body(&mut stream, &mut self.line)?;
        if reuse == Reuse::KeepAlive {
            self.stream = Some(stream);
        }
        Ok(Response {
            status: head.status,
            samples_written: head.samples_written,
            retry_after_s: head.retry_after_s,
            excerpt: String::from_utf8_lossy(&excerpt).trim().to_owned(),
        })
    }

    /// Whether it is open, and its session that of a connection before.
    pub fn is_resumed(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.get_ref().is_resumed())
    }

    /// Its socket, where it is open: readable once an answer begins.
    pub fn stream(&self) -> Option<&TcpStream> {
        self.stream.as_ref().map(|stream| stream.get_ref().socket())
    }

    /// Closes it: the next request opens it again.
    pub fn close(&mut self) {
        self.stream = None;
    }

    fn connect(&self) -> io::Result<BufReader<Wire>> {
        let wire = Wire::connect(self.address, self.tls.as_ref(), self.timeout)?;
        Ok(BufReader::with_capacity(2 << 10, wire))
    }
}

/// Writes head and body with one system call where the socket takes it.
fn write_both(stream: &mut Wire, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut both = [IoSlice::new(head), IoSlice::new(body)];
    let mut left = both.as_mut_slice();
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    KeepAlive,
    Close,
}

/// How a body's end is known.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

struct ResponseHead {
    status: u16,
    framing: Framing,
    reuse: Reuse,
    samples_written: Option<u64>,
    retry_after_s: Option<u64>,
}

impl ResponseHead {
    fn read(stream: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Self> {
        read_line(stream, line)?;
        let text = std::str::from_utf8(line).map_err(|_| malformed("status line"))?;
        let version = text.strip_prefix("HTTP/1.").ok_or_else(|| malformed("status line"))?;
        let status = version.get(2..5).and_then(|s| s.parse().ok()).ok_or_else(|| malformed("status"))?;
        let reuse = if version.starts_with('0') { Reuse::Close } else { Reuse::KeepAlive };
        let framing = if status == 204 || status == 304 { Framing::Length(0) } else { Framing::UntilClose };
        let mut head = Self { status, framing, reuse, samples_written: None, retry_after_s: None };
        for _ in 0..HEADER_LINES_MAX {
            read_line(stream, line)?;
            if line.is_empty() {
                return Ok(head);
            }
            head.read_header(line)?;
        }
        Err(malformed("too many headers"))
    }

    fn read_header(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return Err(malformed("header")) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.framing = Framing::Length(number(value).ok_or_else(|| malformed("content-length"))?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
            self.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case(b"connection") && value.eq_ignore_ascii_case(b"close") {
            self.reuse = Reuse::Close;
        } else if name.eq_ignore_ascii_case(b"x-prometheus-remote-write-samples-written") {
            self.samples_written = number(value);
        } else if name.eq_ignore_ascii_case(b"retry-after") {
            // A date is as good as no hint: servers of remote write give seconds.
            self.retry_after_s = number(value);
        }
        Ok(())
    }

    /// The body's start, and whether the connection can be used again.
    fn read_body(&self, stream: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<(Vec<u8>, Reuse)> {
        let mut excerpt = Vec::new();
        match self.framing {
            Framing::Length(length) => take(stream, length, &mut excerpt)?,
            Framing::Chunked => loop {
                read_line(stream, line)?;
                let length = chunk_length(line)?;
                if length > 0 {
                    take(stream, length, &mut excerpt)?;
                }
                read_line(stream, line)?;
                if length == 0 {
                    break;
                }
            },
            Framing::UntilClose => {
                stream.take(EXCERPT_BYTES_MAX as u64).read_to_end(&mut excerpt)?;
                return Ok((excerpt, Reuse::Close));
            }
        }
        Ok((excerpt, self.reuse))
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn chunk_length(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let digits = std::str::from_utf8(digits).map_err(|_| malformed("chunk"))?;
    u64::from_str_radix(digits, 16).map_err(|_| malformed("chunk"))
}

/// Reads `length` bytes and keeps the first few.
fn take(stream: &mut impl BufRead, length: u64, excerpt: &mut Vec<u8>) -> io::Result<()> {
    let keep = length.min((EXCERPT_BYTES_MAX - excerpt.len().min(EXCERPT_BYTES_MAX)) as u64);
    let kept = stream.take(keep).read_to_end(excerpt)? as u64;
    let dropped = io::copy(&mut stream.take(length - keep), &mut io::sink())?;
    if kept + dropped == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// One line without its end.
fn read_line(stream: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    let Some(without) = line.strip_suffix(b"\n") else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let length = without.strip_suffix(b"\r").unwrap_or(without).len();
    line.truncate(length);
    Ok(())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an HTTP/1.1 response: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(response: &str, status: u16, excerpt: &str, reuse: Reuse) {
        let mut stream = response.as_bytes();
        let head = ResponseHead::read(&mut stream, &mut Vec::new()).expect("a head");
        let (body, reused) = head.read_body(&mut stream, &mut Vec::new()).expect("a body");
        assert_eq!((head.status, body.as_slice(), reused), (status, excerpt.as_bytes(), reuse));
        assert!(stream.is_empty(), "left: {stream:?}");
    }

    #[test]
    fn an_empty_answer_keeps_the_connection() {
        check("HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n", 204, "", Reuse::KeepAlive);
    }

    #[test]
    fn what_was_stored_and_when_to_try_again_is_read() {
        let response = "HTTP/1.1 429 Busy\r\nX-Prometheus-Remote-Write-Samples-Written: 7\r\n\
                        Retry-After: 30\r\nContent-Length: 0\r\n\r\n";
        let head = ResponseHead::read(&mut response.as_bytes(), &mut Vec::new()).expect("a head");
        assert_eq!((head.samples_written, head.retry_after_s), (Some(7), Some(30)));
    }

    #[test]
    fn bodies_of_all_framings_are_read_to_their_end() {
        check("HTTP/1.1 400 Bad\r\ncontent-length: 3\r\n\r\nbad", 400, "bad", Reuse::KeepAlive);
        let chunked =
            "HTTP/1.1 500 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n1;x=y\r\n!\r\n0\r\n\r\n";
        check(chunked, 500, "bad!", Reuse::KeepAlive);
        check("HTTP/1.1 503 Busy\r\n\r\nbusy", 503, "busy", Reuse::Close);
        check("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, "", Reuse::Close);
        check("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", Reuse::Close);
    }

    #[test]
    fn a_long_body_is_dropped_past_its_start() {
        let long = "x".repeat(5000);
        let response = format!("HTTP/1.1 400 Bad\r\nContent-Length: 5000\r\n\r\n{long}");
        check(&response, 400, &long[..EXCERPT_BYTES_MAX], Reuse::KeepAlive);
    }

    #[test]
    fn an_answer_cut_short_is_an_error() {
        for response in ["", "HTTP/1.1 20", "SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]
        {
            assert!(ResponseHead::read(&mut response.as_bytes(), &mut Vec::new()).is_err(), "{response:?}");
        }
    }

    #[test]
    fn urls_that_lead_nowhere_are_refused_with_what_is_wrong() {
        for (url, words) in [
            ("127.0.0.1:9", "no URL"),
            ("ftp://127.0.0.1/", "only http:// and https:// are spoken"),
            ("https://127.0.0.1/", "give --ca-file"),
        ] {
            let error = Endpoint::resolve(url, None).expect_err("no URL").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
