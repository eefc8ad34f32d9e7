//! Tests of the notice that the node is to end.
use std::{future::Future, pin::Pin, sync::Arc, task::Context};

use futures::task::noop_waker_ref;

use super::{shutdown::Shutdown, wake_count::WakeCount};

#[test]
fn a_notice_reaches_those_who_wait_and_those_who_ask_later() {
    let shutdown = Shutdown::new();
    let mut early = shutdown.requested();
    let mut cx = Context::from_waker(noop_waker_ref());
    assert!(Pin::new(&mut early).poll(&mut cx).is_pending());
    assert!(!shutdown.is_requested());

    shutdown.clone().request();

    assert!(Pin::new(&mut early).poll(&mut cx).is_ready());
    assert!(Pin::new(&mut shutdown.requested()).poll(&mut cx).is_ready());
}

#[test]
fn a_waiter_takes_one_place_however_often_it_is_polled_and_leaves_it_when_dropped() {
    let shutdown = Shutdown::new();
    let (mut waiter, wakes) = (shutdown.requested(), Arc::<WakeCount>::default());
    for _ in 0..3 {
        assert!(Pin::new(&mut waiter).poll(&mut Context::from_waker(&wakes.clone().into())).is_pending());
    }
    assert_eq!(Arc::strong_count(&wakes), 2, "this one and the one that waits");
    drop(waiter);
    assert_eq!(Arc::strong_count(&wakes), 1);
    shutdown.request();
    assert_eq!(wakes.count(), 0);
}
