//! The notice to end, given while some wait for it, some come, and some go; and threads that wait for each other.
use std::{future::Future, pin::Pin, task::Context};

use futures::task::noop_waker_ref;
use loom::{future::block_on, thread};

use crate::{
    arrivals::Arrivals,
    check,
    shutdown::Shutdown,
    sync::{Arc, AtomicBool, Ordering},
};

#[test]
fn all_who_wait_are_woken() {
    check(|| {
        let shutdown = Shutdown::new();
        let waits = {
            let shutdown = shutdown.clone();
            thread::spawn(move || block_on(shutdown.requested()))
        };
        let requests = {
            let shutdown = shutdown.clone();
            thread::spawn(move || shutdown.request())
        };
        // Would wait forever if it weren't woken: loom calls that a deadlock.
        block_on(shutdown.requested());
        waits.join().unwrap();
        requests.join().unwrap();
    });
}

#[test]
fn who_sees_the_notice_sees_what_was_done_before_it() {
    check(|| {
        let (shutdown, done_before) = (Shutdown::new(), Arc::<AtomicBool>::default());
        let requests = {
            let (shutdown, done_before) = (shutdown.clone(), done_before.clone());
            thread::spawn(move || {
                done_before.store(true, Ordering::Relaxed);
                shutdown.request();
            })
        };
        if shutdown.is_requested() {
            assert!(done_before.load(Ordering::Relaxed));
        }
        requests.join().unwrap();
    });
}

#[test]
fn one_who_gives_up_waiting_takes_the_notice_from_nobody() {
    check(|| {
        let shutdown = Shutdown::new();
        let waits = {
            let shutdown = shutdown.clone();
            thread::spawn(move || block_on(shutdown.requested()))
        };
        let mut gives_up = shutdown.requested();
        assert!(Pin::new(&mut gives_up).poll(&mut Context::from_waker(noop_waker_ref())).is_pending());
        drop(gives_up);
        shutdown.request();
        waits.join().unwrap();
    });
}

#[test]
fn those_who_meet_go_on_together() {
    check(|| {
        let arrivals = Arrivals::default();
        let comes = |arrivals: Arrivals| {
            arrivals.arrive();
            block_on(arrivals.reached(2));
            assert_eq!(arrivals.count(), 2);
        };
        let other = {
            let arrivals = arrivals.clone();
            thread::spawn(move || comes(arrivals))
        };
        comes(arrivals);
        other.join().unwrap();
    });
}
