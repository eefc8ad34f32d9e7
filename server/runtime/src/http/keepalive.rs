//! The timer by which hyper pings HTTP/2 clients: one that is there answers, and its silent streams
//! stay; one that is gone is found out before the kernel does.
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};
use send_wrapper::SendWrapper;

use crate::timers::{now, sleep};

/// hyper's timer on this executor.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalTimer;

/// hyper asks for `Send`; a connection stays on its core.
struct LocalSleep(SendWrapper<Pin<Box<dyn Future<Output = ()>>>>);

impl Timer for LocalTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(LocalSleep(SendWrapper::new(Box::pin(sleep(duration)))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(now()))
    }

    fn now(&self) -> Instant {
        now()
    }
}

impl Sleep for LocalSleep {}

impl Future for LocalSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
