//! Whose turn it is to do what is done once at a time, such as to hand a cell over: one core's of the node, or nobody's.
use super::sync::{Arc, AtomicBool, Ordering};

/// A node's; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Turn(Arc<AtomicBool>);

/// The turn, given back when dropped.
#[derive(Debug)]
pub(crate) struct TurnLease<'a>(&'a AtomicBool);

impl Turn {
    /// Takes it, unless another has it.
    pub(crate) fn take(&self) -> Option<TurnLease<'_>> {
        // Not made where another has it: dropped, it would give that one's back.
        let taken = self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| TurnLease(&self.0))
    }
}

impl Drop for TurnLease<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
