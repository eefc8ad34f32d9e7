//! A connection as hyper reads and writes it: its bytes are noted with its watch, and looked at for what hyper
//! doesn't report.
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::{
    Http2,
    crowd::UnfinishedHandshake,
    frames::FrameAccount,
    leases::Leaves,
    messages::HttpMessages,
    socket::Socket,
    targets::{self, LinePosition},
    watch::{HttpProtocol, Watch},
    window::ConnectionWindow,
};
use crate::io::{SeenBytes, poll_read_seen};

/// A connection whose bytes are noted, and whose first bytes may be looked at before they are read.
pub(super) struct WatchedIo {
    io: Socket,
    watch: Rc<Watch>,
    handshake: Option<UnfinishedHandshake>,
    /// Looked at, to be read again.
    looked_at: Vec<u8>,
    /// Where it speaks HTTP/2.
    frames: Option<Frames>,
    /// Where it speaks HTTP/1.
    messages: HttpMessages,
    /// A chunk claims more than a body may have: nothing more is read.
    claims_too_much: bool,
    /// Its client ended its sending side.
    has_ended: bool,
    http2: Http2,
}

/// What is known of a connection by its frames.
struct Frames {
    account: FrameAccount,
    window: ConnectionWindow,
    /// The look up to which time has paid into the account.
    look: u64,
}

/// What an HTTP/2 connection begins with.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl WatchedIo {
    pub(super) fn new(
        io: Socket,
        handshake: Option<UnfinishedHandshake>,
        http2: Http2,
        watch: Rc<Watch>,
    ) -> Self {
        let messages = HttpMessages::new(watch.chunk_bytes_max());
        Self {
            io,
            watch,
            handshake,
            looked_at: Vec::new(),
            frames: None,
            messages,
            claims_too_much: false,
            has_ended: false,
            http2,
        }
    }

    /// Looks at the connection's first bytes until they show what it speaks.
    pub(super) fn poll_protocol(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<HttpProtocol>> {
        let mut bytes = [MaybeUninit::uninit(); H2_PREFACE.len()];
        while self.looked_at.len() < H2_PREFACE.len() {
            let mut buffer = ReadBuf::uninit(&mut bytes[self.looked_at.len()..]);
            let polled = Pin::new(&mut self.io).poll_read(cx, buffer.unfilled());
            if self.handshake.is_some() && !self.io.is_handshaking() {
                self.handshake = None;
            }
            ready!(polled)?;
            let is_end = buffer.filled().is_empty();
            self.looked_at.extend_from_slice(buffer.filled());
            // Whoever speaks it all the same gets HTTP/1's answer that this isn't a request.
            if self.http2 == Http2::Refused || is_end || !H2_PREFACE.starts_with(&self.looked_at) {
                let growth_max = self.watch.line_growth_max();
                if let Some(encoded) = targets::encoded(&self.looked_at, LinePosition::BeforeLine, growth_max)
                {
                    self.looked_at = encoded;
                }
                return Poll::Ready(Ok(HttpProtocol::Http1));
            }
        }
        self.frames = Some(Frames {
            account: FrameAccount::default(),
            window: ConnectionWindow::new(self.watch.window_bytes()),
            look: self.watch.now(),
        });
        Poll::Ready(Ok(HttpProtocol::Http2))
    }
}

impl Read for WatchedIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.looked_at.is_empty() {
            this.read_again(&mut buffer);
            return Poll::Ready(Ok(()));
        }
        if this.claims_too_much {
            return Poll::Ready(Err(io::Error::other("a chunk claims more bytes than a body may have")));
        }
        if this.has_ended {
            return this.poll_end(cx);
        }
        if !this.watch.may_read() {
            // The connection's task has left its waker with the watch.
            return Poll::Pending;
        }
        match this.frames.is_some() {
            true => this.poll_frames(cx, buffer),
            false => this.poll_requests(cx, buffer),
        }
    }
}

