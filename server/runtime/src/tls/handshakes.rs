//! How many handshakes an executor has in flight: each holds more memory than a connection that is through with it. One
//! more waits in line, in which addresses take turns. Where others wait, who takes long goes, and the sooner the more
//! wait, of the address that has most; and where one address has more than another, its first goes for the other's at once.

use std::{
    cell::{Cell, RefCell},
    ops::Bound,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use silverback_host::waiters::KeptWaker;

use crate::{
    peers::{ByPeer, Peer, PeerNumber, RoundStart},
    timers::now,
};

/// What a handshake may take while one other waits. While as many wait as there are places, it is half of that, and
/// so on.
const HANDSHAKE_TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// What it may take in any case: a client far away answers within that.
const HANDSHAKE_TIMEOUT_MIN: Duration = Duration::from_millis(50);

/// What one may take of an address that has fewer than another, while any other waits.
const OVERDUE: Duration = HANDSHAKE_TIMEOUT_MAX.saturating_mul(3);

/// All of one executor.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    line: RefCell<Line>,
}

#[derive(Debug)]
struct Line {
    /// In the order in which they began.
    held: ByPeer<Rc<Slot>>,
    waiting: ByPeer<Rc<Slot>>,
    /// Of those that wait.
    turn: RoundStart,
    /// Places of those that are asked to go and haven't yet.
    leaving: usize,
}

#[derive(Debug)]
struct Slot {
    state: Cell<HandshakeState>,
    waker: KeptWaker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeState {
    Waiting {
        number: PeerNumber,
    },
    Held {
        number: PeerNumber,
        since: Instant,
    },
    /// It took too long.
    Out,
}

/// One handshake's place; another one has it when this is dropped.
#[derive(Debug)]
pub(super) struct HandshakeLease {
    all: Rc<Handshakes>,
    slot: Rc<Slot>,
}

/// A handshake is to give way to others, unless what has come already ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handshake took too long, and others waited")]
pub(super) struct HandshakeError;

impl Handshakes {
    pub(crate) fn new(max: usize) -> Rc<Self> {
        let line =
            Line { held: ByPeer::default(), waiting: ByPeer::default(), turn: Bound::Unbounded, leaving: 0 };
        Rc::new(Self { max: max.max(1), line: RefCell::new(line) })
    }

    /// A place, or one in the line.
    pub(super) fn ask(self: &Rc<Self>, peer: Peer) -> HandshakeLease {
        let slot = Rc::new(Slot { state: Cell::new(HandshakeState::Out), waker: KeptWaker::default() });
        let sent = self.line.borrow_mut().join(peer, &slot, self.max);
        sent.iter().for_each(|slot| slot.waker.wake());
        self.look();
        HandshakeLease { all: Rc::clone(self), slot }
    }

    /// Lets as many in as there are places, and looks whether who takes too long keeps others out.
    pub(crate) fn look(&self) {
        let mut changed = Vec::new();
        let mut line = self.line.borrow_mut();
        line.fill(self.max, &mut changed);
        line.clear(self.max, &mut changed);
        drop(line);
        changed.iter().for_each(|slot| slot.waker.wake());
    }
}

impl Line {
    /// One more waits. Returns who goes for it: where there is no place, the first of those that have most, as long as
    /// they have more than its own address has with it.
    fn join(&mut self, peer: Peer, slot: &Rc<Slot>, max: usize) -> Option<Rc<Slot>> {
        let number = self.waiting.insert(peer, Rc::clone(slot));
        slot.state.set(HandshakeState::Waiting { number });
        let has = self.held.count(peer) + self.waiting.count(peer);
        let (most, whose) = self.held.most()?;
        if self.is_full(max) && has < most {
            self.turn = Bound::Included(peer);
            let (first, _) = self.held.first_of(whose)?;
            return self.send_out(first);
        }
        None
    }

    fn is_full(&self, max: usize) -> bool {
        self.held.len() + self.leaving >= max
    }

    fn fill(&mut self, max: usize, changed: &mut Vec<Rc<Slot>>) {
        while !self.is_full(max)
            && let Some(peer) = self.waiting.next_peer(self.turn)
            && let Some((number, _)) = self.waiting.first_of(peer)
            && let Some(slot) = self.waiting.remove(number)
        {
            self.turn = Bound::Excluded(peer);
            let number = self.held.insert(peer, Rc::clone(&slot));
            slot.state.set(HandshakeState::Held { number, since: now() });
            changed.push(slot);
        }
    }

