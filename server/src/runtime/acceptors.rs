//! The acceptors of one address: how many connections each has, and what one hands to another.
//!
//! The kernel deals connections out to listening sockets by a hash, so of few connections one executor
//! may get most. Who accepts one while another has fewer hands it over before anything is read of it.
//! That takes a lock and, at most, a wake for each connection accepted, and nothing for each request.
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use socket2::Socket;

/// An acceptor may have one in so many connections more than the one with the fewest: with less than
/// that many each, they are even to one.
const EVEN_ENOUGH: usize = 16;

/// All that listen on one address.
#[derive(Debug, Default)]
pub(super) struct Acceptors(Mutex<Vec<Arc<Acceptor>>>);

/// One of them, as the others see it.
#[derive(Debug, Default)]
struct Acceptor {
    /// Connections that it has, those that are on their way to it too.
    open: AtomicUsize,
    handed: Mutex<Handed>,
}

#[derive(Debug, Default)]
struct Handed {
    // Bounded by the limit on open connections: they count from the moment they are handed over.
    sockets: VecDeque<Socket>,
    waker: Option<Waker>,
}

/// An executor's own acceptor. Dropping it takes it out of the round and closes what it was handed.
#[derive(Debug)]
pub(super) struct Member {
    acceptors: Arc<Acceptors>,
    own: Arc<Acceptor>,
}

/// Where an accepted connection goes.
#[derive(Debug)]
pub(super) enum Placed {
    /// It stays.
    Here(Socket, Permit),
    /// Another acceptor has it now.
    Elsewhere,
    /// All have as many as they may: it was closed.
    Refused,
}

