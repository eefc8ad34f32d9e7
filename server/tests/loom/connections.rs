//! Connections that acceptors place, hand over, take and close at the same time.
use std::{
    future::poll_fn,
    io::{ErrorKind, Read},
    os::unix::net::UnixStream,
    task::{Context, Poll},
};

use futures::task::noop_waker_ref;
use loom::{future::block_on, thread};
use socket2::Socket;

use crate::{
    acceptors::{AcceptorLease, Acceptors, Member, Placed},
    check,
};

const NO_LIMIT: usize = usize::MAX;

fn socket() -> Socket {
    connection().1
}

/// The client's end, and what an acceptor accepts.
fn connection() -> (UnixStream, Socket) {
    let (client, accepted) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    (client, accepted.into())
}

fn is_closed(mut client: &UnixStream) -> bool {
    match client.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

fn two_members() -> [Member; 2] {
    let acceptors = Acceptors::default();
    [acceptors.join(), acceptors.join()]
}

fn place_here(member: &Member, open_max: usize) -> (Socket, AcceptorLease) {
    match member.place(socket(), open_max) {
        Placed::Here(socket, permit) => (socket, permit),
        placed @ (Placed::Elsewhere | Placed::Full(_)) => panic!("{placed:?}"),
    }
}

/// What was handed over to a member and not taken yet.
fn take_handed(member: &Member) -> Vec<(Socket, AcceptorLease)> {
    let cx = Context::from_waker(noop_waker_ref());
    let mut taken = Vec::new();
    while let Poll::Ready(handed) = member.poll_handed(&cx) {
        taken.push(handed);
    }
    taken
}

/// A limit of one connection each leaves room for exactly one each.
fn assert_none_open(members: &[Member; 2]) {
    let _open = members.each_ref().map(|member| place_here(member, 1));
    for member in members {
        let Placed::Full(refused) = member.place(socket(), 1) else { panic!("there is room for one") };
        drop(refused);
    }
}

#[test]
fn one_who_waits_gets_what_is_handed_over() {
    check(|| {
        let [placing, waiting] = two_members();
        let kept = place_here(&placing, NO_LIMIT);
        let placing = thread::spawn(move || {
            assert!(matches!(placing.place(socket(), NO_LIMIT), Placed::Elsewhere));
            placing
        });
        // Would wait forever if it weren't woken: loom calls that a deadlock.
        let taken = block_on(poll_fn(|cx| waiting.poll_handed(cx)));
        let placing = placing.join().unwrap();
        drop((kept, taken));
        assert_none_open(&[placing, waiting]);
    });
}

#[test]
fn no_acceptor_has_more_than_its_limit_whoever_places() {
    check(|| {
        let place_two = |member: Member| {
            let placed = [(); 2].map(|()| member.place(socket(), 1));
            (member, placed)
        };
        let [a, b] = two_members();
        let b = thread::spawn(move || place_two(b));
        let (a, b) = (place_two(a), b.join().unwrap());
        let refused = a.1.iter().chain(&b.1).filter(|placed| matches!(placed, Placed::Full(_))).count();
        assert_eq!(refused, 2);
        for (member, placed) in [&a, &b] {
            let here = placed.iter().filter(|placed| matches!(placed, Placed::Here(..))).count();
            assert_eq!(here + take_handed(member).len(), 1);
        }
        let ((a, of_a), (b, of_b)) = (a, b);
        drop((of_a, of_b));
        assert_none_open(&[a, b]);
    });
}

#[test]
fn none_is_open_when_all_have_ended_wherever_they_were() {
    check(|| {
        let place_end_and_take = |member: Member| {
            let placed = [(); 2].map(|()| member.place(socket(), NO_LIMIT));
            drop(placed);
            drop(take_handed(&member));
            member
        };
        let [a, b] = two_members();
        let b = thread::spawn(move || place_end_and_take(b));
        let members = [place_end_and_take(a), b.join().unwrap()];
        drop(members.each_ref().map(take_handed));
        assert_none_open(&members);
    });
}

#[test]
fn what_is_handed_to_one_who_leaves_is_taken_or_closed() {
    check(|| {
        let [placing, leaving] = two_members();
        // The one who leaves has the fewest, and its own connection outlives its leaving.
        let kept = [&placing, &leaving, &placing].map(|member| place_here(member, NO_LIMIT));
        let (client, accepted) = connection();
        let leaves = thread::spawn(move || {
            let cx = Context::from_waker(noop_waker_ref());
            let taken = leaving.poll_handed(&cx);
            drop(leaving);
            taken
        });
        let placed = placing.place(accepted, NO_LIMIT);
        let taken = leaves.join().unwrap();
        match (&placed, &taken) {
            (Placed::Here(..), Poll::Pending) | (Placed::Elsewhere, Poll::Ready(_)) => {
                assert!(!is_closed(&client));
            }
            (Placed::Elsewhere, Poll::Pending) => assert!(is_closed(&client)),
            (Placed::Here(..), Poll::Ready(_)) | (Placed::Full(_), _) => panic!("{placed:?}, {taken:?}"),
        }
        drop(kept);
    });
}
