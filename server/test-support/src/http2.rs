//! HTTP/2 byte by byte: what no client library would send.
//!
//! Knows frames and the plainest form of a head, and nothing of what a node answers.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Kind: bytes of a body.
pub const DATA: u8 = 0;
/// Kind: a head.
pub const HEADERS: u8 = 1;
/// Kind: a stream is given up.
pub const RST_STREAM: u8 = 3;
/// Kind: what this end wants of the other.
pub const SETTINGS: u8 = 4;
/// Flag: nothing follows on this stream.
pub const END_STREAM: u8 = 1;
/// Flag: the head is whole.
pub const END_HEADERS: u8 = 4;

/// A connection whose client takes nothing of any answer's body.
#[derive(Debug)]
pub struct Http2(pub TcpStream);

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![high, middle, low, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A field that is spelled out, and kept by no table.
///
/// # Panics
///
/// Where its name or its value has more than 126 bytes.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        let len = u8::try_from(text.len()).expect("a short text");
        assert!(len < 127, "a length of one byte");
        bytes.push(len);
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// A request's head.
pub fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    pseudo.iter().chain(fields).flat_map(|(name, value)| field(name, value)).collect()
}

impl Http2 {
    /// Begins with a window of nothing for each answer.
    ///
    /// # Errors
    ///
    /// Where the connection breaks.
    pub fn begin(mut stream: TcpStream) -> io::Result<Self> {
        const INITIAL_WINDOW_SIZE: u8 = 4;

        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]))?;
        Ok(Self(stream))
    }

    /// Sends frames that are made already.
    ///
    /// # Errors
    ///
    /// Where the connection breaks.
    pub fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.0.write_all(frames)
    }

    /// The kind, the flags and the stream of the next frame, and its payload.
    ///
    /// # Errors
    ///
    /// Where the connection breaks.
    pub fn receive(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        self.0.read_exact(&mut payload)?;
        Ok((kind, flags, u32::from_be_bytes(stream), payload))
    }
}
