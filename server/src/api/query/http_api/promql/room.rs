//! What a query holds of its core's memory for reads: what its request took, the series at hand, what is computed of
//! them, the answer.

use std::cell::RefCell;
use std::rc::Rc;

use crate::routing::{BudgetExceeded, Reservation};
use silverback_promql::{QueryError, Room};

/// A query's memory. Clones share it; it is given back after the last of them.
#[derive(Debug, Clone)]
pub(super) struct QueryRoom(Rc<RefCell<Reservation>>);

impl QueryRoom {
    /// With what is taken for the query already.
    pub(super) fn new(taken: Reservation) -> Self {
        Self(Rc::new(RefCell::new(taken)))
    }

    /// Nothing yet; it grows by [`Part::grow`].
    pub(super) fn part(&self) -> Part {
        Part { room: self.clone(), bytes: 0 }
    }
}

impl Room for QueryRoom {
    fn take(&self, bytes: usize) -> Result<(), QueryError> {
        self.0.borrow_mut().grow_within(bytes).map_err(|no_room| match no_room {
            BudgetExceeded::Overloaded => QueryError::NoRoom,
            BudgetExceeded::TooMuch { bytes_max } => QueryError::TooMuchMemory { bytes_max },
        })
    }

    fn give_back(&self, bytes: usize) {
        self.0.borrow_mut().shrink(bytes);
    }
}

/// A part of a query's memory, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    room: QueryRoom,
    bytes: usize,
}

impl Part {
    /// Takes so many bytes more, or says why not.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.room.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::ByteBudget;

    #[test]
    fn what_can_never_fit_is_told_apart_from_what_others_hold() {
        let budget = ByteBudget::new(100);
        let mut taken = budget.begin();
        taken.grow(10).unwrap();
        let room = QueryRoom::new(taken);
        assert_eq!(
            room.take(91),
            Err(QueryError::TooMuchMemory { bytes_max: 100 }),
            "its request counts, too"
        );
        let mut part = room.part();
        assert_eq!(part.grow(90), Ok(()));
        let other = QueryRoom::new(budget.begin());
        assert_eq!(other.take(1), Err(QueryError::NoRoom));
        drop(part);
        assert_eq!(other.take(90), Ok(()));
    }
}
