//! One question over HTTP and its whole answer, on a connection of its own. It knows no server.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use silverback_load::wire::{Tls, Wire};

/// How long an answer may stand still.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Asks for a path; encrypted where it is said whom to believe.
pub fn get(address: SocketAddr, ca_file: Option<&Path>, path: &str) -> io::Result<Answer> {
    let tls = ca_file.map(|file| Tls::trusting(file, &address.ip().to_string())).transpose()?;
    ask(address, tls.as_ref(), &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"), &[])
}

/// Sends a body, compressed by snappy, to a path.
pub fn post_snappy(address: SocketAddr, path: &str, body: &[u8]) -> io::Result<Answer> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Encoding: snappy\r\nX-Prometheus-Remote-Read-Version: 0.1.0\r\nContent-Length: {length}\r\n\r\n"
    );
    ask(address, None, &head, body)
}

/// By HTTP/1.0: the body ends where the connection does, whatever its length.
fn ask(address: SocketAddr, tls: Option<&Tls>, head: &str, body: &[u8]) -> io::Result<Answer> {
    let mut stream = Wire::connect(address, tls, TIMEOUT)?;
    stream.write_all(&[head.as_bytes(), body].concat())?;
    stream.flush()?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    parse(&all).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an answer of HTTP"))
}

fn parse(all: &[u8]) -> Option<Answer> {
    let end = all.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&all[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: all[end + 4..].to_vec() })
}

/// The sum of a family in Prometheus' text format; nothing where it isn't there.
pub fn sum_of(metrics: &str, family: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(family).filter(|rest| rest.starts_with([' ', '{']))?;
        // Labels may hold spaces; the value is after them.
        let value = rest.rsplit_once('}').map_or(rest, |(_, value)| value);
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

/// Bytes as a part of a query.
pub fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_summed_over_its_labels_and_no_other_is() {
        let text = "# TYPE a counter\na{x=\"1 2\"} 3\na{x=\"}\"} 4e1\nab 5\na_total 6\nb 7\n";
        assert_eq!(sum_of(text, "a"), Some(43.0));
        assert_eq!(sum_of(text, "b"), Some(7.0));
        assert_eq!(sum_of(text, "c"), None);
    }

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        let answer = parse(b"HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nno\r\n\r\n").expect("an answer");
        assert_eq!(answer, Answer { status: 404, body: b"no\r\n\r\n".to_vec() });
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\n"), None);
    }

    #[test]
    fn a_selector_is_escaped() {
        assert_eq!(escaped("{a=~\"b|c\"}"), "%7Ba%3D~%22b%7Cc%22%7D".replace('~', "%7E"));
    }
}
