//! The time limits of connections: one task looks at all of an executor's connections a few times a second.
//!
//! A connection notes what it does in plain cells, by the number of the last look; so a request arms
//! no timer and reads no clock for its limits.
use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::{HttpLimits, stream_watch::StreamWatch};
use crate::runtime::{counters, shutdown::Shutdown, tasks::spawn_essential, timers::sleep};

/// Looks in the shortest of the limits; a limit is kept to within one of them.
const LOOKS_A_LIMIT: u32 = 8;
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(10);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// Why a connection was closed from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Header,
    Idle,
    Stall,
}

impl Expiry {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Header => "a request's head took too long",
            Self::Idle => "no request came",
            Self::Stall => "a request stood still",
        }
    }
}

/// Where a connection is, and since which look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for the first byte of a request.
    Idle { since: u64 },
    /// Reading a request's head.
    Head { since: u64 },
    /// At least one request is under way; the last byte moved then.
    Busy { moved: u64 },
}

/// Limits in looks.
#[derive(Debug, Clone, Copy)]
struct Looks {
    header: u64,
    idle: u64,
    stall: u64,
}

/// All connections of one executor.
pub(super) struct Watches {
    look: Cell<u64>,
    limits: Looks,
    connections: RefCell<Vec<Rc<Watch>>>,
    /// HTTP/2 streams of all connections.
    streams: RefCell<Vec<Rc<StreamWatch>>>,
    closing: Cell<bool>,
}

impl Watches {
    /// Starts the task that looks; it ends some time after the last owner is gone.
    pub(super) fn start(limits: &HttpLimits, shutdown: Shutdown) -> Rc<Self> {
        let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.stall_timeout);
        let interval = (shortest / LOOKS_A_LIMIT).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL_MAX);
        let looks = |limit: Duration| (limit.as_micros().div_ceil(interval.as_micros()) as u64).max(1);
        let watches = Rc::new(Self {
            look: Cell::new(0),
            limits: Looks {
                header: looks(limits.header_timeout),
                idle: looks(limits.idle_timeout),
                stall: looks(limits.stall_timeout),
            },
            connections: RefCell::default(),
            streams: RefCell::default(),
            closing: Cell::new(shutdown.is_requested()),
        });
        spawn_essential(look_again_and_again(Rc::downgrade(&watches), interval, shutdown));
        watches
    }

    pub(super) fn add(self: &Rc<Self>) -> Rc<Watch> {
        let watch = Rc::new(Watch {
            watches: self.clone(),
            // A connection is made to send a request: its first head is on its way.
            phase: Cell::new(Phase::Head { since: self.look.get() }),
            protocol: Cell::new(Protocol::Http1),
            is_leaving: Cell::new(false),
            in_flight: Cell::new(0),
            begun: Cell::new(0),
            expired: Cell::new(None),
            waker: RefCell::new(None),
        });
        self.connections.borrow_mut().push(watch.clone());
        watch
    }

    fn look(&self) {
        let look = self.look.get() + 1;
        self.look.set(look);
        self.connections.borrow_mut().retain(|watch| {
            let alive = Rc::strong_count(watch) > 1;
            if alive && let Some(expiry) = watch.expiry_at(look, self.limits) {
                watch.expire(expiry);
            }
            alive
        });
        self.streams.borrow_mut().retain(|stream| {
            let alive = Rc::strong_count(stream) > 1;
            if alive {
                stream.look(look, self.limits.stall);
            }
            alive
        });
    }

    fn close_all(&self) {
        self.closing.set(true);
        for watch in self.connections.borrow().iter() {
            watch.wake();
        }
    }
}

async fn look_again_and_again(watches: Weak<Watches>, interval: Duration, shutdown: Shutdown) {
    let mut requested = pin!(shutdown.requested());
    let mut was_requested = false;
    loop {
        let mut pause = pin!(sleep(interval));
        let ended = poll_fn(|cx| {
            if !was_requested && requested.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            pause.as_mut().poll(cx).map(|()| false)
        })
        .await;
        let Some(watches) = watches.upgrade() else { return };
        if ended {
            was_requested = true;
            watches.close_all();
        } else {
            watches.look();
        }
    }
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    /// Its frames (pings, settings) come between requests too, so bytes alone begin no head.
    Http2,
}

