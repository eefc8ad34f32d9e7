//! The time limits of connections: one task looks at all of an executor's connections a few times a second.
//!
//! A connection notes what it does in plain cells, by the number of the last look; so a request arms
//! no timer and reads no clock for its limits.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    rc::{Rc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use super::{
    HttpLimits,
    crowd::Crowd,
    expiry::Expiry,
    farewell::Farewell,
    frames::{self, Account},
    heads::Heads,
    leases::{Lease, Leases, Leaves},
    looks::{self, Looks},
    pace::{BodyPace, Floor},
    stream_watch::StreamWatch,
    unread_end::{ClientEnd, UnreadEnd},
};
use crate::{
    counters, peers::Peer, readiness::Hangup, shutdown::Shutdown, tasks::spawn_essential, timers::sleep,
    tls::Handshakes,
};
use silverback_host::waiters::KeptWaker;

/// Connections of an executor that have this time at once: a crowd that leaves keeps no more of what its requests hold.
const ENDED_IN_GRACE_MAX: usize = 32;

/// Where a connection is, and since which look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for the first byte of a request.
    Idle { since: u64 },
    /// Reading a request's head.
    Head { since: u64 },
    /// At least one request is in flight; the last byte moved then.
    Busy { moved: u64 },
}

/// All connections of one executor.
pub(super) struct Watches {
    look: Cell<u64>,
    limits: Looks,
    connections: RefCell<Vec<Rc<Watch>>>,
    /// HTTP/2 streams of all connections.
    streams: RefCell<Vec<Rc<StreamWatch>>>,
    /// What a look's time pays for of frames without data.
    look_credit: i64,
    /// Below which a body that is waited for counts as slow.
    floor: Floor,
    /// Connections whose clients have ended their sending side, and that may have no answer yet.
    ended: RefCell<VecDeque<Weak<Watch>>>,
    leases: Leases,
    /// A connection may hold a lease that it doesn't need, from when nobody waited for one.
    may_find_lease: Cell<bool>,
    heads: Heads,
    /// Of HTTP/2 connections.
    window_bytes: u32,
    /// Of HTTP/1 connections.
    chunk_bytes_max: u64,
    line_growth_max: usize,
    handshakes: Rc<Handshakes>,
    closing: Cell<bool>,
}

impl Watches {
    /// Starts the task that looks; it ends some time after the last owner is gone.
    pub(super) fn start(limits: &HttpLimits, handshakes: Rc<Handshakes>, shutdown: Shutdown) -> Rc<Self> {
        let interval = looks::interval(limits);
        let watches = Rc::new(Self {
            look: Cell::new(0),
            limits: Looks::new(limits, interval),
            connections: RefCell::default(),
            streams: RefCell::default(),
            look_credit: frames::credit_of_time(interval.as_micros() as u64),
            floor: Floor::new(interval),
            ended: RefCell::default(),
            leases: Leases::new(limits.reading_max),
            may_find_lease: Cell::new(true),
            heads: Heads::new(limits),
            window_bytes: limits.connection_window_bytes,
            chunk_bytes_max: limits.chunk_bytes_max,
            line_growth_max: limits.line_growth_bytes_max,
            handshakes,
            closing: Cell::new(shutdown.is_requested()),
        });
        spawn_essential(look_again_and_again(Rc::downgrade(&watches), interval, shutdown));
        watches
    }

    pub(super) fn add(self: &Rc<Self>, crowd: &Rc<Crowd>, hangup: Hangup) -> Rc<Watch> {
        let watch = Rc::new(Watch {
            watches: self.clone(),
            crowd: Rc::clone(crowd),
            unread_end: UnreadEnd::new(hangup),
            // A connection is made to send a request: its first head is on its way.
            phase: Cell::new(Phase::Head { since: self.look.get() }),
            protocol: Cell::new(HttpProtocol::Http1),
            farewell: Farewell::default(),
            in_flight: Cell::new(0),
            is_writing: Cell::new(false),
            bodies_awaited: Cell::new(0),
            pace: Cell::new(BodyPace::new(self.floor)),
            client: Cell::new(ClientEnd::Sends),
            reads: Cell::new(0),
            lease: Cell::default(),
            is_in_line: Cell::default(),
            drained: Cell::default(),
            unread_since: Cell::default(),
            head_bytes: Cell::default(),
            expired: Cell::new(None),
            waker: KeptWaker::default(),
        });
        self.connections.borrow_mut().push(watch.clone());
        watch
    }

