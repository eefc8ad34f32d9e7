//! What happened in a run: a hash always, and every line of it where a single seed is replayed.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use crate::random::mixed;

/// Cheap to clone; a clone is the same trace.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    hash: Rc<Cell<u64>>,
    shown: Shown,
}

/// Whether the lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Hidden,
    Printed,
}

impl Trace {
    pub(crate) fn new(shown: Shown) -> Self {
        Self { hash: Rc::default(), shown }
    }

    /// Adds an event: its kind and two numbers are hashed, its words are printed.
    pub(crate) fn event(&self, kind: &str, numbers: [u64; 2], words: fmt::Arguments<'_>) {
        let folded = kind.bytes().fold(0, |all, byte| all << 5 ^ all >> 59 ^ u64::from(byte));
        let hash = numbers.into_iter().fold(mixed(self.hash.get() ^ folded), |all, n| mixed(all ^ n));
        self.hash.set(hash);
        match self.shown {
            Shown::Hidden => {}
            Shown::Printed => eprintln!("{kind:>12} {words}"),
        }
    }

    /// The hash of all that happened.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.get()
    }
}
