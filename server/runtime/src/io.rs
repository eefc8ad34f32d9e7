//! A TCP connection as hyper and the rest of the node read and write it.
//!
//! Bytes go straight between the kernel and the caller's buffer: no copy, no allocation, and one
//! system call for each read or (gathered) write that has something to move.
use std::{
    fmt,
    future::poll_fn,
    io,
    io::IoSlice,
    mem::MaybeUninit,
    net::{Shutdown as Direction, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use socket2::Socket;

use super::readiness::{Progress, Watched};

/// What one call may send. The kernel copies it, and on loopback takes it in for the receiver, too, before it
/// comes back: some 30 µs for as much.
const SEND_BYTES_MAX: usize = 64 << 10;

/// A connection of this executor. Dropping it closes it.
pub struct Stream {
    watched: Watched,
    peer: Option<SocketAddr>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("peer", &self.peer).finish()
    }
}

impl Stream {
    /// Takes a connected socket into this executor.
    pub fn new(socket: Socket) -> io::Result<Self> {
        let peer = socket.peer_addr().ok().and_then(|address| address.as_socket());
        Ok(Self { watched: Watched::new(socket, 1)?, peer })
    }

    /// The other end.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Reads into `buffer`, as much as there is; zero at the end of the stream.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len();
        poll_fn(|cx| {
            self.watched.poll_read_with(cx, |mut socket| {
                io::Read::read(&mut socket, buffer).map(|count| (count, progress(count, room)))
            })
        })
        .await
    }

    /// Writes all of `bytes`.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|cx| self.poll_send(cx, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn poll_send(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(SEND_BYTES_MAX)];
        self.watched.poll_write_with(cx, bytes.len(), |socket| {
            socket
                .send_with_flags(bytes, libc::MSG_NOSIGNAL)
                .map(|count| (count, progress(count, bytes.len())))
        })
    }

    fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [MaybeUninit<u8>]) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        self.watched.poll_read_with(cx, |socket| socket.recv(buffer).map(|n| (n, progress(n, room))))
    }
}

fn progress(moved: usize, room: usize) -> Progress {
    if moved < room { Progress::Part } else { Progress::Whole }
}

/// The first of `slices` that one call sends, and their bytes. The first is sent in parts where it alone is longer.
fn sent_at_once<'a, 'b>(slices: &'a [IoSlice<'b>]) -> (&'a [IoSlice<'b>], usize) {
    let mut bytes = 0;
    for (count, slice) in slices.iter().enumerate() {
        if count > 0 && bytes + slice.len() > SEND_BYTES_MAX {
            return (&slices[..count], bytes);
        }
        bytes += slice.len();
    }
    (slices, bytes)
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: nothing in the buffer is made uninitialised: the kernel alone writes to it.
        let unfilled = unsafe { buffer.as_mut() };
        self.poll_recv(cx, unfilled).map_ok(|count| {
            // SAFETY: the kernel has just written that many bytes at its beginning.
            unsafe { buffer.advance(count) }
        })
    }
}

/// Reads into `buffer` and lets `see` look at what came, where it lies.
pub(super) fn poll_read_seen<I: Read + Unpin>(
    io: &mut I,
    cx: &mut Context<'_>,
    mut buffer: ReadBufCursor<'_>,
    see: impl FnOnce(&[u8]),
) -> Poll<io::Result<()>> {
    // SAFETY: nothing in the buffer is made uninitialised: it is only lent on to be read into.
    let mut lent = ReadBuf::uninit(unsafe { buffer.as_mut() });
    ready!(Pin::new(io).poll_read(cx, lent.unfilled()))?;
    let count = lent.filled().len();
    see(lent.filled());
    // SAFETY: that many bytes at its beginning are filled.
    unsafe { buffer.advance(count) };
    Poll::Ready(Ok(()))
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (slices, room) = sent_at_once(slices);
        // A gathered send is the dearer call.
        if let [one] = slices {
            return self.poll_send(cx, one);
        }
        self.watched.poll_write_with(cx, room, |socket| {
            socket
                .send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
                .map(|count| (count, progress(count, room)))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.watched.socket().shutdown(Direction::Write) {
            // The peer was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}
