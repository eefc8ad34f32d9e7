//! A connection that is asked to go once what is in flight is answered. HTTP/2 says so, and waits for its client to answer
//! that: one that doesn't is closed all the same, some time after the last byte of its answers.
use std::cell::Cell;

/// What is noted of it, by the numbers of looks.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    asked: Cell<Option<u64>>,
    written: Cell<u64>,
}

impl Farewell {
    /// Asks it to go. Returns whether it wasn't asked before.
    pub(super) fn ask(&self, look: u64) -> bool {
        let is_first = !self.is_asked();
        if is_first {
            self.asked.set(Some(look));
        }
        is_first
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.get().is_some()
    }

    /// Bytes went out: what its last requests were answered may still be on its way.
    pub(super) fn written(&self, look: u64) {
        self.written.set(look);
    }

    /// Since when it stays for nothing, where it has been idle since then and is asked to go.
    pub(super) fn stays_since(&self, idle_since: u64) -> Option<u64> {
        self.asked.get().map(|asked| asked.max(idle_since).max(self.written.get()))
    }
}