/// What is noted of one connection.
pub(super) struct Watch {
    watches: Rc<Watches>,
    phase: Cell<Phase>,
    protocol: Cell<Protocol>,
    /// It closes once what is under way is answered.
    is_leaving: Cell<bool>,
    in_flight: Cell<u32>,
    begun: Cell<u64>,
    expired: Cell<Option<Expiry>>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Whether a limit has passed; the connection's task is woken when one does.
    pub(super) fn poll_expired(&self, cx: &Context<'_>) -> Option<Expiry> {
        let mut waker = self.waker.borrow_mut();
        match &*waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(_) | None => *waker = Some(cx.waker().clone()),
        }
        self.expired.get()
    }

    /// Whether it takes no more requests: the notice to end was given, or none came for too long.
    pub(super) fn is_to_close(&self) -> bool {
        self.watches.closing.get() || self.is_leaving.get()
    }

    fn expire(&self, expiry: Expiry) {
        match (expiry, self.protocol.get()) {
            // HTTP/2 can say that it closes: a request that is on its way then is answered, or the client
            // knows that it wasn't looked at.
            (Expiry::Idle, Protocol::Http2) => {
                if !self.is_leaving.replace(true) {
                    counters::with(|c| c.connections_timed_out.add_one());
                }
            }
            (Expiry::Header | Expiry::Idle | Expiry::Stall, Protocol::Http1 | Protocol::Http2) => {
                self.expired.set(Some(expiry));
            }
        }
        self.wake();
    }

    /// Requests so far.
    pub(super) fn requests_begun(&self) -> u64 {
        self.begun.get()
    }

    pub(super) fn request_begins(&self) {
        self.begun.set(self.begun.get() + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        self.phase.set(Phase::Busy { moved: self.now() });
    }

    pub(super) fn request_ends(&self) {
        let left = self.in_flight.get() - 1;
        self.in_flight.set(left);
        if left == 0 {
            self.phase.set(Phase::Idle { since: self.now() });
        }
    }

    /// Watches one of the connection's streams, too.
    pub(super) fn add_stream(&self) -> Rc<StreamWatch> {
        let stream = Rc::new(StreamWatch::default());
        self.watches.streams.borrow_mut().push(stream.clone());
        stream
    }

    /// The number of the last look.
    pub(super) fn now(&self) -> u64 {
        self.watches.look.get()
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Says what the connection turned out to speak.
    pub(super) fn speaks(&self, protocol: Protocol) {
        self.protocol.set(protocol);
        if protocol == Protocol::Http2 {
            // The preface stands for a head: a channel may be opened long before its first call.
            self.phase.set(Phase::Idle { since: self.now() });
        }
    }

    fn bytes_read(&self) {
        match (self.phase.get(), self.protocol.get()) {
            (Phase::Idle { .. }, Protocol::Http1) => self.phase.set(Phase::Head { since: self.now() }),
            // Pings and their answers: they come for as long as both sides are there.
            (Phase::Idle { .. }, Protocol::Http2) => {}
            (Phase::Head { .. }, Protocol::Http1 | Protocol::Http2) => {}
            (Phase::Busy { .. }, Protocol::Http1 | Protocol::Http2) => {
                self.phase.set(Phase::Busy { moved: self.now() });
            }
        }
    }

    fn bytes_written(&self) {
        if let Phase::Busy { .. } = self.phase.get() {
            self.phase.set(Phase::Busy { moved: self.now() });
        }
    }

    fn expiry_at(&self, look: u64, limits: Looks) -> Option<Expiry> {
        // The look that is under way when something begins doesn't count.
        let passed = |since: u64, limit: u64| look.saturating_sub(since) > limit;
        match self.phase.get() {
            Phase::Head { since } if passed(since, limits.header) => Some(Expiry::Header),
            Phase::Idle { since } if passed(since, limits.idle) => Some(Expiry::Idle),
            Phase::Busy { moved } if passed(moved, limits.stall) => Some(Expiry::Stall),
            Phase::Head { .. } | Phase::Idle { .. } | Phase::Busy { .. } => None,
        }
    }
}

/// A connection whose bytes are noted, and whose first bytes may be looked at before they are read.
pub(super) struct WatchedIo<I> {
    io: I,
    watch: Rc<Watch>,
    /// Looked at, to be read again.
    looked_at: Vec<u8>,
}

/// What an HTTP/2 connection begins with.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl<I: Read + Unpin> WatchedIo<I> {
    pub(super) fn new(io: I, watch: Rc<Watch>) -> Self {
        Self { io, watch, looked_at: Vec::new() }
    }

    /// Looks at the connection's first bytes until they tell what it speaks.
    pub(super) fn poll_protocol(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Protocol>> {
        let mut bytes = [MaybeUninit::uninit(); H2_PREFACE.len()];
        while self.looked_at.len() < H2_PREFACE.len() {
            let mut buffer = ReadBuf::uninit(&mut bytes[self.looked_at.len()..]);
            ready!(Pin::new(&mut self.io).poll_read(cx, buffer.unfilled()))?;
            let is_end = buffer.filled().is_empty();
            self.looked_at.extend_from_slice(buffer.filled());
            if is_end || !H2_PREFACE.starts_with(&self.looked_at) {
                return Poll::Ready(Ok(Protocol::Http1));
            }
        }
        Poll::Ready(Ok(Protocol::Http2))
    }
}

impl<I: Read + Unpin> Read for WatchedIo<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.looked_at.is_empty() {
            let count = this.looked_at.len().min(buffer.remaining());
            buffer.put_slice(&this.looked_at[..count]);
            this.looked_at.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut this.io).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = polled {
            this.watch.bytes_read();
        }
        polled
    }
}

impl<I: Write + Unpin> Write for WatchedIo<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.note_written(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write_vectored(cx, slices);
        this.note_written(polled)
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

impl<I> WatchedIo<I> {
    fn note_written(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(1..)) = &polled {
            self.watch.bytes_written();
        }
        polled
    }
}
