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

use super::readiness::{Hangup, IoProgress, Watched};

/// What one call may send. The kernel copies it, and on loopback takes it in for the receiver, too, before it
/// comes back: some 30 µs for as much.
const SEND_BYTES_MAX: usize = 64 << 10;

/// What is worth a call of its own: with that in hand, a slice that is too long for the rest waits for the next call.
const SEND_BYTES_ENOUGH: usize = SEND_BYTES_MAX / 2;

/// Slices before one that is sent in part; hyper gives no more at once.
const SLICES_BEFORE_PART: usize = 63;

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

    /// Ready when the connection has broken: by a reset, or by an end of both sides. That the other side alone sends
    /// no more is neither.
    pub(crate) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        self.watched.poll_broken(cx)
    }

    /// What is known of its end without reading.
    pub(crate) fn hangup(&self) -> Hangup {
        self.watched.hangup()
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

fn progress(moved: usize, room: usize) -> IoProgress {
    if moved < room { IoProgress::Part } else { IoProgress::Whole }
}

/// Calls `send` with what one call sends of `slices`, and its bytes: the first slices, and of one that doesn't fit the
/// first part, so that a head isn't sent without what follows it.
fn with_sent_at_once<R>(slices: &[IoSlice<'_>], send: impl FnOnce(&[IoSlice<'_>], usize) -> R) -> R {
    let empty = slices.iter().take_while(|slice| slice.is_empty()).count();
    let slices = &slices[empty..];
    let (whole, bytes) = whole_at_once(slices);
    match slices.get(whole) {
        Some(longer) if bytes < SEND_BYTES_ENOUGH && whole <= SLICES_BEFORE_PART => {
            let mut sent = [IoSlice::new(&[]); SLICES_BEFORE_PART + 1];
            sent[..whole].copy_from_slice(&slices[..whole]);
            sent[whole] = IoSlice::new(&longer[..SEND_BYTES_MAX - bytes]);
            send(&sent[..=whole], SEND_BYTES_MAX)
        }
        _enough => send(&slices[..whole], bytes),
    }
}

