//! A connection's socket, encrypted or not: one type, so that a plain one costs no look-up for each read.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::{io::Stream, readiness::Hangup, tls::TlsStream};

/// What is below HTTP.
pub(super) enum Socket {
    Plain(Stream),
    Encrypted(Box<TlsStream<Stream>>),
}

impl Socket {
    /// Whether a handshake comes before anything of HTTP.
    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(stream) => stream.is_handshaking(),
        }
    }

    /// What is known of the connection's end without reading.
    pub(super) fn hangup(&self) -> Hangup {
        match self {
            Self::Plain(stream) => stream.hangup(),
            Self::Encrypted(stream) => stream.get_ref().hangup(),
        }
    }

    /// Ready when the connection has broken, as [`Stream::poll_broken`] says it.
    pub(super) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(stream) => stream.poll_broken(cx),
            Self::Encrypted(stream) => stream.get_ref().poll_broken(cx),
        }
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Encrypted(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
