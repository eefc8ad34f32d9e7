//! Tests of the point at which some arrive and others wait.
use std::{future::Future, pin::Pin, sync::Arc, task::Context};

use silverback_test_support::waking::Wakes;

use super::arrivals::Arrivals;

#[test]
fn each_is_woken_once_by_the_arrival_that_it_waits_for() {
    let arrivals = Arrivals::default();
    let mut waiting = [3, 2, 3].map(|wanted| (arrivals.reached(wanted), Arc::<Wakes>::default()));
    let mut are_there = || {
        waiting.each_mut().map(|(reached, wakes)| {
            let woken = wakes.count();
            let waker = Arc::clone(wakes).into();
            (Pin::new(reached).poll(&mut Context::from_waker(&waker)).is_ready(), woken)
        })
    };
    assert_eq!(are_there(), [(false, 0); 3]);
    assert_eq!(arrivals.arrive(), 1);
    assert_eq!(are_there(), [(false, 0); 3], "nobody is woken for nothing");
    assert_eq!(arrivals.arrive(), 2);
    assert_eq!(are_there(), [(false, 0), (true, 1), (false, 0)]);
    assert_eq!(arrivals.clone().arrive(), 3);
    assert_eq!(are_there(), [(true, 1), (true, 1), (true, 1)]);
    assert_eq!(arrivals.arrive(), 4);
    assert_eq!(are_there(), [(true, 1), (true, 1), (true, 1)]);
}