    /// Sends those out that take too long, no more than wait.
    fn clear(&mut self, max: usize, changed: &mut Vec<Rc<Slot>>) {
        let waiting = self.waiting.len();
        let timeout = timeout(max, waiting);
        while waiting > self.leaving
            && let Some(first) = self.overdue(timeout)
            && let Some(slot) = self.send_out(first)
        {
            changed.push(slot);
        }
    }

    /// Who takes too long: of the address that has most, for a slow client of one that has few isn't in others' way. But none
    /// stands in it for long.
    fn overdue(&self, timeout: Duration) -> Option<PeerNumber> {
        let (of_most, first) = (self.held.first_of_most(), self.held.first());
        let of_most = of_most.filter(|(_, slot)| slot.is_held_for(timeout));
        let first = first.filter(|(_, slot)| slot.is_held_for(OVERDUE));
        of_most.or(first).map(|(number, _)| number)
    }

    fn send_out(&mut self, number: PeerNumber) -> Option<Rc<Slot>> {
        let slot = self.held.remove(number)?;
        slot.state.set(HandshakeState::Out);
        self.leaving += 1;
        Some(slot)
    }
}

impl Slot {
    fn is_held_for(&self, time: Duration) -> bool {
        match self.state.get() {
            HandshakeState::Held { since, .. } => now().saturating_duration_since(since) >= time,
            HandshakeState::Waiting { .. } | HandshakeState::Out => false,
        }
    }
}

/// What a handshake may take while so many wait for `max` places: as the line grows, it moves faster.
fn timeout(max: usize, waiting: usize) -> Duration {
    HANDSHAKE_TIMEOUT_MAX.mul_f64(max as f64 / (max + waiting) as f64).max(HANDSHAKE_TIMEOUT_MIN)
}

impl HandshakeLease {
    /// Ready when the handshake may go on.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Result<(), HandshakeError>> {
        self.slot.waker.keep(cx);
        match self.slot.state.get() {
            HandshakeState::Held { .. } => Poll::Ready(Ok(())),
            HandshakeState::Waiting { .. } => Poll::Pending,
            HandshakeState::Out => Poll::Ready(Err(HandshakeError)),
        }
    }
}

