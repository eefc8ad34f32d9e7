//! Long work in slices: run for a while, let the reactor be polled, go on.
//!
//! There is one token for each executor, so between two looks at I/O no more than one slice is
//! spent on long work, however many jobs there are. What a job does is nothing to it.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fmt,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::{readiness, timers::reactor_polled};
use silverback_host::waiters::KeptWaker;

/// A slice while nothing presses.
pub const SLICE: Duration = Duration::from_micros(200);
/// A slice while somebody waits for the disk: its completion is only seen between slices.
pub(crate) const SHORT_SLICE: Duration = Duration::from_micros(50);

/// Turns that sockets have before the next slice where one turn isn't enough for them. With fewer, requests
/// that come at once wait for each other and for slices too; with more, long work gets less than an eighth
/// of a core on which traffic takes all that it can get.
const SOCKET_TURNS_MAX: usize = 4;

/// How long slices are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SliceLength {
    /// [`SLICE`].
    #[default]
    Steady,
    /// [`SHORT_SLICE`].
    Short,
}

/// The token of one executor and those who wait for it; clones share it.
#[derive(Clone, Default)]
pub struct Slicer(Rc<Token>);

#[derive(Default)]
struct Token {
    taken: Cell<bool>,
    shortened: Cell<usize>,
    /// Time that slices took since the reactor was last known to be polled.
    spent: Cell<Duration>,
    /// Time that all slices took so far.
    total: Cell<Duration>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    waker: KeptWaker,
    granted: Cell<bool>,
}

impl fmt::Debug for Slicer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slicer")
            .field("taken", &self.0.taken.get())
            .field("pace", &self.pace())
            .field("waiting", &self.0.waiting.borrow().len())
            .finish()
    }
}

/// Slices are short as long as one of these lives.
#[derive(Debug)]
pub struct ShortSlices(Slicer);

impl Drop for ShortSlices {
    fn drop(&mut self) {
        let shortened = &self.0.0.shortened;
        shortened.set(shortened.get() - 1);
    }
}

impl Slicer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Makes slices short until the guard is dropped, for example while a commit is on its way.
    pub fn shorten_slices(&self) -> ShortSlices {
        self.0.shortened.set(self.0.shortened.get() + 1);
        ShortSlices(self.clone())
    }

    /// How long slices are at present.
    pub(crate) fn pace(&self) -> SliceLength {
        if self.0.shortened.get() == 0 { SliceLength::Steady } else { SliceLength::Short }
    }

    /// Time that long work took on this executor so far.
    pub fn total(&self) -> Duration {
        self.0.total.get()
    }

    /// Waits for the token, and for the reactor if slices have taken their time already.
    pub async fn begin(&self) -> Slice {
        self.0.clone().acquire().await;
        let mut slice = Slice { slicer: self.clone(), started: Instant::now(), holds_token: true };
        if slice.is_spent() {
            slice.poll_reactor().await;
        }
        slice
    }

    /// Goes on in the slice that is held, after others had their turn where it is spent; begins one where
    /// none is held.
    pub async fn go_on(&self, held: Option<Slice>) -> Slice {
        match held {
            Some(mut slice) => {
                slice.yield_if_needed().await;
                slice
            }
            None => self.begin().await,
        }
    }

    fn length(&self) -> Duration {
        match self.pace() {
            SliceLength::Steady => SLICE,
            SliceLength::Short => SHORT_SLICE,
        }
    }
}

impl Token {
    async fn acquire(self: Rc<Self>) {
        if !self.taken.replace(true) {
            return;
        }
        let mut place = Slot::queued(self);
        poll_fn(|cx| place.poll_acquire(cx)).await;
    }

    /// Hands the token to the one that waits longest, or puts it back.
    fn release(&self) {
        match self.waiting.borrow_mut().pop_front() {
            Some(next) => {
                next.granted.set(true);
                next.waker.wake();
            }
            None => self.taken.set(false),
        }
    }
}

/// A place in the queue for the token; given up when dropped.
struct Slot {
    token: Rc<Token>,
    waiter: Option<Rc<Waiter>>,
}

impl Slot {
    fn queued(token: Rc<Token>) -> Self {
        let waiter = Rc::new(Waiter::default());
        token.waiting.borrow_mut().push_back(waiter.clone());
        Self { token, waiter: Some(waiter) }
    }

    fn poll_acquire(&mut self, cx: &Context<'_>) -> Poll<()> {
        match &self.waiter {
            None => Poll::Ready(()),
            Some(waiter) if waiter.granted.get() => {
                self.waiter = None;
                Poll::Ready(())
            }
            Some(waiter) => {
                waiter.waker.keep(cx);
                Poll::Pending
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            if waiter.granted.get() {
                // The token came, and who waited for it is gone.
                self.token.release();
            } else {
                self.token.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter));
            }
        }
    }
}

/// The right to run long work on this executor for a while.
#[derive(Debug)]
pub struct Slice {
    slicer: Slicer,
    started: Instant,
    holds_token: bool,
}

impl Slice {
    /// Whether its time is over. Cheap enough to ask after every few microseconds of work.
    pub fn is_spent(&self) -> bool {
        self.slicer.0.spent.get() + self.started.elapsed() >= self.slicer.length()
    }

    /// Goes on at once while there is time, else yields: what a loop of long work calls each round.
    pub async fn yield_if_needed(&mut self) {
        if self.is_spent() {
            self.yield_now().await;
        }
    }

    /// Lets the reactor be polled and every task run that this makes runnable, then lets the other
    /// jobs have their slices, then goes on.
    pub async fn yield_now(&mut self) {
        // With the token in hand: else the next job would run before the reactor was polled.
        self.poll_reactor().await;
        let token = self.slicer.0.clone();
        if token.waiting.borrow().is_empty() {
            return;
        }
        let mut place = Slot::queued(token.clone());
        self.holds_token = false;
        token.release();
        poll_fn(|cx| place.poll_acquire(cx)).await;
        self.holds_token = true;
        self.started = Instant::now();
    }

    async fn poll_reactor(&mut self) {
        self.count();
        reactor_polled().await;
        for _ in 1..SOCKET_TURNS_MAX {
            if !readiness::is_behind() {
                break;
            }
            reactor_polled().await;
        }
        self.slicer.0.spent.set(Duration::ZERO);
        self.started = Instant::now();
    }

    /// Adds the slice's time to the executor's.
    fn count(&self) {
        let total = &self.slicer.0.total;
        total.set(total.get() + self.started.elapsed());
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let token = &self.slicer.0;
        if self.holds_token {
            self.count();
            token.spent.set(token.spent.get() + self.started.elapsed());
            token.release();
        }
    }
}
