//! One HTTP/1.0 request to a port of this machine: the answer ends with the connection, so there is
//! no framing to get wrong.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// What came back.
pub(crate) struct Response {
    /// The status.
    pub status: u16,
    /// All header lines.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Gets a path.
pub(crate) fn get(port: u16, path: &str) -> io::Result<Response> {
    request(port, &format!("GET {path} HTTP/1.0\r\n\r\n"), &[])
}

/// Posts a body; `headers` are whole lines, each with its end.
pub(crate) fn post(port: u16, path: &str, headers: &str, body: &[u8]) -> io::Result<Response> {
    request(port, &format!("POST {path} HTTP/1.0\r\n{headers}Content-Length: {}\r\n\r\n", body.len()), body)
}

fn request(port: u16, head: &str, body: &[u8]) -> io::Result<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP response");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(malformed)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
    Ok(Response { status, head, body: answer.split_off(end + 4) })
}

/// A query parameter's value, escaped.
pub(crate) fn escape(value: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    value.bytes().map(escape).collect()
}
