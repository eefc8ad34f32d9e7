//! Bytes that something may take all together on one core, and who has how many of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::routing::{Overloaded, ReadLease};
use silverback_model::limits::memory::SMALL_REQUESTS_SHARE;

/// A bound on bytes. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    taken_bytes: Rc<Cell<usize>>,
    bytes_max: usize,
    /// What may be taken for now: no more than that.
    allowed_bytes: Rc<Cell<usize>>,
    small: SmallPart,
}

/// Of a budget, what large requests leave free for small ones.
#[derive(Debug, Clone, Default)]
struct SmallPart {
    taken_bytes: Rc<Cell<usize>>,
    bytes_max: usize,
    /// A request that takes more is none of the small.
    request_bytes_max: usize,
}

/// Of the part of the small, one request takes no more than this fraction.
const SMALL_REQUEST_SHARE: usize = 4;

/// Bytes of a budget that a request, or a stream, holds until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    bytes: usize,
    /// Whether it is in the part of the small: each begins there that doesn't say how large it will be.
    is_small: bool,
}

/// The room that a request takes. Shared by all that may still hold what it is taken for: given back
/// after the last of them.
#[derive(Debug, Clone, Default)]
pub struct SharedReservation {
    _of_request: Option<Rc<Reservation>>,
    /// The series that the request's stream has defined.
    _of_definitions: Option<Rc<RefCell<Reservation>>>,
    /// The message that the request's native histograms lie in.
    _of_message: Option<Rc<Reservation>>,
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
        let allowed_bytes = Rc::new(Cell::new(bytes_max));
        Self { taken_bytes: Rc::default(), bytes_max, allowed_bytes, small: SmallPart::default() }
    }

    /// The same, with a part that large requests leave free: few that are as large as may be would have all others
    /// refused.
    pub(crate) fn with_small_part(bytes_max: usize) -> Self {
        let of_small = bytes_max / SMALL_REQUESTS_SHARE;
        let request_bytes_max = of_small / SMALL_REQUEST_SHARE;
        let small = SmallPart { taken_bytes: Rc::default(), bytes_max: of_small, request_bytes_max };
        Self { small, ..Self::new(bytes_max) }
    }

    /// A request that has no room yet.
    pub fn begin(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0, is_small: true }
    }

    /// Lets all together take no more than so many for now. What is taken stays.
    pub(crate) fn allow(&self, bytes: usize) {
        self.allowed_bytes.set(bytes.min(self.bytes_max));
    }

    /// Bytes that may be taken in all.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn give_back(&self, bytes: usize, is_small: bool) {
        self.taken_bytes.set(self.taken_bytes.get() - bytes);
        if is_small {
            self.small.taken_bytes.set(self.small.taken_bytes.get() - bytes);
        }
    }

    /// What of it is for requests of any size.
    pub(crate) fn large_bytes_max(&self) -> usize {
        self.bytes_max - self.small.bytes_max
    }

    /// Whether one in `share` of what may be taken for now is taken.
    pub(crate) fn is_taken_to(&self, share: usize) -> bool {
        self.taken_bytes() > self.allowed_bytes.get() / share
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

    /// Gives so many bytes back, of those that it has.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.budget.give_back(bytes, self.is_small);
        self.bytes -= bytes;
    }

    /// The request says that it will have so many bytes: a large one takes nothing of the part of the small, not even
    /// as it begins.
    pub(crate) fn expect(&mut self, bytes: usize) {
        if self.bytes == 0 && bytes > self.budget.small.request_bytes_max {
            self.is_small = false;
        }
    }

    /// Makes room for so many bytes more of the request, or refuses it.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let ByteBudget { taken_bytes, small, .. } = &self.budget;
        let of_small = small.taken_bytes.get();
        let fits_small = self.bytes + bytes <= small.request_bytes_max && of_small + bytes <= small.bytes_max;
        if self.is_small && fits_small {
            small.taken_bytes.set(of_small + bytes);
        } else {
            // From the part of the small it goes over with all that it has.
            let (own, more) = if self.is_small { (0, self.bytes + bytes) } else { (self.bytes, bytes) };
            let of_large = taken_bytes.get() - of_small;
            // One request always fits, so that none is refused forever.
            if of_large + more > self.budget.allowed_bytes.get().min(self.budget.large_bytes_max())
                && of_large > own
            {
                return Err(Overloaded);
            }
            if self.is_small {
                small.taken_bytes.set(of_small - self.bytes);
                self.is_small = false;
            }
        }
        taken_bytes.set(taken_bytes.get() + bytes);
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
        let bytes_max = self.budget.large_bytes_max();
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

    /// The same of one whose message is kept, too.
    pub(crate) fn with_message(self, message: Rc<Reservation>) -> Self {
        Self { _of_message: Some(message), ..self }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes, self.is_small);
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
    fn small_requests_have_room_beside_large_ones_that_take_all_they_may() {
        // 100 of them for small requests, 25 for each.
        let budget = ByteBudget::with_small_part(1600);
        budget.allow(400);
        let mut lone = budget.begin();
        assert_eq!(lone.grow_to(1501), Err(BudgetExceeded::TooMuch { bytes_max: 1500 }));
        lone.grow_to(1500).unwrap();
        assert_eq!(budget.begin().grow_to(26), Err(BudgetExceeded::Overloaded));
        let mut small: Vec<_> = std::iter::repeat_with(|| budget.begin()).take(4).collect();
        small.iter_mut().for_each(|small| small.grow(25).unwrap());
        assert_eq!(budget.begin().grow_to(1), Err(BudgetExceeded::Overloaded), "their part is taken");
        assert_eq!(budget.taken_bytes(), 1600);
        assert_eq!(small[0].grow_to(26), Err(BudgetExceeded::Overloaded), "it would be large");
        drop(lone);
        small[0].grow_to(26).unwrap();
        budget.begin().grow(25).expect("what has grown has left the part of the small");
        drop(small);
        assert_eq!((budget.taken_bytes(), budget.small.taken_bytes.get()), (0, 0));
    }

    #[test]
    fn a_large_request_takes_nothing_of_the_part_of_the_small_as_it_begins() {
        let budget = ByteBudget::with_small_part(1600);
        let mut large: Vec<_> = std::iter::repeat_with(|| budget.begin()).take(8).collect();
        for large in &mut large {
            large.expect(1000);
            large.grow(20).unwrap();
        }
        assert_eq!((budget.taken_bytes(), budget.small.taken_bytes.get()), (160, 0));
        let mut small = budget.begin();
        small.expect(25);
        small.grow(25).unwrap();
        assert_eq!(budget.small.taken_bytes.get(), 25);
        drop((small, large));
        assert_eq!((budget.taken_bytes(), budget.small.taken_bytes.get()), (0, 0));
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
        assert_eq!((budget.taken_bytes(), budget.is_taken_to(1), budget.is_taken_to(2)), (90, false, true));
        one.shrink(50);
        assert_eq!((one.bytes(), budget.taken_bytes(), budget.is_taken_to(2)), (40, 40, false));
        one.shrink(50);
        drop(one);
        assert_eq!(budget.taken_bytes(), 0);
    }
}
