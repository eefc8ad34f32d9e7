//! Tests of acceptors: who has which connection in the end.
use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::task::noop_waker_ref;
use socket2::{Domain, Socket, Type};

use super::{
    acceptors::{AcceptorLease, Acceptors, EVEN_ENOUGH, Member, Placed},
    wake_count::WakeCount,
};

const NO_LIMIT: usize = usize::MAX;

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

/// Acceptors, and what they have open.
struct Round {
    members: Vec<Member>,
    open: Vec<Vec<AcceptorLease>>,
}

impl Round {
    fn of(members: usize) -> Self {
        let acceptors = Acceptors::default();
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
            Placed::Full(_) => None,
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
    let wakes = Arc::<WakeCount>::default();
    let asked = round.members[1].poll_handed(&Context::from_waker(&wakes.clone().into()));
    assert!(asked.is_pending());
    let places = (0..4).map(|_| round.members[0].place(socket(), NO_LIMIT));
    // Permits that are kept count as open.
    let kept: Vec<_> = places.collect();
    assert_eq!(kept.iter().filter(|placed| matches!(placed, Placed::Elsewhere)).count(), 2);
    assert_eq!(wakes.count(), 1);
}
