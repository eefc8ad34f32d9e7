//! A client that knows just enough HTTP/1.1 to ask a node.
//!
//! Knows nothing of what is asked: bodies are bytes.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;

/// An answer, read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
    /// Whether the connection broke before the body's end.
    pub is_cut: bool,
}

impl Answer {
    /// A header's value; empty where it isn't there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// The body as text.
    ///
    /// # Panics
    ///
    /// Where it is none.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is text")
    }

    /// The body as JSON.
    ///
    /// # Panics
    ///
    /// Where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A connection that stays open from one request to the next.
#[derive(Debug)]
pub struct Kept(pub BufReader<TcpStream>);

impl Kept {
    /// The answer to a request on it.
    ///
    /// # Panics
    ///
    /// Where the connection breaks before an answer has begun.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.0.get_mut().write_all(&request(method, path, headers, body)).expect("a connection");
        read_answer(&mut self.0)
    }
}

/// A request's bytes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    [head(method, path, headers, body.len()).as_bytes(), body].concat()
}

/// The head of a request whose body has `length` bytes.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    head + "\r\n"
}

/// Sends a request that asks for the connection to be closed afterwards.
pub fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
    let headers = [headers, &[("connection", "close")]].concat();
    // A node that ends meanwhile, or refuses a request before it has its body, closes the connection; the answer
    // tells.
    drop(stream.write_all(head(method, path, &headers, body.len()).as_bytes()));
    drop(stream.write_all(body));
}

/// Reads an answer to its end.
///
/// # Panics
///
/// Where the connection breaks before it has begun.
pub fn read_answer(stream: &mut impl BufRead) -> Answer {
    try_read_answer(stream).expect("an answer has a head")
}

/// Reads an answer of a node that may end before it has sent its head.
///
/// # Errors
///
/// Where it ends there, or what came is no head.
pub fn try_read_answer(stream: &mut impl BufRead) -> io::Result<Answer> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).map(|_| line.trim_end().to_owned())
    };
    let status_line = line()?;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {status_line:?}")))?;
    let headers = std::iter::from_fn(|| line().map(|line| Some(line).filter(|l| !l.is_empty())).transpose());
    let headers: Vec<String> = headers.collect::<io::Result<_>>()?;
    let headers = headers.iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut answer = Answer { status, headers, body: Vec::new(), is_cut: false };
    let length = answer.header("content-length").parse().ok().or((status == 204).then_some(0));
    answer.is_cut = match (answer.header("transfer-encoding"), length) {
        ("chunked", _) => read_chunks(stream, &mut answer.body).is_none(),
        (_, Some(length)) => {
            answer.body.resize(length, 0);
            stream.read_exact(&mut answer.body).is_err()
        }
        (_, None) => stream.read_to_end(&mut answer.body).is_err(),
    };
    Ok(answer)
}

/// `None`: the stream ended before its last chunk.
fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
        let begins = body.len();
        body.resize(begins + size, 0);
        stream.read_exact(&mut body[begins..]).ok()?;
        stream.read_exact(&mut [0; 2]).ok()?;
        if size == 0 {
            return Some(());
        }
    }
}