    fn look(&self) {
        let look = self.look.get() + 1;
        self.look.set(look);
        self.connections.borrow_mut().retain(|watch| {
            let alive = Rc::strong_count(watch) > 1;
            watch.note_pace(look);
            watch.look_at_end();
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
        self.handshakes.look();
    }

    /// Takes a lease from a connection that needs none now, for the one that waits longest. Looks at all connections
    /// once while leases are waited for, not once for each that waits: who is drained meanwhile yields by itself.
    fn find_lease(&self) {
        if self.may_find_lease.get() {
            let is_found = self.connections.borrow().iter().any(|watch| watch.yield_lease());
            self.may_find_lease.set(is_found);
        }
    }

    /// Ends one whose TLS handshake isn't through, for a newcomer from that address; where there is none to spare, the
    /// one of these connections that has waited longest for a request, for the rest of a request's head, or for a body
    /// that comes too slowly. Returns whether one has for long enough.
    pub(super) fn evict(&self, crowd: &Rc<Crowd>, newcomer: Peer) -> bool {
        let look = self.look.get();
        if let Some(watch) = crowd.take_unfinished(newcomer) {
            counters::with(|c| c.connections_evicted += 1);
            watch.expire(Expiry::Evicted);
            return true;
        }
        if crowd.has_none_to_spare_at(look) {
            return false;
        }
        let connections = self.connections.borrow();
        let own = connections.iter().filter(|watch| Rc::ptr_eq(&watch.crowd, crowd));
        let waiting = own.filter_map(|watch| Some((watch.waiting_since()?, watch)));
        // The look that was in flight when it began to wait doesn't count.
        let longest = waiting
            .filter(|(since, _)| look.saturating_sub(*since) > self.limits.eviction)
            .min_by_key(|(since, _)| *since);
        match longest {
            Some((_, watch)) => {
                counters::with(|c| c.connections_evicted += 1);
                watch.expire(Expiry::Evicted);
            }
            None => crowd.found_none_to_spare_at(look),
        }
        longest.is_some()
    }

    /// One more client has ended its sending side with a request in flight. Of too many the first has waited enough.
    fn one_ends(&self, watch: &Rc<Watch>) {
        let mut ended = self.ended.borrow_mut();
        ended.push_back(Rc::downgrade(watch));
        if ended.len() > ENDED_IN_GRACE_MAX {
            ended.retain(|watch| watch.upgrade().is_some_and(|watch| watch.is_in_grace()));
        }
        if ended.len() > ENDED_IN_GRACE_MAX
            && let Some(first) = ended.pop_front().and_then(|first| first.upgrade())
        {
            first.expire(Expiry::Left);
        }
    }

    fn close_all(&self) {
        self.closing.set(true);
        for watch in self.connections.borrow().iter() {
            watch.farewell.ask(self.look.get());
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
pub(super) enum HttpProtocol {
    Http1,
    /// Its frames (pings, settings) come between requests too, so bytes alone begin no head.
    Http2,
}

/// What is noted of one connection.
pub(super) struct Watch {
    watches: Rc<Watches>,
    crowd: Rc<Crowd>,
    pub(super) unread_end: UnreadEnd,
    phase: Cell<Phase>,
    protocol: Cell<HttpProtocol>,
    /// It closes once what is in flight is answered.
    farewell: Farewell,
    in_flight: Cell<u32>,
    /// What is to be written waits for room in its socket, or for its turn.
    pub(super) is_writing: Cell<bool>,
    /// Requests in flight that wait for more of their bodies.
    bodies_awaited: Cell<u32>,
    /// That of all of them together.
    pace: Cell<BodyPace>,
    client: Cell<ClientEnd>,
    /// Times that bytes came.
    reads: Cell<u64>,
    lease: Cell<Lease>,
    is_in_line: Cell<bool>,
    /// Where its socket had nothing more to read.
    drained: Cell<Option<Leaves>>,
    /// Since when it keeps a lease from others, for what is unread.
    unread_since: Cell<Option<u64>>,
    /// The heads of its HTTP/2 requests in flight.
    pub(super) head_bytes: Cell<usize>,
    expired: Cell<Option<Expiry>>,
    waker: KeptWaker,
}

impl Watch {
    /// Whether a limit has passed; the connection's task is woken when one does.
    pub(super) fn poll_expired(&self, cx: &Context<'_>) -> Option<Expiry> {
        self.waker.keep(cx);
        self.expired.get()
    }

    /// Whether it takes no more requests: the notice to end was given, or none came for too long.
    pub(super) fn is_to_close(&self) -> bool {
        self.watches.closing.get() || self.farewell.is_asked()
    }

    fn expire(&self, expiry: Expiry) {
        match (expiry, self.protocol.get()) {
            // HTTP/2 can say that it closes: a request that is on its way then is answered, or the client
            // knows that it wasn't looked at.
            (Expiry::Idle, HttpProtocol::Http2) => {
                if self.farewell.ask(self.now()) {
                    counters::with(|c| c.connections_timed_out += 1);
                }
            }
            (
                Expiry::Header
                | Expiry::Idle
                | Expiry::Stall
                | Expiry::Unread
                | Expiry::Flood
                | Expiry::Evicted
                | Expiry::Stays
                | Expiry::Left,
                HttpProtocol::Http1 | HttpProtocol::Http2,
            ) => {
                self.expired.set(Some(expiry));
            }
        }
        self.wake();
    }

    /// Times that bytes came so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Its frames have come to something else.
    pub(super) fn account(&self, account: Account) {
        match account {
            Account::Covered => return,
            Account::Overdrawn => {
                counters::with(|c| c.connections_flooding += 1);
                tracing::debug!("an HTTP/2 connection is asked to go: it sends frames without data");
                self.farewell.ask(self.now());
            }
            Account::Flooding => self.expire(Expiry::Flood),
        }
        self.wake();
    }

    pub(super) fn request_begins(&self) {
        if self.in_flight.get() == 0 {
            self.pace.set(BodyPace::new(self.watches.floor));
        }
        if self.client.get() == ClientEnd::IsAnswered {
            // That was the answer to the request before it.
            self.client.set(ClientEnd::Ended);
        }
        self.in_flight.set(self.in_flight.get() + 1);
        self.unread_end.request_begins();
        self.phase.set(Phase::Busy { moved: self.now() });
    }

    pub(super) fn request_ends(&self) {
        let left = self.in_flight.get() - 1;
        self.in_flight.set(left);
        if left == 0 {
            self.phase.set(Phase::Idle { since: self.now() });
            // What comes between requests is read without one; and an end that was kept from the reader is reported
            // now.
            if self.give_lease_up() == Lease::Waiting || self.client.get() != ClientEnd::Sends {
                self.wake();
            }
        }
    }

    /// A request in flight waits for more of its body.
    pub(super) fn body_is_awaited(&self) {
        self.bodies_awaited.set(self.bodies_awaited.get() + 1);
    }

    /// It does so no more.
    pub(super) fn body_is_not_awaited(&self) {
        self.bodies_awaited.set(self.bodies_awaited.get() - 1);
    }

    /// So much of a body came.
    pub(super) fn body_came(&self, bytes: u64) {
        let mut pace = self.pace.get();
        pace.came(bytes, self.watches.floor);
        self.pace.set(pace);
    }

    /// Whether all that is in flight waits for its client to send more, and nothing keeps what it sends unread.
    fn waits_for_bodies(&self) -> bool {
        let in_flight = self.in_flight.get();
        in_flight > 0 && self.bodies_awaited.get() == in_flight && self.lease.get() != Lease::Waiting
    }

    fn note_pace(&self, look: u64) {
        if self.waits_for_bodies() {
            let mut pace = self.pace.get();
            pace.waited(look, self.watches.floor);
            self.pace.set(pace);
        }
    }

    /// The client has ended its sending side. Returns whether that is to be kept from the reader: a request that came
    /// whole is in flight, and its client may wait for the answer.
    pub(super) fn is_ended(self: &Rc<Self>) -> bool {
        let waits = self.in_flight.get() > 0;
        if waits && self.client.get() == ClientEnd::Sends {
            self.client.set(ClientEnd::Ended);
            // From now on, whenever the last byte came.
            self.phase.set(Phase::Busy { moved: self.now() });
            self.watches.one_ends(self);
        }
        waits
    }

    /// After bytes that nobody reads while a request is in flight, the end of the sending side isn't read either.
    fn look_at_end(self: &Rc<Self>) {
        if self.unread_end.has_come() && !self.is_writing.get() {
            self.is_ended();
        }
    }

    /// Whether the connection has broken with a request in flight, whose answer nobody can get; its task is woken when
    /// it does.
    pub(super) fn is_broken(&self, cx: &Context<'_>) -> bool {
        self.unread_end.poll_broken(cx).is_ready() && self.in_flight.get() > 0
    }

    /// Whether its client, which sends no more, has no byte of an answer yet.
    fn is_in_grace(&self) -> bool {
        self.in_flight.get() > 0 && self.client.get() == ClientEnd::Ended
    }

    /// Whether no request is in flight: what comes now begins one, or goes on with its head.
    pub(super) fn is_between_requests(&self) -> bool {
        self.in_flight.get() == 0
    }

    /// Whether more may be read now. Whoever may not is woken when it may.
    pub(super) fn may_read(self: &Rc<Self>) -> bool {
        if self.in_flight.get() > 0 && self.lease.get() == Lease::None {
            self.lease.set(self.watches.leases.ask(self));
            if self.lease.get() == Lease::Waiting {
                self.watches.find_lease();
            }
        }
        self.lease.get() != Lease::Waiting
    }

    /// Its socket has nothing more to read now.
    pub(super) fn is_drained(&self, leaves: Leaves) {
        self.drained.set(Some(leaves));
        if self.watches.leases.are_waited_for() {
            self.yield_lease();
        } else {
            self.watches.may_find_lease.set(true);
        }
    }

    /// Lets others have its lease where it needs none. Returns whether it did.
    fn yield_lease(&self) -> bool {
        match (self.lease.get(), self.drained.get()) {
            (Lease::Held, Some(Leaves::Nothing)) => {
                self.give_lease_up();
                true
            }
            (Lease::Held, Some(Leaves::Unread)) => {
                self.unread_since.set(self.unread_since.get().or(Some(self.now())));
                false
            }
            (Lease::None | Lease::Waiting | Lease::Held, _) => false,
        }
    }

    /// Its requests took some of what was unread.
    pub(super) fn is_taken(&self, leaves: Leaves) {
        self.unread_since.set(None);
        if self.drained.get().is_some() {
            self.is_drained(leaves);
        }
    }

    /// The window of an HTTP/2 connection, in bytes.
    pub(super) fn window_bytes(&self) -> u32 {
        self.watches.window_bytes
    }

    /// What a chunk of an HTTP/1 request may claim, in bytes.
    pub(super) fn chunk_bytes_max(&self) -> u64 {
        self.watches.chunk_bytes_max
    }

    /// What an HTTP/1 request's first line may grow by in a read, in bytes.
    pub(super) fn line_growth_max(&self) -> usize {
        self.watches.line_growth_max
    }

    /// What the time of a look pays for of frames without data.
    pub(super) fn look_credit(&self) -> i64 {
        self.watches.look_credit
    }

    /// The heads of all connections.
    pub(super) fn heads(&self) -> &Heads {
        &self.watches.heads
    }

    /// Takes a place in the line for leases. `false`: it has one.
    pub(super) fn joins_line(&self) -> bool {
        !self.is_in_line.replace(true)
    }

    /// Takes a lease that was given up by another, at the front of the line. Not taken: it waits for none.
    pub(super) fn get_lease(&self) -> bool {
        self.is_in_line.set(false);
        let is_waiting = self.lease.get() == Lease::Waiting;
        if is_waiting {
            self.lease.set(Lease::Held);
            self.wake();
        }
        is_waiting
    }

    fn give_lease_up(&self) -> Lease {
        self.unread_since.set(None);
        let lease = self.lease.take();
        if lease == Lease::Held {
            self.watches.leases.pass_on();
        }
        lease
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

    /// Has the connection's task look again.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Says what the connection turned out to speak.
    pub(super) fn speaks(&self, protocol: HttpProtocol) {
        self.protocol.set(protocol);
        if protocol == HttpProtocol::Http2 {
            // The preface stands for a head: a channel may be opened long before its first call.
            self.phase.set(Phase::Idle { since: self.now() });
        }
    }

    pub(super) fn bytes_read(&self) {
        self.drained.set(None);
        self.reads.set(self.reads.get() + 1);
        match (self.phase.get(), self.protocol.get()) {
            (Phase::Idle { .. }, HttpProtocol::Http1) => self.phase.set(Phase::Head { since: self.now() }),
            // Pings and their answers: they come for as long as both sides are there.
            (Phase::Idle { .. }, HttpProtocol::Http2) => {}
            (Phase::Head { .. }, HttpProtocol::Http1 | HttpProtocol::Http2) => {}
            (Phase::Busy { .. }, HttpProtocol::Http1 | HttpProtocol::Http2) => {
                self.phase.set(Phase::Busy { moved: self.now() });
            }
        }
    }

    pub(super) fn bytes_written(&self) {
        self.farewell.written(self.now());
        if let Phase::Busy { .. } = self.phase.get() {
            self.phase.set(Phase::Busy { moved: self.now() });
        }
        if self.client.get() == ClientEnd::Ended {
            self.client.set(ClientEnd::IsAnswered);
        }
    }

    /// Since which look no request is in flight, or bodies come too slowly, where the connection is open and not asked
    /// to go.
    fn waiting_since(self: &Rc<Self>) -> Option<u64> {
        let is_open = Rc::strong_count(self) > 1 && self.expired.get().is_none();
        match self.phase.get() {
            Phase::Idle { since } | Phase::Head { since } if is_open => Some(since),
            Phase::Busy { .. } if is_open && self.waits_for_bodies() => self.pace.get().slow_since(),
            Phase::Idle { .. } | Phase::Head { .. } | Phase::Busy { .. } => None,
        }
    }

    fn expiry_at(&self, look: u64, limits: Looks) -> Option<Expiry> {
        // The look that is in flight when something begins doesn't count.
        let passed = |since: u64, limit: u64| look.saturating_sub(since) > limit;
        let keeps_too_long = self.unread_since.get().is_some_and(|since| passed(since, limits.lease));
        if keeps_too_long && self.watches.leases.are_waited_for() {
            return Some(Expiry::Unread);
        }
        let stays =
            |since| self.farewell.stays_since(since).is_some_and(|since| passed(since, limits.farewell));
        match self.phase.get() {
            Phase::Head { since } if passed(since, limits.header) => Some(Expiry::Header),
            Phase::Idle { since } if stays(since) && !self.is_writing.get() => Some(Expiry::Stays),
            Phase::Idle { since } if passed(since, limits.idle) => Some(Expiry::Idle),
            Phase::Busy { moved } if passed(moved, limits.stall) => Some(Expiry::Stall),
            Phase::Busy { moved } if self.is_in_grace() && passed(moved, limits.grace) => Some(Expiry::Left),
            Phase::Head { .. } | Phase::Idle { .. } | Phase::Busy { .. } => None,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.give_lease_up();
    }
}
