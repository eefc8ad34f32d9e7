//! Which sockets of this executor can be read and written.
//!
//! glommio watches each socket with a ring entry for each wait, and each round of its reactor costs
//! several system calls. Here the sockets are in one epoll set, edge-triggered and added once; the
//! ring watches that set's descriptor alone, and one task looks through it a few times for each round
//! of the reactor. A request then costs what it costs on a plain epoll loop.
//!
//! Reading takes turns with the reactor, and the sockets with each other: [`turns`](super::turns). So does sending
//! what is long.
use std::{
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, FromRawFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use futures::AsyncRead;
use glommio::net::TcpStream;
use silverback_host::waiters::KeptWaker;

use super::{
    epoll::{Epoll, ReadyEvent},
    tasks,
    timers::{reactor_polled, requeue},
    turns::{Slot, Turns},
};

/// Events taken at once.
const EVENTS: usize = 256;

/// What is sent without a turn: it costs little more than the call, and a write's answer doesn't wait behind reads, not
/// even where it found its socket full.
const SHORT_SEND_BYTES: usize = 8 << 10;

thread_local! {
    static READINESS: OnceCell<Rc<Readiness>> = const { OnceCell::new() };
}

/// Makes this executor's set and starts its task.
///
/// # Panics
/// If the set can't be made: without it the executor serves nobody.
pub(super) fn install() {
    let epoll = Epoll::new().expect("an executor needs an epoll set");
    let readiness = Rc::new(Readiness {
        epoll,
        watched: RefCell::default(),
        turns: Turns::default(),
        events: RefCell::new(vec![ReadyEvent::NONE; EVENTS]),
    });
    let installed = READINESS.with(|cell| cell.set(readiness.clone()).is_ok());
    assert!(installed, "one executor a thread, started once");
    let line = readiness.clone();
    tasks::spawn_essential(async move { line.serve_line_for_ever().await });
    tasks::spawn_essential(async move { readiness.dispatch_for_ever().await });
}

/// Whether sockets had more to read than there was time for in their last turn.
pub(super) fn is_behind() -> bool {
    READINESS.with(|cell| cell.get().is_some_and(|readiness| readiness.turns.is_behind()))
}

fn installed() -> Rc<Readiness> {
    READINESS.with(|cell| cell.get().expect("called on an executor").clone())
}

/// The place in line of one that has work at hand without reading: a connection with many requests, or many
/// pieces of one, in its buffer.
pub(super) struct WorkPlace {
    place: Rc<Slot>,
    readiness: Rc<Readiness>,
}

impl WorkPlace {
    /// On this executor.
    pub(super) fn new() -> Self {
        Self { place: Rc::default(), readiness: installed() }
    }

    /// Ready when its turn has come.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.readiness.turns.poll(&self.place, cx)
    }
}

impl Drop for WorkPlace {
    fn drop(&mut self) {
        self.place.leave();
    }
}

struct Readiness {
    epoll: Epoll,
    watched: RefCell<Slots>,
    turns: Turns,
    events: RefCell<Vec<ReadyEvent>>,
}

/// The watched sockets by key: a place, which is used again, and its generation. So no event of a socket that was there before
/// ends another's connection.
#[derive(Default)]
struct Slots {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    interest: Option<Rc<Interest>>,
    generation: u32,
}

/// What events of a socket are known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    const fn of(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }

    const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }
}

/// What is known of one socket. A direction counts as ready until an attempt shows that it isn't.
struct Interest {
    read_ready: Cell<bool>,
    /// Who waits to read waits here, for bytes and then for its turn.
    reader: Rc<Slot>,
    write_ready: Cell<bool>,
    /// Who waits to write: for the kernel's room, and then for its turn where it sends what is long.
    writer: Rc<Slot>,
    /// Whether it does.
    is_long_write: Cell<bool>,
    ended: Cell<bool>,
    broken: Cell<bool>,
    /// Who wants to know that it has broken, also where nobody reads.
    hangup: KeptWaker,
}

/// What is known of the end of a socket's connection without reading it: bytes may lie before it.
pub(super) struct Hangup(Rc<Interest>);

