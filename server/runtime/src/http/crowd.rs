//! The connections of one address on an executor, of which one gives way to another: who comes to an address, whatever
//! that is for, ends none of another's. Those whose TLS handshake isn't through are known here by who has made them; of
//! the others the watches know which one gives way.
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use super::watch::Watch;
use crate::{
    peers::{ByPeer, Peer, PeerNumber},
    timers::now,
};

/// What a connection has for its handshake before it gives way to a new one, where no address has more than others.
const HANDSHAKE_MIN: Duration = Duration::from_millis(100);

/// The connections of one listener.
#[derive(Default)]
pub(super) struct Crowd {
    none_to_spare_at: Cell<Option<u64>>,
    unfinished: RefCell<ByPeer<(Rc<Watch>, Instant)>>,
}

/// A connection's handshake, until it is through: then this is dropped.
pub(super) struct UnfinishedHandshake {
    crowd: Rc<Crowd>,
    number: PeerNumber,
}

impl Crowd {
    /// Whether no connection could be spared at that look: until the next one, none can.
    pub(super) fn has_none_to_spare_at(&self, look: u64) -> bool {
        self.none_to_spare_at.get() == Some(look)
    }

    /// No connection can be spared at that look.
    pub(super) fn found_none_to_spare_at(&self, look: u64) {
        self.none_to_spare_at.set(Some(look));
    }

    /// A connection has a handshake before it.
    pub(super) fn begins(self: &Rc<Self>, watch: &Rc<Watch>, peer: Peer) -> UnfinishedHandshake {
        let number = self.unfinished.borrow_mut().insert(peer, (Rc::clone(watch), now()));
        UnfinishedHandshake { crowd: Rc::clone(self), number }
    }

    /// Takes out the one that isn't through and gives way to a newcomer: the first of the address that has most, where
    /// that has more than the newcomer's would have; otherwise the first of all, if it has had its time.
    pub(super) fn take_unfinished(&self, newcomer: Peer) -> Option<Rc<Watch>> {
        let mut unfinished = self.unfinished.borrow_mut();
        let (most, whose) = unfinished.most()?;
        let (number, _) = match most > unfinished.count(newcomer) + 1 {
            true => unfinished.first_of(whose)?,
            false => unfinished
                .first()
                .filter(|(_, (_, since))| now().saturating_duration_since(*since) >= HANDSHAKE_MIN)?,
        };
        unfinished.remove(number).map(|(watch, _)| watch)
    }
}

impl Drop for UnfinishedHandshake {
    fn drop(&mut self) {
        let gone = self.crowd.unfinished.borrow_mut().remove(self.number);
        drop(gone);
    }
}
