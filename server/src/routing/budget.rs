//! Bytes that something may take all together on one core, and who has how many of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::routing::{Overloaded, ReadLease};

/// A bound on bytes. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    taken_bytes: Rc<Cell<usize>>,
    bytes_max: usize,
    /// What may be taken for now: no more than that.
    allowed_bytes: Rc<Cell<usize>>,
}

/// Bytes of a budget that a request, or a stream, holds until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    bytes: usize,
}

/// The room that a request takes. Shared by all that may still hold what it is taken for: given back
/// after the last of them.
#[derive(Debug, Clone, Default)]
pub struct SharedReservation {
    _of_request: Option<Rc<Reservation>>,
    /// The series that the request's stream has defined.
    _of_definitions: Option<Rc<RefCell<Reservation>>>,
    /// The read that the request is a part of.
    _of_read: Option<ReadLease>,
}

/// Why a request got no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetExceeded {
    /// Others have it: try again later.
    Overloaded,
    /// It alone would take more than all may.
    TooMuch {
        /// What all may take.
        bytes_max: usize,
    },
}

impl ByteBudget {
    /// Room for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { taken_bytes: Rc::default(), bytes_max, allowed_bytes: Rc::new(Cell::new(bytes_max)) }
    }

    /// A request that has no room yet.
    pub fn begin(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Lets all together take no more than so many for now. What is taken stays.
    pub(crate) fn allow(&self, bytes: usize) {
        self.allowed_bytes.set(bytes.min(self.bytes_max));
    }

    /// Bytes that may be taken in all.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that are taken now.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken_bytes.get()
    }
}

impl Reservation {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes room for so many bytes more of the request, or refuses it.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let taken = self.budget.taken_bytes.get();
        // One request always fits, so that none is refused forever.
        if taken + bytes > self.budget.allowed_bytes.get() && taken > self.bytes {
            return Err(Overloaded);
        }
        self.budget.taken_bytes.set(taken + bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for so many bytes more, or refuses them. Beyond the bound there is none, not even
    /// for a lone request.
    pub(crate) fn grow_within(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.grow_to(self.bytes + bytes)
    }

    /// Makes room for what the request takes in all, once that is known. Beyond the bound there is
    /// none, not even for a lone request.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let bytes_max = self.budget.bytes_max;
        if bytes > bytes_max {
            return Err(BudgetExceeded::TooMuch { bytes_max });
        }
        self.grow(bytes.saturating_sub(self.bytes)).map_err(|_| BudgetExceeded::Overloaded)
    }
}

impl From<Reservation> for SharedReservation {
    fn from(request: Reservation) -> Self {
        Self { _of_request: Some(Rc::new(request)), ..Self::default() }
    }
}

impl From<ReadLease> for SharedReservation {
    fn from(read: ReadLease) -> Self {
        Self { _of_read: Some(read), ..Self::default() }
    }
}

impl SharedReservation {
    /// The room of a request whose series' labels lie with its stream's definitions.
    pub(crate) fn with_definitions(self, definitions: &Rc<RefCell<Reservation>>) -> Self {
        Self { _of_definitions: Some(Rc::clone(definitions)), ..self }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let taken = &self.budget.taken_bytes;
        taken.set(taken.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_bound_are_refused_but_never_a_lone_one() {
        let budget = ByteBudget::new(100);
        let mut lone = budget.begin();
        lone.grow(300).unwrap();
        lone.grow(200).unwrap();
        assert!(budget.begin().grow(1).is_err());
        drop(lone);
        let (mut small, mut other) = (budget.begin(), budget.begin());
        small.grow(60).unwrap();
        assert!(other.grow(41).is_err());
        other.grow(40).unwrap();
        assert!(small.grow(1).is_err(), "a request that grows is not alone");
        drop((small, other));
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn where_less_is_allowed_for_now_requests_are_to_come_again_and_none_is_refused_for_good() {
        let budget = ByteBudget::new(100);
        let mut before = budget.begin();
        before.grow(60).unwrap();
        budget.allow(50);
        let mut other = budget.begin();
        assert_eq!(other.grow_to(10), Err(BudgetExceeded::Overloaded));
        drop(before);
        assert_eq!(other.grow_to(90), Ok(()), "it is alone");
        drop(other);
        budget.allow(500);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        assert_eq!((one.grow_to(60), other.grow_to(41)), (Ok(()), Err(BudgetExceeded::Overloaded)));
    }

    #[test]
    fn a_request_that_turns_out_to_take_more_than_all_may_is_refused_for_good() {
        let budget = ByteBudget::new(100);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        assert_eq!(one.grow_to(60), Ok(()));
        assert_eq!(one.grow_to(50), Ok(()), "it has that already");
        assert_eq!(other.grow_to(50), Err(BudgetExceeded::Overloaded));
        assert_eq!(one.grow_to(101), Err(BudgetExceeded::TooMuch { bytes_max: 100 }));
        assert_eq!(budget.taken_bytes(), 60);
        assert_eq!(one.grow_within(30), Ok(()));
        assert_eq!(other.grow_within(11), Err(BudgetExceeded::Overloaded));
        assert_eq!(one.grow_within(11), Err(BudgetExceeded::TooMuch { bytes_max: 100 }));
        assert_eq!(budget.taken_bytes(), 90);
    }
}