impl Drop for HandshakeLease {
    fn drop(&mut self) {
        let mut line = self.all.line.borrow_mut();
        let gone = match self.slot.state.get() {
            HandshakeState::Waiting { number } => line.waiting.remove(number),
            HandshakeState::Held { number, .. } => line.held.remove(number),
            HandshakeState::Out => {
                line.leaving -= 1;
                None
            }
        };
        drop((line, gone));
        self.all.look();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// The nth address.
    fn peer(n: u8) -> Peer {
        Peer::of(Some([10, 0, 0, n].into()))
    }

    fn poll(place: &HandshakeLease) -> Poll<Result<(), HandshakeError>> {
        place.poll(&Context::from_waker(Waker::noop()))
    }

    fn may_go_on(place: &HandshakeLease) -> bool {
        poll(place) == Poll::Ready(Ok(()))
    }

    fn has_expired(place: &HandshakeLease) -> bool {
        poll(place) == Poll::Ready(Err(HandshakeError))
    }

    /// It began long ago.
    fn make_slow(place: &HandshakeLease, by: Duration) {
        let HandshakeState::Held { number, .. } = place.slot.state.get() else { panic!("it has no place") };
        place.slot.state.set(HandshakeState::Held { number, since: now() - by });
    }

    #[test]
    fn so_many_have_a_place_and_the_next_in_line_gets_the_one_that_is_given_up() {
        let all = Handshakes::new(2);
        let [first, second, third, fourth] = [(); 4].map(|()| all.ask(peer(1)));
        assert!(may_go_on(&first) && may_go_on(&second) && !may_go_on(&third) && !may_go_on(&fourth));
        drop(third);
        assert!(!may_go_on(&fourth));
        drop(first);
        assert!(may_go_on(&fourth));
        drop((second, fourth));
        let line = all.line.borrow();
        assert_eq!((line.held.len(), line.waiting.len(), line.leaving), (0, 0, 0));
    }

    #[test]
    fn who_takes_long_gives_way_where_others_wait() {
        let all = Handshakes::new(1);
        let slow = all.ask(peer(1));
        make_slow(&slow, 2 * HANDSHAKE_TIMEOUT_MAX);
        all.look();
        assert!(may_go_on(&slow), "nobody waits");
        let next = all.ask(peer(1));
        assert!(has_expired(&slow) && !may_go_on(&next), "its place is its own until it has gone");
        drop(slow);
        assert!(may_go_on(&next));
    }

    #[test]
    fn a_slow_client_of_an_address_that_has_few_does_not_go_for_one_that_has_many() {
        let all = Handshakes::new(3);
        let slow = all.ask(peer(1));
        let [first, second] = [(); 2].map(|()| all.ask(peer(2)));
        make_slow(&slow, 2 * HANDSHAKE_TIMEOUT_MAX);
        let third = all.ask(peer(2));
        assert!(may_go_on(&slow) && may_go_on(&first) && may_go_on(&second) && !may_go_on(&third));
        make_slow(&first, 2 * HANDSHAKE_TIMEOUT_MAX);
        all.look();
        assert!(may_go_on(&slow) && has_expired(&first) && may_go_on(&second));
        drop(first);
        let _fourth = all.ask(peer(2));
        assert!(may_go_on(&third) && may_go_on(&slow));
        make_slow(&slow, OVERDUE);
        all.look();
        assert!(has_expired(&slow), "not for ever");
    }

    #[test]
    fn of_addresses_that_have_as_many_the_first_handshake_goes() {
        for [one, other] in [[1, 2], [2, 1]] {
            let all = Handshakes::new(4);
            let slow = all.ask(peer(one));
            let _held = [other, one, other].map(|n| all.ask(peer(n)));
            make_slow(&slow, 2 * HANDSHAKE_TIMEOUT_MAX);
            let _waiting = all.ask(peer(other));
            assert!(has_expired(&slow));
        }
    }

    #[test]
    fn the_longer_the_line_the_sooner_who_stands_still_goes() {
        let all = Handshakes::new(4);
        let held: Vec<_> = (0..4).map(|_| all.ask(peer(1))).collect();
        make_slow(&held[0], HANDSHAKE_TIMEOUT_MAX / 4);
        let one = all.ask(peer(1));
        assert!(may_go_on(&held[0]), "one waits");
        let many: Vec<_> = (0..12).map(|_| all.ask(peer(1))).collect();
        assert!(has_expired(&held[0]) && held[1..].iter().all(may_go_on));
        drop(many);
        drop(one);
        assert_eq!((timeout(4, 0), timeout(4, 12)), (HANDSHAKE_TIMEOUT_MAX, HANDSHAKE_TIMEOUT_MAX / 4));
        assert_eq!(timeout(4, 1_000_000), HANDSHAKE_TIMEOUT_MIN);
    }

    #[test]
    fn who_has_most_places_gives_one_to_a_newcomer_at_once_and_keeps_the_others() {
        let all = Handshakes::new(8);
        let flood: Vec<_> = (0..100).map(|_| all.ask(peer(1))).collect();
        assert!(flood[..8].iter().all(may_go_on));
        let newcomer = all.ask(peer(2));
        let told = flood.iter().filter(|place| has_expired(place)).count();
        assert!(has_expired(&flood[0]) && told == 1, "{told}");
        let mut flood = flood.into_iter();
        drop(flood.next());
        assert!(may_go_on(&newcomer), "before the others of the line");
        let second = all.ask(peer(3));
        drop(flood.next());
        assert!(may_go_on(&second));
        drop(flood);
    }

    #[test]
    fn addresses_that_have_as_many_send_nobody_out() {
        let all = Handshakes::new(4);
        let held: Vec<_> = (0..4).map(|n| all.ask(peer(n))).collect();
        let newcomers: Vec<_> = (4..8).map(|n| all.ask(peer(n))).collect();
        let again = all.ask(peer(0));
        assert!(held.iter().all(may_go_on) && !newcomers.iter().any(may_go_on) && !may_go_on(&again));
    }

    #[test]
    fn addresses_take_turns_in_the_line() {
        let all = Handshakes::new(1);
        let held = all.ask(peer(9));
        let many: Vec<_> = (0..5).map(|_| all.ask(peer(1))).collect();
        let one = all.ask(peer(2));
        drop(held);
        assert!(may_go_on(&many[0]));
        let mut many = many.into_iter();
        drop(many.next());
        assert!(may_go_on(&one), "before the others of the other address");
        drop(many);
    }
}