impl Hangup {
    /// Whether the other side has ended its sending.
    pub(super) fn is_ended(&self) -> bool {
        self.0.ended.get()
    }

    /// Ready when nothing moves on the connection any more, in either direction.
    pub(super) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.hangup.keep(cx);
        if self.0.broken.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Default for Interest {
    fn default() -> Self {
        Self {
            read_ready: Cell::new(true),
            reader: Rc::default(),
            write_ready: Cell::new(true),
            writer: Rc::default(),
            is_long_write: Cell::default(),
            ended: Cell::default(),
            broken: Cell::default(),
            hangup: KeptWaker::default(),
        }
    }
}

impl Readiness {
    async fn dispatch_for_ever(&self) {
        loop {
            self.epoll_has_events().await;
            self.turns.begin();
            self.dispatch();
            self.serve().await;
        }
    }

    /// Goes on with those who wait for a turn, once for each time that the reactor was polled.
    async fn serve_line_for_ever(&self) {
        loop {
            self.turns.are_wanted().await;
            reactor_polled().await;
            self.turns.begin();
            self.serve().await;
        }
    }

    async fn serve(&self) {
        // After the tasks that were just woken: what they answer may bring the next requests.
        self.turns.serve(|| self.dispatch(), requeue).await;
    }

    /// Waits in the ring until the epoll set has something to report.
    async fn epoll_has_events(&self) {
        // SAFETY: the descriptor stays open as long as `self`. It is only lent: the stream isn't
        // dropped, so it closes nothing.
        let gate = unsafe { TcpStream::from_raw_fd(self.epoll.as_raw_fd()) };
        // glommio can wait for the readiness of a stream alone. A fresh stream waits for it before
        // its first read, which then fails since this isn't a socket: that failure is the event. By
        // then the stream owns nothing but the number that is lent.
        let mut gate = ManuallyDrop::new(gate);
        let readable = poll_fn(|cx| Pin::new(&mut *gate).poll_read(cx, &mut [0])).await;
        debug_assert_eq!(readable.err().and_then(|e| e.raw_os_error()), Some(libc::ENOTSOCK));
    }

    /// Looks through the set once, and returns how many events there were.
    fn dispatch(&self) -> usize {
        let mut events = self.events.borrow_mut();
        let events = match self.epoll.poll(&mut events) {
            Ok(events) => events,
            // A signal came; what was there still is.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 0,
            Err(error) => panic!("the epoll set can't be read: {error}"),
        };
        for event in events {
            let interest = self.watched.borrow().get(Key::of(event.key()));
            // None: closed, but its file is still open elsewhere, as in a process that is just being started.
            if let Some(interest) = interest {
                if event.is_ended() {
                    interest.ended.set(true);
                }
                if event.is_broken() {
                    interest.broken.set(true);
                    interest.hangup.wake();
                }
                if event.is_readable() {
                    interest.read_ready.set(true);
                    if interest.reader.is_kept() {
                        self.turns.join(&interest.reader);
                    }
                }
                if event.is_writable() {
                    interest.write_ready.set(true);
                    if interest.writer.is_kept() {
                        match interest.is_long_write.get() {
                            true => self.turns.join(&interest.writer),
                            false => interest.writer.wake(),
                        }
                    }
                }
            }
        }
        events.len()
    }
}

impl Slots {
    fn get(&self, key: Key) -> Option<Rc<Interest>> {
        let place = self.places.get(key.place as usize)?;
        if place.generation == key.generation { place.interest.clone() } else { None }
    }

    fn insert(&mut self, interest: Rc<Interest>) -> Key {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[number as usize];
        place.interest = Some(interest);
        Key { place: number, generation: place.generation }
    }

    fn remove(&mut self, key: Key) {
        let place = &mut self.places[key.place as usize];
        place.interest = None;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.place);
    }
}

/// A non-blocking socket in this executor's set.
pub(super) struct Watched {
    socket: socket2::Socket,
    interest: Rc<Interest>,
    readiness: Rc<Readiness>,
    key: Key,
    reads_a_turn: u32,
    reads_left: Cell<u32>,
}

