//! Cores that want the turn to hand a cell over at the same time.
use loom::thread;

use crate::{
    check,
    sync::{Arc, AtomicUsize, Ordering},
    turn::Turn,
};

/// What only who has the turn touches, so that a load and a store are enough.
#[derive(Default)]
struct Guarded {
    holders: AtomicUsize,
    handed_over: AtomicUsize,
}

/// Takes the turn if it is free, and says whether it was.
fn hand_over(turn: &Turn, guarded: &Guarded) -> bool {
    let Some(_taken) = turn.take() else { return false };
    assert_eq!(guarded.holders.fetch_add(1, Ordering::Relaxed), 0);
    let before = guarded.handed_over.load(Ordering::Relaxed);
    guarded.handed_over.store(before + 1, Ordering::Relaxed);
    guarded.holders.fetch_sub(1, Ordering::Relaxed);
    true
}

#[test]
fn one_core_at_a_time_has_the_turn_and_sees_what_those_before_it_did() {
    check(|| {
        let (turn, guarded) = (Turn::default(), Arc::<Guarded>::default());
        let twice = move |turn: &Turn, guarded: &Guarded| {
            usize::from(hand_over(turn, guarded)) + usize::from(hand_over(turn, guarded))
        };
        let other = {
            let (turn, guarded) = (turn.clone(), guarded.clone());
            thread::spawn(move || twice(&turn, &guarded))
        };
        let times = twice(&turn, &guarded) + other.join().unwrap();
        assert!(times >= 2, "nobody finds it taken but by one who has it");
        assert_eq!(guarded.handed_over.load(Ordering::Relaxed), times);
        assert!(turn.take().is_some(), "it was given back");
    });
}

#[test]
fn one_who_finds_it_taken_does_not_give_it_back_for_the_other() {
    check(|| {
        let turn = Turn::default();
        let taken = turn.take();
        let other = turn.clone();
        thread::spawn(move || assert!(other.take().is_none())).join().unwrap();
        assert!(turn.take().is_none());
        drop(taken);
        assert!(turn.take().is_some());
    });
}
