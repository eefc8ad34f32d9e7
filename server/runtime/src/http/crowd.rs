//! The connections of one address on an executor, of which one gives way to another: who comes to an address, whatever
//! that is for, ends none of another's. Which one gives way is the watches' to know.
use std::cell::Cell;

/// The connections of one listener.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    none_to_spare_at: Cell<Option<u64>>,
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
}
