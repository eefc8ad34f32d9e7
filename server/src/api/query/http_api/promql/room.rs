//! What a query holds of its core's memory for reads: what its request took, the series at hand, what is computed of
//! them, the answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::routing::{Reservation, ReservationError};
use silverback_promql::{QueryError, Room};

/// A query's memory. Clones share it; it is given back after the last of them.
#[derive(Debug, Clone)]
pub(crate) struct QueryRoom(Rc<Taken>);

#[derive(Debug)]
struct Taken {
    room: RefCell<Reservation>,
    bytes_peak: Cell<usize>,
}

impl QueryRoom {
    /// With what is taken for the query already.
    pub(super) fn new(taken: Reservation) -> Self {
        let bytes_peak = Cell::new(taken.bytes());
        Self(Rc::new(Taken { room: RefCell::new(taken), bytes_peak }))
    }

    /// Bytes that it has now.
    pub(super) fn bytes(&self) -> usize {
        self.0.room.borrow().bytes()
    }

    /// The most bytes that it had.
    pub(super) fn bytes_peak(&self) -> usize {
        self.0.bytes_peak.get()
    }

    /// Nothing yet; it grows by [`QueryRoomPart::grow`].
    pub(crate) fn part(&self) -> QueryRoomPart {
        QueryRoomPart { room: self.clone(), bytes: 0 }
    }
}

impl Room for QueryRoom {
    fn take(&self, bytes: usize) -> Result<(), QueryError> {
        let Taken { room, bytes_peak } = &*self.0;
        room.borrow_mut().grow_within(bytes).map_err(|no_room| match no_room {
            ReservationError::Full => QueryError::BudgetExceeded,
            ReservationError::TooMuch { bytes_max } => QueryError::TooMuchMemory { bytes_max },
        })?;
        bytes_peak.set(bytes_peak.get().max(self.bytes()));
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.0.room.borrow_mut().shrink(bytes);
    }
}

/// A part of a query's memory, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QueryRoomPart {
    room: QueryRoom,
    bytes: usize,
}

impl QueryRoomPart {
    /// Takes so many bytes more, or says why not.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.room.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for QueryRoomPart {
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
        assert_eq!(other.take(1), Err(QueryError::BudgetExceeded));
        drop(part);
        assert_eq!(other.take(90), Ok(()));
        assert_eq!((room.bytes(), room.bytes_peak()), (10, 100));
    }
}