/// One connection's place under the limit; free again when dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Acceptor>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Acceptors {
    /// Takes part from now on.
    pub(super) fn join(self: &Arc<Self>) -> Member {
        let own = Arc::<Acceptor>::default();
        self.all().push(own.clone());
        Member { acceptors: self.clone(), own }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Acceptor>>> {
        // Nothing under this lock can leave the list half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acceptor {
    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn handed(&self) -> MutexGuard<'_, Handed> {
        // A push or a pop is never half done.
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Puts a connection that was just accepted where it belongs, if there are fewer than `open_max`.
    pub(super) fn place(&self, socket: Socket, open_max: usize) -> Placed {
        // Held to the end: decisions are one after the other, and nobody leaves in between.
        let all = self.acceptors.all();
        let fewest = all.iter().min_by_key(|acceptor| acceptor.open()).unwrap_or(&self.own);
        let allowed = fewest.open() + fewest.open() / EVEN_ENOUGH;
        let chosen = if self.own.open() > allowed { fewest } else { &self.own };
        if chosen.open() >= open_max {
            return Placed::Refused;
        }
        chosen.open.fetch_add(1, Ordering::Relaxed);
        if Arc::ptr_eq(chosen, &self.own) {
            return Placed::Here(socket, Permit(self.own.clone()));
        }
        let mut handed = chosen.handed();
        handed.sockets.push_back(socket);
        if let Some(waker) = handed.waker.take() {
            waker.wake();
        }
        Placed::Elsewhere
    }

    /// The next connection that another acceptor handed over.
    pub(super) fn poll_handed(&self, cx: &Context<'_>) -> Poll<(Socket, Permit)> {
        let mut handed = self.own.handed();
        if let Some(socket) = handed.sockets.pop_front() {
            return Poll::Ready((socket, Permit(self.own.clone())));
        }
        match &handed.waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(_) | None => handed.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.acceptors.all().retain(|acceptor| !Arc::ptr_eq(acceptor, &self.own));
        // Nobody hands anything over any more. The waker has to go on its own executor.
        let left = std::mem::take(&mut *self.own.handed());
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::noop_waker_ref;
    use socket2::{Domain, Type};

    const NO_LIMIT: usize = usize::MAX;

    fn socket() -> Socket {
        Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
    }

    /// Acceptors, and what they have open.
    struct Round {
        members: Vec<Member>,
        open: Vec<Vec<Permit>>,
    }

    impl Round {
        fn of(members: usize) -> Self {
            let acceptors = Arc::<Acceptors>::default();
            let members: Vec<_> = (0..members).map(|_| acceptors.join()).collect();
            Self { open: members.iter().map(|_| Vec::new()).collect(), members }
        }

        /// The kernel gives acceptor `to` a connection, and everyone takes what is theirs. Gives the
        /// one that has it now.
        fn accept(&mut self, to: usize, open_max: usize) -> Option<usize> {
            match self.members[to].place(socket(), open_max) {
                Placed::Here(_, permit) => {
                    self.open[to].push(permit);
                    Some(to)
                }
                Placed::Elsewhere => Some(self.take_handed()),
                Placed::Refused => None,
            }
        }

        fn take_handed(&mut self) -> usize {
            let cx = Context::from_waker(noop_waker_ref());
            let mut handed =
                self.members.iter().enumerate().filter_map(|(i, member)| match member.poll_handed(&cx) {
                    Poll::Ready((_, permit)) => Some((i, permit)),
                    Poll::Pending => None,
                });
            let (to, permit) = handed.next().expect("one was handed over");
            assert!(handed.next().is_none(), "and no more than one");
            drop(handed);
            self.open[to].push(permit);
            to
        }

        fn counts(&self) -> Vec<usize> {
            self.open.iter().map(Vec::len).collect()
        }
    }

    /// What so many acceptors have in the end when the kernel gives each connection to the one named.
    fn check(members: usize, given_to: impl IntoIterator<Item = usize>, expect: &[usize]) {
        let mut round = Round::of(members);
        for to in given_to {
            assert!(round.accept(to, NO_LIMIT).is_some());
        }
        assert_eq!(round.counts(), expect);
    }

    #[test]
    fn few_connections_are_even_to_one_whoever_accepts_them() {
        check(2, [0; 8], &[4, 4]);
        check(2, [0, 1, 0, 1, 1, 1, 1], &[3, 4]);
        check(3, [2; 8], &[3, 2, 3]);
        check(4, [1, 1, 2], &[1, 1, 1, 0]);
        check(1, [0; 5], &[5]);
    }

    #[test]
    fn many_connections_stay_where_they_are_accepted_while_they_are_even_enough() {
        let mut round = Round::of(2);
        // Two of three to the first: half as many again, if nobody did anything.
        for connection in 0..3000 {
            assert!(round.accept(usize::from(connection % 3 == 0), NO_LIMIT).is_some());
        }
        let counts = round.counts();
        let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - fewest <= fewest / EVEN_ENOUGH + 1, "{counts:?}");
    }

    #[test]
    fn connections_that_end_make_room_for_the_next() {
        let mut round = Round::of(2);
        (0..8).for_each(|_| assert!(round.accept(0, NO_LIMIT).is_some()));
        round.open[0].clear();
        assert_eq!((0..4).map(|_| round.accept(1, NO_LIMIT)).collect::<Vec<_>>(), [Some(0); 4]);
        assert_eq!(round.counts(), [4, 4]);
    }

    #[test]
    fn at_the_limit_of_all_a_connection_is_refused() {
        let mut round = Round::of(2);
        assert_eq!((0..5).map(|_| round.accept(0, 2)).filter(Option::is_some).count(), 4);
        round.open[1].pop();
        assert_eq!(round.accept(0, 2), Some(1));
    }

    #[test]
    fn who_leaves_is_handed_nothing_more_and_closes_what_it_was_handed() {
        let mut round = Round::of(2);
        let leaving = round.members.pop().unwrap();
        let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(round.accept(0, NO_LIMIT).is_some());
        let placed = round.members[0].place(std::os::fd::OwnedFd::from(server).into(), NO_LIMIT);
        assert!(matches!(placed, Placed::Elsewhere), "{placed:?}");
        drop(leaving);
        assert_eq!(std::io::Read::read(&mut client, &mut [0]).unwrap(), 0);
        assert_eq!((0..3).map(|_| round.accept(0, NO_LIMIT)).collect::<Vec<_>>(), [Some(0); 3]);
    }

    #[test]
    fn one_who_waits_is_woken_once_by_what_is_handed_over() {
        let round = Round::of(2);
        let waker = Arc::new(Woken::default());
        let asked = round.members[1].poll_handed(&Context::from_waker(&waker.clone().into()));
        assert!(asked.is_pending());
        let places = (0..4).map(|_| round.members[0].place(socket(), NO_LIMIT));
        // Permits that are kept count as open.
        let kept: Vec<_> = places.collect();
        assert_eq!(kept.iter().filter(|placed| matches!(placed, Placed::Elsewhere)).count(), 2);
        assert_eq!(waker.0.load(Ordering::Relaxed), 1);
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