/// How many of `slices` one call sends whole, and their bytes.
fn whole_at_once(slices: &[IoSlice<'_>]) -> (usize, usize) {
    let mut bytes = 0;
    for (count, slice) in slices.iter().enumerate() {
        if bytes + slice.len() > SEND_BYTES_MAX {
            return (count, bytes);
        }
        bytes += slice.len();
    }
    (slices.len(), bytes)
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

/// What becomes of bytes that were looked at where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeenBytes {
    /// They count as read.
    Passed,
    /// Whoever looked has them, and they count as not read.
    Kept,
}

/// Reads into `buffer` and lets `see` look at what came, where it is. It decides whether it counts.
pub(super) fn poll_read_seen<I: Read + Unpin>(
    io: &mut I,
    cx: &mut Context<'_>,
    buffer: &mut ReadBufCursor<'_>,
    see: impl FnOnce(&[u8]) -> SeenBytes,
) -> Poll<io::Result<()>> {
    // SAFETY: nothing in the buffer is made uninitialised: it is only lent on to be read into.
    let mut lent = ReadBuf::uninit(unsafe { buffer.as_mut() });
    ready!(Pin::new(io).poll_read(cx, lent.unfilled()))?;
    let count = lent.filled().len();
    match see(lent.filled()) {
        // SAFETY: that many bytes at its beginning are filled.
        SeenBytes::Passed => unsafe { buffer.advance(count) },
        SeenBytes::Kept => {}
    }
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
        with_sent_at_once(slices, |slices, room| {
            // A gathered send is the more expensive call.
            if let [one] = slices {
                return self.poll_send(cx, one);
            }
            self.watched.poll_write_with(cx, room, |socket| {
                socket
                    .send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
                    .map(|count| (count, progress(count, room)))
            })
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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use socket2::{Domain, Type};

    use super::*;
    use crate::{Executor, Options, Shutdown, cpus::affinity_mask, spawn};

    /// Runs it on an executor.
    fn on_executor<R, Fut>(start: fn() -> Fut) -> R
    where
        R: Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let cpus: Vec<_> = affinity_mask().unwrap().into_iter().take(1).collect();
        let options = Options { io_memory_bytes: 64 << 10, ..Options::on_cpus(cpus) };
        crate::run(&options, &Shutdown::new(), move |_: Executor<()>| start()).unwrap().remove(0)
    }

    /// A stream, and the other end of its socket.
    fn pair(kind: Type) -> (Stream, Socket) {
        let (own, peer) = Socket::pair(Domain::UNIX, kind, None).unwrap();
        peer.set_nonblocking(true).unwrap();
        (Stream::new(own).unwrap(), peer)
    }

    fn received(peer: &Socket, buffer: &mut [u8]) -> Option<usize> {
        io::Read::read(&mut &*peer, buffer).ok()
    }

    /// The sizes of the sends that slices of these lengths are written with, each of which is a message of its own on
    /// this kind of socket. All bytes must come as they were.
    async fn sends(lengths: &[usize]) -> Vec<usize> {
        let (mut stream, peer) = pair(Type::SEQPACKET);
        let all: Vec<u8> = (0..lengths.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
        let (mut sent, mut came, mut buffer) = (0, Vec::new(), vec![0; 2 * SEND_BYTES_MAX]);
        let mut sizes = Vec::new();
        while sent < all.len() {
            let (mut from, mut slices) = (0, Vec::new());
            for len in lengths {
                let to = from + len;
                slices.push(IoSlice::new(&all[from.max(sent).min(to)..to]));
                from = to;
            }
            sent += poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await.unwrap();
            while let Some(count) = received(&peer, &mut buffer) {
                came.extend_from_slice(&buffer[..count]);
                sizes.push(count);
            }
        }
        assert!(came == all, "other bytes came");
        sizes
    }

    const KIB: usize = 1 << 10;

    #[test]
    fn a_head_is_sent_together_with_the_long_body_that_follows_it() {
        let sizes = on_executor(|| async { [sends(&[200, 100 * KIB]).await, sends(&[0, 100 * KIB]).await] });
        assert_eq!(sizes[0], [64 * KIB, 36 * KIB + 200]);
        assert_eq!(sizes[1], [64 * KIB, 36 * KIB]);
    }

    #[test]
    fn what_one_send_takes_is_bounded_and_a_slice_is_cut_only_where_little_comes_before_it() {
        let sizes = on_executor(|| async {
            let many = [&[KIB; 64][..], &[100 * KIB]].concat();
            let mut small = vec![1; 64];
            small.push(100 * KIB);
            [
                sends(&[30, 40]).await,
                sends(&[64 * KIB, 64 * KIB]).await,
                sends(&[40 * KIB, 40 * KIB]).await,
                sends(&[200 * KIB]).await,
                sends(&many).await,
                sends(&small).await,
            ]
        });
        assert_eq!(sizes[0], [70]);
        assert_eq!(sizes[1], [64 * KIB; 2]);
        assert_eq!(sizes[2], [40 * KIB; 2]);
        assert_eq!(sizes[3], [64 * KIB, 64 * KIB, 64 * KIB, 8 * KIB]);
        assert_eq!(sizes[4], [64 * KIB, 64 * KIB, 36 * KIB]);
        assert_eq!(sizes[5], [64, 64 * KIB, 36 * KIB], "more slices than are looked at");
    }

    /// Sockets that always have more to read.
    const READERS: usize = 400;
    /// What a read is followed by.
    const WORK: std::time::Duration = std::time::Duration::from_micros(50);

    /// How many reads come between the moment at which a full socket has room and the end of a write of `bytes` to it.
    async fn reads_before_write(bytes: usize) -> usize {
        let (reads, is_over) = (Rc::<Cell<usize>>::default(), Rc::<Cell<bool>>::default());
        for _ in 0..READERS {
            let (reads, is_over) = (Rc::clone(&reads), Rc::clone(&is_over));
            spawn(async move {
                let (stream, peer) = pair(Type::STREAM);
                while !is_over.get() {
                    io::Write::write_all(&mut &peer, &[0; 64]).unwrap();
                    stream.read(&mut [0; 16]).await.unwrap();
                    reads.set(reads.get() + 1);
                    let until = crate::now() + WORK;
                    while crate::now() < until {}
                }
            });
        }
        let (stream, peer) = pair(Type::STREAM);
        // Until it is full.
        while io::Write::write(&mut stream.watched.socket(), &[0; 4 * KIB]).is_ok() {}
        let written = Rc::<Cell<Option<usize>>>::default();
        spawn({
            let (reads, written) = (Rc::clone(&reads), Rc::clone(&written));
            async move {
                stream.write_all(&vec![0; bytes]).await.unwrap();
                written.set(Some(reads.get()));
            }
        });
        while reads.get() < 3 * READERS {
            crate::reactor_polled().await;
        }
        assert_eq!(written.get(), None, "the socket isn't full");
        let mut buffer = vec![0; 64 * KIB];
        while received(&peer, &mut buffer).is_some() {}
        let began = reads.get();
        let ended = loop {
            if let Some(reads) = written.get() {
                break reads;
            }
            crate::reactor_polled().await;
        };
        is_over.set(true);
        ended - began
    }

    #[test]
    fn a_short_answer_that_found_its_socket_full_does_not_wait_behind_reads() {
        let [short, long] =
            on_executor(|| async { [reads_before_write(100).await, reads_before_write(20 * KIB).await] });
        assert!(short < READERS / 4, "{short} reads come before a short answer");
        assert!(long > READERS / 2, "{long} reads come before a long answer");
    }
}