impl Watched {
    /// Watches `socket` until it is dropped. It is read so many times whenever its turn has come.
    pub(super) fn new(socket: socket2::Socket, reads_a_turn: u32) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let readiness = installed();
        let interest = Rc::new(Interest::default());
        let key = readiness.watched.borrow_mut().insert(interest.clone());
        let watched = Self { socket, interest, readiness, key, reads_a_turn, reads_left: Cell::default() };
        watched.readiness.epoll.add(watched.socket.as_raw_fd(), key.number())?;
        Ok(watched)
    }

    pub(super) fn socket(&self) -> &socket2::Socket {
        &self.socket
    }

    pub(super) fn hangup(&self) -> Hangup {
        Hangup(Rc::clone(&self.interest))
    }

    /// Calls `read` as soon as it doesn't find the socket empty. It returns how many bytes it took of
    /// how many it had room for.
    pub(super) fn poll_read_with<R>(
        &self,
        cx: &Context<'_>,
        read: impl FnMut(&socket2::Socket) -> io::Result<(R, IoProgress)>,
    ) -> Poll<io::Result<R>> {
        if self.interest.read_ready.get() {
            ready!(self.poll_turn(cx));
            if let Poll::Ready(result) = self.attempt(&self.interest.read_ready, read) {
                return Poll::Ready(result);
            }
        }
        self.interest.reader.keep(cx);
        Poll::Pending
    }

    /// Ready when nothing moves on the connection any more, in either direction.
    pub(super) fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        if self.interest.broken.get() {
            return Poll::Ready(());
        }
        self.interest.reader.keep(cx);
        Poll::Pending
    }

    /// Ready when the socket may be read now.
    fn poll_turn(&self, cx: &Context<'_>) -> Poll<()> {
        match self.reads_left.get().checked_sub(1) {
            Some(left) => self.reads_left.set(left),
            None => {
                ready!(self.readiness.turns.poll(&self.interest.reader, cx));
                self.reads_left.set(self.reads_a_turn - 1);
            }
        }
        Poll::Ready(())
    }

    /// Calls `write`, which sends so many bytes, as soon as it doesn't find the socket full, and where they are many
    /// in its turn.
    pub(super) fn poll_write_with<R>(
        &self,
        cx: &Context<'_>,
        bytes: usize,
        write: impl FnMut(&socket2::Socket) -> io::Result<(R, IoProgress)>,
    ) -> Poll<io::Result<R>> {
        self.interest.is_long_write.set(bytes > SHORT_SEND_BYTES);
        if self.interest.write_ready.get() {
            if self.interest.is_long_write.get() {
                ready!(self.readiness.turns.poll(&self.interest.writer, cx));
            }
            if let Poll::Ready(result) = self.attempt(&self.interest.write_ready, write) {
                return Poll::Ready(result);
            }
        }
        self.interest.writer.keep(cx);
        Poll::Pending
    }

    /// Tries it; pending where the socket turns out not to be ready.
    fn attempt<R>(
        &self,
        is_ready: &Cell<bool>,
        mut attempt: impl FnMut(&socket2::Socket) -> io::Result<(R, IoProgress)>,
    ) -> Poll<io::Result<R>> {
        loop {
            match attempt(&self.socket) {
                Ok((output, progress)) => {
                    // The kernel reports a change only: after a part there is nothing more for now,
                    // and the next bytes are announced. The end of the stream was already.
                    if progress == IoProgress::Part && !self.interest.ended.get() {
                        is_ready.set(false);
                    }
                    return Poll::Ready(Ok(output));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        is_ready.set(false);
                        return Poll::Pending;
                    }
                    io::ErrorKind::Interrupted => {}
                    _ => return Poll::Ready(Err(error)),
                },
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.interest.reader.leave();
        self.interest.writer.leave();
        // Closing the socket, right after this, takes it out of the epoll set, where nobody else has its file open.
        self.readiness.watched.borrow_mut().remove(self.key);
    }
}

/// What an attempt to read or write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoProgress {
    /// All that there was room for: there may be more.
    Whole,
    /// Less than there was room for: there is no more at present.
    Part,
}
