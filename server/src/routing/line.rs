//! Those who wait for room with some in hand, in the order in which they found none. Those who do would wait for each
//! other: so all but the first leave the others a half of the room. It knows no time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Those of one budget.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By the number that each drew when it found no room.
    waiting: RefCell<BTreeSet<u64>>,
    drawn: Cell<u64>,
    /// What they, and those that haven't had to wait yet, have in hand.
    held_bytes: Cell<usize>,
}

/// Of all the room, what those that aren't the first in line may have together.
const OTHERS_SHARE: usize = 2;

/// The place of one who may have to wait: the number that it drew, if it has had to.
#[derive(Debug, Default)]
pub(super) struct QueueNumber(Option<u64>);

impl Line {
    /// Whether one may take so many bytes more, where all may have `bytes_max`: in its turn it may take any.
    pub(super) fn may_take(&self, place: &mut QueueNumber, bytes: usize, bytes_max: usize) -> bool {
        let leaves_others_theirs = self.held_bytes.get() + bytes <= bytes_max / OTHERS_SHARE;
        leaves_others_theirs || self.queue(place)
    }

    /// One waits. Returns whether it is the first that does.
    pub(super) fn queue(&self, QueueNumber(number): &mut QueueNumber) -> bool {
        let number = *number.get_or_insert_with(|| {
            self.drawn.set(self.drawn.get() + 1);
            self.drawn.get()
        });
        let mut waiting = self.waiting.borrow_mut();
        waiting.insert(number);
        waiting.first() == Some(&number)
    }

    /// One lets those go first who wait behind it, or has gone.
    pub(super) fn leave(&self, QueueNumber(number): &mut QueueNumber) {
        if let Some(number) = number.take() {
            self.waiting.borrow_mut().remove(&number);
        }
    }

    pub(super) fn took(&self, bytes: usize) {
        self.held_bytes.set(self.held_bytes.get() + bytes);
    }

    pub(super) fn gave_back(&self, bytes: usize) {
        self.held_bytes.set(self.held_bytes.get() - bytes);
    }
}

impl QueueNumber {
    /// Whether it has had to wait, and hasn't left the line since.
    pub(super) fn waits(&self) -> bool {
        self.0.is_some()
    }
}
