//! Bytes that something may take all together on one core, and who has how many of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::routing::ReadLease;
use crate::routing::line::{Line, QueueNumber};
use silverback_model::limits::memory::SMALL_REQUESTS_SHARE;

/// A bound on bytes. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    taken_bytes: Cell<usize>,
    bytes_max: usize,
    /// What may be taken for now: no more than that.
    allowed_bytes: Cell<usize>,
    small: SmallPart,
    line: Line,
}

/// Of a budget, what large requests leave free for small ones.
#[derive(Debug, Default)]
struct SmallPart {
    taken_bytes: Cell<usize>,
    bytes_max: usize,
    /// A request that takes more isn't small.
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
    /// Of one that waits for more with what it has.
    place: Option<QueueNumber>,
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

/// Others have the room: try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded;

/// Why a request got no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationError {
    /// Others have it: try again later.
    Full,
    /// It alone would take more than all may.
    TooMuch {
        /// What all may take.
        bytes_max: usize,
    },
}

impl ByteBudget {
    /// Room for `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self::with(bytes_max, SmallPart::default())
    }

    /// The same, with a part that large requests leave free: few that are as large as may be would have all others
    /// refused.
    pub(crate) fn with_small_part(bytes_max: usize) -> Self {
        let of_small = bytes_max / SMALL_REQUESTS_SHARE;
        let request_bytes_max = of_small / SMALL_REQUEST_SHARE;
        Self::with(bytes_max, SmallPart { bytes_max: of_small, request_bytes_max, ..SmallPart::default() })
    }

    fn with(bytes_max: usize, small: SmallPart) -> Self {
        let (taken_bytes, allowed_bytes) = (Cell::default(), Cell::new(bytes_max));
        Self(Rc::new(Shared { taken_bytes, bytes_max, allowed_bytes, small, line: Line::default() }))
    }

    /// A request that has no room yet.
    pub fn begin(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0, is_small: true, place: None }
    }

    /// The same for what waits for more room with some in hand, a message that comes piece by piece: it is to ask again
    /// where it gets none. Those that wait so get all their room one after the other.
    pub(crate) fn begin_in_line(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0, is_small: true, place: Some(QueueNumber::default()) }
    }

    /// Lets all together take no more than so many for now. What is taken stays.
    pub(crate) fn allow(&self, bytes: usize) {
        self.0.allowed_bytes.set(bytes.min(self.0.bytes_max));
    }

    /// Bytes that may be taken in all.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    fn give_back(&self, bytes: usize, is_small: bool) {
        let Shared { taken_bytes, small, .. } = &*self.0;
        taken_bytes.set(taken_bytes.get() - bytes);
        if is_small {
            small.taken_bytes.set(small.taken_bytes.get() - bytes);
        }
    }

    /// What of it is for requests of any size.
    pub(crate) fn large_bytes_max(&self) -> usize {
        self.0.bytes_max - self.0.small.bytes_max
    }

    /// Whether one in `share` of what may be taken for now is taken.
    pub(crate) fn is_taken_to(&self, share: usize) -> bool {
        self.taken_bytes() > self.0.allowed_bytes.get() / share
    }

    /// Bytes that are taken now.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.0.taken_bytes.get()
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
        if self.place.is_some() {
            self.budget.0.line.gave_back(bytes);
        }
        self.bytes -= bytes;
    }

    /// So many of the bytes that it has, as a room of their own: of a piece that doesn't end with its message.
    pub(crate) fn split_off(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let place = self.place.as_ref().map(|_| QueueNumber::default());
        Self { budget: self.budget.clone(), bytes, is_small: self.is_small, place }
    }

    /// Whether it has had to wait for room.
    pub(crate) fn has_waited(&self) -> bool {
        self.place.as_ref().is_some_and(QueueNumber::waits)
    }

    /// Lets those go first who wait for room, too: until this one needs more again.
    pub(crate) fn let_others_go_first(&mut self) {
        if let Some(place) = &mut self.place {
            self.budget.0.line.leave(place);
        }
    }

    /// The request says that it will have so many bytes: a large one takes nothing of the part of the small, not even
    /// as it begins.
    pub(crate) fn expect(&mut self, bytes: usize) {
        if self.bytes == 0 && bytes > self.budget.0.small.request_bytes_max {
            self.is_small = false;
        }
    }

    /// Makes room for so many bytes more of the request, or refuses it.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let Shared { taken_bytes, allowed_bytes, small, line, .. } = &*self.budget.0;
        let of_small = small.taken_bytes.get();
        let fits_small = self.bytes + bytes <= small.request_bytes_max && of_small + bytes <= small.bytes_max;
        if self.is_small && fits_small {
            small.taken_bytes.set(of_small + bytes);
        } else {
            // From the part of the small it goes over with all that it has.
            let (own, more) = if self.is_small { (0, self.bytes + bytes) } else { (self.bytes, bytes) };
            let of_large = taken_bytes.get() - of_small;
            let bytes_max = allowed_bytes.get().min(self.budget.large_bytes_max());
            let is_turn = self.place.as_mut().is_none_or(|place| line.may_take(place, bytes, bytes_max));
            let fits = is_turn && of_large + more <= bytes_max;
            // One request always fits, so that none is refused forever.
            if !fits && of_large > own {
                self.place.as_mut().map(|place| line.queue(place));
                return Err(BudgetExceeded);
            }
            if self.is_small {
                small.taken_bytes.set(of_small - self.bytes);
                self.is_small = false;
            }
        }
        taken_bytes.set(taken_bytes.get() + bytes);
        if self.place.is_some() {
            line.took(bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for so many bytes more, or refuses them. Beyond the bound there is none, not even
    /// for a lone request.
    pub(crate) fn grow_within(&mut self, bytes: usize) -> Result<(), ReservationError> {
        self.grow_to(self.bytes + bytes)
    }

    /// Makes room for what the request takes in all, once that is known. Beyond the bound there is
    /// none, not even for a lone request.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ReservationError> {
        let bytes_max = self.budget.large_bytes_max();
        if bytes > bytes_max {
            return Err(ReservationError::TooMuch { bytes_max });
        }
        self.grow(bytes.saturating_sub(self.bytes)).map_err(|_| ReservationError::Full)
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
    /// The room of a request whose series' labels are with its stream's definitions.
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
        self.shrink(self.bytes);
        self.let_others_go_first();
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
        assert_eq!(other.grow_to(10), Err(ReservationError::Full));
        drop(before);
        assert_eq!(other.grow_to(90), Ok(()), "it is alone");
        drop(other);
        budget.allow(500);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        assert_eq!((one.grow_to(60), other.grow_to(41)), (Ok(()), Err(ReservationError::Full)));
    }

    #[test]
    fn small_requests_have_room_beside_large_ones_that_take_all_they_may() {
        // 100 of them for small requests, 25 for each.
        let budget = ByteBudget::with_small_part(1600);
        budget.allow(400);
        let mut lone = budget.begin();
        assert_eq!(lone.grow_to(1501), Err(ReservationError::TooMuch { bytes_max: 1500 }));
        lone.grow_to(1500).unwrap();
        assert_eq!(budget.begin().grow_to(26), Err(ReservationError::Full));
        let mut small: Vec<_> = std::iter::repeat_with(|| budget.begin()).take(4).collect();
        small.iter_mut().for_each(|small| small.grow(25).unwrap());
        assert_eq!(budget.begin().grow_to(1), Err(ReservationError::Full), "their part is taken");
        assert_eq!(budget.taken_bytes(), 1600);
        assert_eq!(small[0].grow_to(26), Err(ReservationError::Full), "it would be large");
        drop(lone);
        small[0].grow_to(26).unwrap();
        budget.begin().grow(25).expect("what has grown has left the part of the small");
        drop(small);
        assert_eq!((budget.taken_bytes(), budget.0.small.taken_bytes.get()), (0, 0));
    }

    #[test]
    fn a_large_request_takes_nothing_of_the_part_of_the_small_as_it_begins() {
        let budget = ByteBudget::with_small_part(1600);
        let mut large: Vec<_> = std::iter::repeat_with(|| budget.begin()).take(8).collect();
        for large in &mut large {
            large.expect(1000);
            large.grow(20).unwrap();
        }
        assert_eq!((budget.taken_bytes(), budget.0.small.taken_bytes.get()), (160, 0));
        let mut small = budget.begin();
        small.expect(25);
        small.grow(25).unwrap();
        assert_eq!(budget.0.small.taken_bytes.get(), 25);
        drop((small, large));
        assert_eq!((budget.taken_bytes(), budget.0.small.taken_bytes.get()), (0, 0));
    }

    #[test]
    fn those_that_wait_with_some_in_hand_get_their_room_one_after_the_other() {
        const MESSAGE_BYTES: usize = 40;
        let budget = ByteBudget::new(100);
        let mut messages: Vec<_> = std::iter::repeat_with(|| budget.begin_in_line()).take(16).collect();
        for piece in 0.. {
            for message in &mut messages {
                let _waits = message.grow(5);
            }
            messages.retain(|message| message.bytes() < MESSAGE_BYTES);
            assert!(budget.taken_bytes() <= 100);
            if messages.is_empty() {
                break;
            }
            assert!(piece < 16 * MESSAGE_BYTES / 5, "they wait for each other");
        }
        assert_eq!(budget.taken_bytes(), 0);
        budget.begin().grow(100).expect("who doesn't wait takes all that there is");
    }

    #[test]
    fn who_has_nothing_to_take_room_for_lets_others_go_first() {
        let budget = ByteBudget::new(100);
        let (mut slow, mut other) = (budget.begin_in_line(), budget.begin_in_line());
        let mut passing = budget.begin();
        passing.grow(10).unwrap();
        slow.grow(50).unwrap();
        assert_eq!((other.grow(1), slow.has_waited()), (Ok(()), false), "nobody waits: it is the first");
        assert_eq!((slow.grow(10), slow.has_waited()), (Err(BudgetExceeded), true));
        other.let_others_go_first();
        let rest = other.split_off(1);
        assert_eq!((slow.grow(10), other.grow(1), other.bytes()), (Ok(()), Err(BudgetExceeded), 0));
        drop((slow, rest));
        assert_eq!(other.grow(90), Ok(()));
        drop((other, passing));
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_request_that_turns_out_to_take_more_than_all_may_is_refused_for_good() {
        let budget = ByteBudget::new(100);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        assert_eq!(one.grow_to(60), Ok(()));
        assert_eq!(one.grow_to(50), Ok(()), "it has that already");
        assert_eq!(other.grow_to(50), Err(ReservationError::Full));
        assert_eq!(one.grow_to(101), Err(ReservationError::TooMuch { bytes_max: 100 }));
        assert_eq!(budget.taken_bytes(), 60);
        assert_eq!(one.grow_within(30), Ok(()));
        assert_eq!(other.grow_within(11), Err(ReservationError::Full));
        assert_eq!(one.grow_within(11), Err(ReservationError::TooMuch { bytes_max: 100 }));
        assert_eq!((budget.taken_bytes(), budget.is_taken_to(1), budget.is_taken_to(2)), (90, false, true));
        one.shrink(50);
        assert_eq!((one.bytes(), budget.taken_bytes(), budget.is_taken_to(2)), (40, 40, false));
        one.shrink(50);
        drop(one);
        assert_eq!(budget.taken_bytes(), 0);
    }
}
