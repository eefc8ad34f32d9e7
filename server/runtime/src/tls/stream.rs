//! An encrypted connection as hyper reads and writes it.
//!
//! What comes is read into a buffer that all connections of an executor share, decrypted, and copied to its reader; a
//! connection keeps a record that hasn't come whole, and what its reader has no room for. The handshake is part of the
//! first read, so that a client that is slow at it is slow at a request's head.

use std::{
    cell::RefCell,
    io::{self, BufRead, IoSlice, Write as _},
    net::IpAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use rustls::{HandshakeKind, ServerConnection};

use super::{
    Handshakes, SEND_BUFFER_BYTES, TlsConfig,
    handshakes::{HandshakeError, HandshakeLease},
};
use crate::{
    counters,
    peers::{Peer, shown_address},
};

/// What is read of a socket at once.
const READ_BYTES_MAX: usize = 64 << 10;
/// The same at least: a hello has more bytes than the first look at a request.
const READ_BYTES_MIN: usize = 4 << 10;
/// What is decrypted ahead of the reader: rustls takes no more.
const PLAIN_BYTES_MAX: usize = 16 << 10;

/// What a record of a handshake begins with.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What the encrypted connections of an executor share.
pub(crate) struct TlsParts {
    scratch: RefCell<Box<[u8]>>,
    handshakes: Rc<Handshakes>,
}

impl TlsParts {
    pub(crate) fn new(handshakes: Rc<Handshakes>) -> Rc<Self> {
        Rc::new(Self { scratch: RefCell::new(Box::default()), handshakes })
    }
}

/// One connection.
pub(crate) struct TlsStream<I> {
    io: I,
    connection: ServerConnection,
    parts: Rc<TlsParts>,
    /// Its other end's.
    address: Option<IpAddr>,
    handshake: Handshake,
    /// Encrypted, and not decrypted yet.
    left: Vec<u8>,
    /// Nothing more comes.
    has_ended: bool,
    is_closing: bool,
}

/// How far it is.
enum Handshake {
    /// Nothing has come.
    Unbegun,
    InFlight(HandshakeLease),
    Done,
}

impl<I: Read + Write + Unpin> TlsStream<I> {
    pub(crate) fn new(
        io: I,
        address: Option<IpAddr>,
        config: &TlsConfig,
        parts: Rc<TlsParts>,
    ) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config.config.clone()).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(SEND_BUFFER_BYTES));
        let handshake = Handshake::Unbegun;
        let left = Vec::new();
        Ok(Self { io, connection, parts, address, handshake, left, has_ended: false, is_closing: false })
    }

    /// What is below.
    pub(crate) fn get_ref(&self) -> &I {
        &self.io
    }

    /// Whether its handshake isn't through.
    pub(crate) fn is_handshaking(&self) -> bool {
        !matches!(self.handshake, Handshake::Done)
    }

    /// Gives what is decrypted to the reader; how many bytes.
    fn give(&mut self, buffer: &mut ReadBufCursor<'_>) -> io::Result<usize> {
        let mut given = 0;
        let mut reader = self.connection.reader();
        while buffer.remaining() > 0 {
            let count = match reader.fill_buf() {
                // It said so.
                Ok([]) => {
                    self.has_ended = true;
                    break;
                }
                Ok(bytes) => {
                    let count = bytes.len().min(buffer.remaining());
                    buffer.put_slice(&bytes[..count]);
                    count
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // It didn't: HTTP knows by itself whether a request is whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.has_ended = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            reader.consume(count);
            given += count;
        }
        Ok(given)
    }

    /// Decrypts `bytes`, as many as there is room for; the rest is left.
    fn take_in(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes)?;
            let state = self.connection.process_new_packets().map_err(|error| self.fail(cx, error))?;
            if state.plaintext_bytes_to_read() >= PLAIN_BYTES_MAX {
                break;
            }
        }
        self.left = bytes.to_vec();
        self.note_handshake();
        Ok(())
    }

    /// Goes on with what was left.
    fn take_in_left(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let left = std::mem::take(&mut self.left);
        self.take_in(cx, &left)
    }

    /// Tells the client why, as far as its socket takes it now.
    fn fail(&mut self, cx: &mut Context<'_>, error: rustls::Error) -> io::Error {
        if self.connection.is_handshaking() {
            counters::with(|c| c.tls_handshakes_failed += 1);
            silverback_host::warn_limited!(
                peer = shown_address(self.address),
                %error,
                "audit: a TLS handshake failed"
            );
        }
        // The fault that it ends with is the first.
        let _sent = self.poll_send(cx);
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    fn note_handshake(&mut self) {
        if !self.connection.is_handshaking() && !matches!(self.handshake, Handshake::Done) {
            let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
            counters::with(|c| {
                c.tls_handshakes += 1;
                c.tls_handshakes_resumed += u64::from(is_resumed);
            });
            self.handshake = Handshake::Done;
        }
    }

    /// Whether the handshake can begin: half a hello waits outside, and takes nobody's place.
    fn may_begin(&self) -> bool {
        match self.left.as_slice() {
            [HANDSHAKE_RECORD, _, _, high, low, rest @ ..] => {
                let bytes = usize::from(u16::from_be_bytes([*high, *low]));
                rest.len() >= bytes || bytes > PLAIN_BYTES_MAX
            }
            [] | [HANDSHAKE_RECORD, ..] => false,
            // No handshake: rustls says what it is.
            [_, ..] => true,
        }
    }

    /// Ready when something of the handshake has come that may be worked on, or the end.
    fn poll_handshake(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<()>> {
        while let Handshake::Unbegun = self.handshake {
            if self.may_begin() {
                self.handshake = Handshake::InFlight(self.parts.handshakes.ask(Peer::of(self.address)));
            } else {
                ready!(self.poll_more(cx, room))?;
                if self.has_ended {
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let has_expired = match &self.handshake {
            Handshake::InFlight(place) => ready!(place.poll(cx)).err(),
            Handshake::Unbegun | Handshake::Done => None,
        };
        if !self.left.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match (self.poll_more(cx, room)?, has_expired) {
            (Poll::Ready(()), _) => Poll::Ready(Ok(())),
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Pending, Some(HandshakeError)) => {
                counters::with(|c| c.tls_handshakes_evicted += 1);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, HandshakeError)))
            }
        }
    }

    /// Reads what has come of what `room` holds.
    fn poll_more(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<()>> {
        let parts = Rc::clone(&self.parts);
        let mut scratch = parts.scratch.borrow_mut();
        if scratch.is_empty() {
            *scratch = vec![0; READ_BYTES_MAX].into();
        }
        let mut buffer = ReadBuf::new(&mut scratch[..room.clamp(READ_BYTES_MIN, READ_BYTES_MAX)]);
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer.unfilled()))?;
        match buffer.filled() {
            [] => self.has_ended = true,
            bytes if matches!(self.handshake, Handshake::Done) => self.take_in(cx, bytes)?,
            // It may have to wait for its place.
            bytes => self.left.extend_from_slice(bytes),
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is encrypted.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Blocking { io: &mut self.io, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts what `write` hands over, and sends what the socket takes.
    fn poll_encrypt(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let count = write(&mut self.connection.writer())?;
            let sent = self.poll_send(cx)?;
            match (count, sent) {
                // There was no room: now there is.
                (0, Poll::Ready(())) if self.connection.is_handshaking() => {
                    return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                }
                (0, Poll::Ready(())) => {}
                (0, Poll::Pending) => return Poll::Pending,
                (count, Poll::Ready(()) | Poll::Pending) => return Poll::Ready(Ok(count)),
            }
        }
    }
}

impl<I: Read + Write + Unpin> Read for TlsStream<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.give(&mut buffer)? > 0 || this.has_ended || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            match (&this.handshake, this.left.is_empty()) {
                (Handshake::Done, true) => ready!(this.poll_more(cx, buffer.remaining()))?,
                (Handshake::Done, false) => this.take_in_left(cx)?,
                (Handshake::Unbegun | Handshake::InFlight(_), _) => {
                    ready!(this.poll_handshake(cx, buffer.remaining()))?;
                    this.take_in_left(cx)?;
                }
            }
            // Answers of the handshake, tickets, alerts. What the socket doesn't take now goes at the next call.
            let _sent = this.poll_send(cx)?;
        }
    }
}

impl<I: Read + Write + Unpin> Write for TlsStream<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_encrypt(cx, |writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_encrypt(cx, |writer| writer.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_closing, true) {
            this.connection.send_close_notify();
        }
        // A client that has gone needs no word.
        let _told = ready!(this.poll_send(cx));
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

/// The socket as rustls writes to it: what would have to wait is an error of that kind.
struct Blocking<'a, 'c, I> {
    io: &'a mut I,
    cx: &'a mut Context<'c>,
}

impl<I> Blocking<'_, '_, I> {
    fn now(polled: Poll<io::Result<usize>>) -> io::Result<usize> {
        match polled {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<I: Write + Unpin> io::Write for Blocking<'_, '_, I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.io).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.io).poll_write_vectored(self.cx, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