impl WatchedIo {
    /// Gives out what was looked at before.
    fn read_again(&mut self, buffer: &mut ReadBufCursor<'_>) {
        let count = self.looked_at.len().min(buffer.remaining());
        buffer.put_slice(&self.looked_at[..count]);
        if self.frames.is_none() {
            self.claims_too_much = self.messages.read(&self.looked_at[..count]);
            self.watch.unread_end.came_whole(self.messages.ended());
        }
        // What is left may be here for long, and is no more than a line has grown by.
        self.looked_at = self.looked_at.split_off(count);
    }

    fn poll_frames(&mut self, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let polled = poll_read_seen(&mut self.io, cx, &mut buffer, |bytes| {
            if let Some(frames) = &mut self.frames {
                frames.read(bytes, &self.watch);
            }
            SeenBytes::Passed
        });
        match polled {
            Poll::Ready(Ok(())) => self.watch.bytes_read(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.watch.is_drained(self.frames.as_ref().map_or(Leaves::Nothing, Frames::leaves));
            }
        }
        polled
    }

    fn poll_requests(&mut self, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let before = buffer.remaining();
        let Self { io, watch, looked_at, messages, claims_too_much, .. } = self;
        let polled = poll_read_seen(io, cx, &mut buffer, |bytes| {
            // Where a request is in flight its body may come: no byte of that is touched.
            if watch.is_between_requests()
                && let Some(place) = messages.first_line()
                && let Some(encoded) = targets::encoded(bytes, place, watch.line_growth_max())
            {
                *looked_at = encoded;
                return SeenBytes::Kept;
            }
            // What came before the claim is a request's: it is passed on.
            *claims_too_much = messages.read(bytes);
            watch.unread_end.came_whole(messages.ended());
            SeenBytes::Passed
        });
        match polled {
            Poll::Ready(Ok(())) if !self.looked_at.is_empty() => self.read_again(&mut buffer),
            Poll::Ready(Ok(())) if buffer.remaining() == before => {
                self.has_ended = true;
                return self.poll_end(cx);
            }
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return polled,
            Poll::Pending => {
                self.watch.is_drained(Leaves::Nothing);
                return polled;
            }
        }
        self.watch.bytes_read();
        polled
    }

    /// The client has ended its sending side. As long as the answer to a request that came whole may be waited for,
    /// that is kept from hyper, which would drop the request; a connection that has broken isn't.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.io.poll_broken(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.watch.is_writing.get() || (self.messages.is_between_bodies() && self.watch.is_ended()) {
            self.watch.is_drained(Leaves::Nothing);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for WatchedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.note_written(polled, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write_vectored(cx, slices);
        this.note_written(polled, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

impl WatchedIo {
    fn note_written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watch.is_writing.set(polled.is_pending());
        if let Poll::Ready(Ok(count @ 1..)) = &polled {
            self.watch.bytes_written();
            if self.has_ended && self.watch.is_between_requests() {
                // It may have been all, and then the end is to be read.
                self.watch.wake();
            }
            if let Some(frames) = &mut self.frames {
                frames.written(*count, slices, &self.watch);
            }
        }
        polled
    }
}

impl Frames {
    fn read(&mut self, bytes: &[u8], watch: &Watch) {
        let looks = watch.now() - std::mem::replace(&mut self.look, watch.now());
        let credit = i64::try_from(looks).unwrap_or(i64::MAX).saturating_mul(watch.look_credit());
        self.account.add(credit);
        watch.account(self.account.read(bytes));
    }

    fn leaves(&self) -> Leaves {
        match self.window.holds_unread(self.account.data_bytes()) {
            true => Leaves::Unread,
            false => Leaves::Nothing,
        }
    }

    fn written(&mut self, count: usize, slices: &[IoSlice<'_>], watch: &Watch) {
        self.account.add(i64::try_from(count).unwrap_or(i64::MAX));
        let (mut left, mut is_granted) = (count, false);
        for slice in slices {
            let bytes = &slice[..slice.len().min(left)];
            is_granted |= self.window.written(bytes);
            left -= bytes.len();
        }
        if is_granted {
            watch.is_taken(self.leaves());
        }
    }
}
