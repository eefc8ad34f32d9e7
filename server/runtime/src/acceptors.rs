//! The acceptors of one address: how many connections each has, and what one hands to another.
//!
//! The kernel deals connections out to listening sockets by a hash, so of few connections one executor
//! may get most. A core that accepts one while another has fewer hands it over before anything is read of it.
//! That takes a lock and, at most, a wake for each connection accepted, and nothing for each request.
use std::{
    collections::VecDeque,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use socket2::Socket;

use super::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};

/// An acceptor may have one in so many connections more than the one with the fewest: with less than
/// that many each, they are even to one.
pub(super) const EVEN_ENOUGH: usize = 16;

/// All that listen on one address; clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Acceptors(Arc<Mutex<Vec<Arc<Acceptor>>>>);

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
    acceptors: Acceptors,
    own: Arc<Acceptor>,
}

/// Where an accepted connection goes.
#[derive(Debug)]
pub(super) enum Placed {
    /// It stays.
    Here(Socket, AcceptorLease),
    /// Another acceptor has it now.
    Elsewhere,
    /// All have as many as they may.
    Full(Socket),
}

/// One connection's place under the limit; free again when dropped.
#[derive(Debug)]
pub(super) struct AcceptorLease(Arc<Acceptor>);

impl Drop for AcceptorLease {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Acceptors {
    /// Takes part from now on.
    pub(super) fn join(&self) -> Member {
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
            return Placed::Full(socket);
        }
        chosen.open.fetch_add(1, Ordering::Relaxed);
        if Arc::ptr_eq(chosen, &self.own) {
            return Placed::Here(socket, AcceptorLease(self.own.clone()));
        }
        let mut handed = chosen.handed();
        handed.sockets.push_back(socket);
        if let Some(waker) = handed.waker.take() {
            waker.wake();
        }
        Placed::Elsewhere
    }

    /// The next connection that another acceptor handed over.
    pub(super) fn poll_handed(&self, cx: &Context<'_>) -> Poll<(Socket, AcceptorLease)> {
        let mut handed = self.own.handed();
        if let Some(socket) = handed.sockets.pop_front() {
            return Poll::Ready((socket, AcceptorLease(self.own.clone())));
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
