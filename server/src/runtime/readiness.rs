//! Which sockets of this executor can be read and written.
//!
//! glommio watches each socket with a ring entry for each wait, and each round of its reactor costs
//! several system calls. Here the sockets are in one epoll set, edge-triggered and added once; the
//! ring watches that set's descriptor alone, and one task looks through it a few times for each round
//! of the reactor. A request then costs what it costs on a plain epoll loop.
//!
//! As nothing preempts, sockets that always have something to read would keep the executor from its
//! disks, timers and lanes. So reading takes turns with the reactor, by the clock.
use std::{
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, FromRawFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use futures::AsyncRead;
use glommio::net::TcpStream;

use super::{
    epoll::{Epoll, Event},
    tasks,
    timers::{reactor_polled, requeue},
};

/// How long after the reactor was polled sockets may be looked after and read without it. A round of
/// the reactor costs some 10 µs, so a shorter turn is paid for in CPU; a longer one in the time that a
/// completed write waits to be seen.
const TURN: Duration = Duration::from_micros(200);
/// Events taken at once.
const EVENTS: usize = 256;

thread_local! {
    static READINESS: OnceCell<Rc<Readiness>> = const { OnceCell::new() };
}

/// Makes this executor's set and starts its task.
///
/// # Panics
/// If the set can't be made: without it the executor serves nobody.
pub(super) fn install() {
    let epoll = Epoll::new().expect("an executor needs an epoll set");
    let readiness = Rc::new(Readiness { epoll, watched: RefCell::default(), turn: Turn::default() });
    let installed = READINESS.with(|cell| cell.set(readiness.clone()).is_ok());
    assert!(installed, "one executor a thread, started once");
    let deferring = readiness.clone();
    tasks::spawn_essential(async move { deferring.turn.resume_for_ever().await });
    tasks::spawn_essential(async move { readiness.dispatch_for_ever().await });
}

/// Ready while the sockets' turn lasts; past it the task is woken when the reactor has been polled.
///
/// For who has work at hand without reading: a connection with many requests in its buffer.
pub(super) fn poll_turn(cx: &Context<'_>) -> Poll<()> {
    READINESS.with(|cell| cell.get().expect("called on an executor").turn.poll(cx))
}

/// Whether sockets had more to read than there was time for in their last turn.
pub(super) fn is_behind() -> bool {
    READINESS.with(|cell| cell.get().is_some_and(|readiness| readiness.turn.is_behind()))
}

struct Readiness {
    epoll: Epoll,
    watched: RefCell<Slots>,
    turn: Turn,
}

/// The sockets' turn, and those that came after its end.
struct Turn {
    /// When the reactor was last known to be polled.
    polled: Cell<Instant>,
    deferred: RefCell<Vec<Waker>>,
    resumes: RefCell<Option<Waker>>,
}

impl Default for Turn {
    fn default() -> Self {
        Self { polled: Cell::new(Instant::now()), deferred: RefCell::default(), resumes: RefCell::default() }
    }
}

impl Turn {
    /// Ready while the turn lasts; past it the task is woken when the reactor has been polled.
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.lasts() {
            return Poll::Ready(());
        }
        self.deferred.borrow_mut().push(cx.waker().clone());
        let resumes = self.resumes.borrow_mut().take();
        if let Some(resumes) = resumes {
            resumes.wake();
        }
        Poll::Pending
    }

    fn lasts(&self) -> bool {
        self.polled.get().elapsed() < TURN
    }

    fn begin(&self) {
        self.polled.set(Instant::now());
    }

    fn is_behind(&self) -> bool {
        !self.deferred.borrow().is_empty()
    }

    async fn resume_for_ever(&self) {
        loop {
            poll_fn(|cx| {
                if !self.deferred.borrow().is_empty() {
                    return Poll::Ready(());
                }
                *self.resumes.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            reactor_polled().await;
            self.begin();
            let deferred = self.deferred.take();
            deferred.into_iter().for_each(Waker::wake);
        }
    }
}

/// The watched sockets by key; keys are used again.
#[derive(Default)]
struct Slots {
    interests: Vec<Option<Rc<Interest>>>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Interest {
    read: Direction,
    write: Direction,
    ended: Cell<bool>,
}

/// One direction of a socket. It counts as ready until an attempt shows that it isn't.
struct Direction {
    ready: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Default for Direction {
    fn default() -> Self {
        Self { ready: Cell::new(true), waker: RefCell::new(None) }
    }
}

impl Direction {
    fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        if self.ready.get() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        match &*waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(_) | None => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn set_ready(&self) {
        self.ready.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Readiness {
    async fn dispatch_for_ever(&self) {
        let mut events = vec![Event::NONE; EVENTS];
        loop {
            self.epoll_has_events().await;
            self.turn.begin();
            while self.dispatch(&mut events) > 0 && self.turn.lasts() {
                // Behind the tasks that were just woken: what they answer may bring the next requests.
                requeue().await;
            }
        }
    }

    /// Waits in the ring until the epoll set has something to tell.
    async fn epoll_has_events(&self) {
        // SAFETY: the descriptor stays open as long as `self`. It is only lent: the stream isn't
        // dropped, so it closes nothing.
        let gate = unsafe { TcpStream::from_raw_fd(self.epoll.as_raw_fd()) };
        // glommio can wait for the readiness of a stream alone. A fresh stream waits for it before
        // its first read, which then fails since this is no socket: that failure is the event. By
        // then the stream owns nothing but the number that is lent.
        let mut gate = ManuallyDrop::new(gate);
        let readable = poll_fn(|cx| Pin::new(&mut *gate).poll_read(cx, &mut [0])).await;
        debug_assert_eq!(readable.err().and_then(|e| e.raw_os_error()), Some(libc::ENOTSOCK));
    }

    fn dispatch(&self, events: &mut [Event]) -> usize {
        let events = match self.epoll.poll(events) {
            Ok(events) => events,
            // A signal came; what was there still is.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 0,
            Err(error) => panic!("the epoll set can't be read: {error}"),
        };
        for event in events {
            let interest = self.watched.borrow().get(event.key());
            // None: closed meanwhile. Another one under the same key: it looks in vain, once.
            if let Some(interest) = interest {
                if event.is_ended() {
                    interest.ended.set(true);
                }
                if event.is_readable() {
                    interest.read.set_ready();
                }
                if event.is_writable() {
                    interest.write.set_ready();
                }
            }
        }
        events.len()
    }
}

impl Slots {
    fn get(&self, key: u64) -> Option<Rc<Interest>> {
        usize::try_from(key).ok().and_then(|key| self.interests.get(key)?.clone())
    }

    fn insert(&mut self, interest: Rc<Interest>) -> usize {
        let key = self.free.pop().unwrap_or_else(|| {
            self.interests.push(None);
            self.interests.len() - 1
        });
        self.interests[key] = Some(interest);
        key
    }

    fn remove(&mut self, key: usize) {
        self.interests[key] = None;
        self.free.push(key);
    }
}

/// A non-blocking socket in this executor's set.
pub(super) struct Watched {
    socket: socket2::Socket,
    interest: Rc<Interest>,
    readiness: Rc<Readiness>,
    key: usize,
}

impl Watched {
    /// Watches `socket` until it is dropped.
    pub(super) fn new(socket: socket2::Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let readiness = READINESS.with(|cell| cell.get().expect("called on an executor").clone());
        let interest = Rc::new(Interest::default());
        let key = readiness.watched.borrow_mut().insert(interest.clone());
        let watched = Self { socket, interest, readiness, key };
        watched.readiness.epoll.add(watched.socket.as_raw_fd(), key as u64)?;
        Ok(watched)
    }

    pub(super) fn socket(&self) -> &socket2::Socket {
        &self.socket
    }

    /// Calls `read` as soon as it doesn't find the socket empty. It tells how many bytes it took of
    /// how many it had room for.
    pub(super) fn poll_read_with<R>(
        &self,
        cx: &Context<'_>,
        read: impl FnMut(&socket2::Socket) -> io::Result<(R, Progress)>,
    ) -> Poll<io::Result<R>> {
        if self.interest.read.ready.get() && self.readiness.turn.poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_with(cx, &self.interest.read, read)
    }

    /// Calls `write` as soon as it doesn't find the socket full.
    pub(super) fn poll_write_with<R>(
        &self,
        cx: &Context<'_>,
        write: impl FnMut(&socket2::Socket) -> io::Result<(R, Progress)>,
    ) -> Poll<io::Result<R>> {
        self.poll_with(cx, &self.interest.write, write)
    }

    fn poll_with<R>(
        &self,
        cx: &Context<'_>,
        direction: &Direction,
        mut attempt: impl FnMut(&socket2::Socket) -> io::Result<(R, Progress)>,
    ) -> Poll<io::Result<R>> {
        loop {
            if direction.poll_ready(cx).is_pending() {
                return Poll::Pending;
            }
            match attempt(&self.socket) {
                Ok((output, progress)) => {
                    // The kernel tells of a change only: after a part there is nothing more for now,
                    // and the next bytes are told of. The end of the stream was told of already.
                    if progress == Progress::Part && !self.interest.ended.get() {
                        direction.ready.set(false);
                    }
                    return Poll::Ready(Ok(output));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => direction.ready.set(false),
                    io::ErrorKind::Interrupted => {}
                    _ => return Poll::Ready(Err(error)),
                },
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Closing the socket, right after this, takes it out of the epoll set.
        self.readiness.watched.borrow_mut().remove(self.key);
    }
}

/// What an attempt to read or write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All that there was room for: there may be more.
    Whole,
    /// Less than there was room for: there is no more at present.
    Part,
}
