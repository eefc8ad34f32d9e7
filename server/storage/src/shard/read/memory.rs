//! The memory that reads of one shard collect things in: how much there is, and who gets some next.
//!
//! A read that finds none left waits for others to end. The oldest of all reads never waits: it is the
//! oldest on every shard, so whatever others hold and wait for, one read goes on and ends. No read takes
//! more than the bound; so all together take twice the bound: the bound, and what the oldest one has beyond
//! it. One that comes back later and is older still, as the next part of a query is, may find that taken. It is refused
//! then: if it waited, two reads could wait for each other on two shards.
//!
//! Where the oldest one waits for its client, it is of no use to others that hold a part of what they need and wait for the
//! rest. So the last quarter of the bound is one read's at a time, until its work here ends: then another one may go on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use futures::future::select;

use super::OrEnds;
use crate::message::{ReadTicket, ShardReadError};
use silverback_host::waiters::Changes;
use silverback_model::limits::memory::SELECTS_PLANNED;

/// The last part of so many of the bound is one read's at a time.
const LAST_PART: usize = 4;

/// A bound on what reads collect. A clone is the same bound.
#[derive(Debug, Clone)]
pub struct ReadMemory(Rc<ReadMemoryState>);

#[derive(Debug)]
struct ReadMemoryState {
    bytes_max: usize,
    taken_bytes: Cell<usize>,
    /// By the reads' numbers, the oldest first.
    reads: RefCell<BTreeMap<u64, OneRead>>,
    /// The read that may take of the last part, where one has begun to.
    last_part_holder: Cell<Option<u64>>,
    /// Something was given back, or another read became the oldest, or may take of the last part.
    releases: Changes,
}

/// What is known of a read that is present.
#[derive(Debug)]
struct OneRead {
    ticket: ReadTicket,
    /// Its requests and reservations.
    present: usize,
    /// Its requests alone.
    at_work: usize,
    bytes: usize,
}

/// The memory as one request of a read sees it, which is at work as long as this lives. The read counts as present as long
/// as this, or a reservation, lives.
#[derive(Debug)]
pub(super) struct OfRead(Present);

#[derive(Debug)]
struct Present {
    memory: ReadMemory,
    number: u64,
}

/// Memory that a read has, until it is dropped.
#[derive(Debug)]
pub(super) struct ReadReservation {
    read: Present,
    bytes: usize,
}

impl ReadMemory {
    /// With so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Rc::new(ReadMemoryState {
            bytes_max,
            taken_bytes: Cell::default(),
            reads: RefCell::default(),
            last_part_holder: Cell::default(),
            releases: Changes::default(),
        }))
    }

    /// What is taken now.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.0.taken_bytes.get()
    }

    /// For a request of a read.
    pub(super) fn of(&self, ticket: &ReadTicket) -> OfRead {
        let present = Present::new(self.clone(), ticket);
        self.change(present.number, |read| read.at_work += 1);
        OfRead(present)
    }

    fn is_oldest(&self, number: u64) -> bool {
        self.0.reads.borrow().first_key_value().is_none_or(|(oldest, _)| number <= *oldest)
    }

    /// Whether all may take so many bytes together, the last of which are a read's.
    fn fits(&self, number: u64, taken_bytes: usize) -> bool {
        let ReadMemoryState { bytes_max, last_part_holder, .. } = &*self.0;
        if taken_bytes <= bytes_max - bytes_max / LAST_PART || self.is_oldest(number) {
            return true;
        }
        let is_its_own = last_part_holder.get().is_none_or(|holder| holder == number);
        let fits = taken_bytes <= *bytes_max && is_its_own;
        if fits {
            last_part_holder.set(Some(number));
        }
        fits
    }

    fn take(&self, number: u64, bytes: usize) {
        self.0.taken_bytes.set(self.0.taken_bytes.get() + bytes);
        let is_waited_for = bytes > 0 && !self.0.releases.is_unawaited();
        self.change(number, |read| {
            read.bytes += bytes;
            if is_waited_for {
                read.ticket.tell_waited_for();
            }
        });
    }

    fn give_back(&self, number: u64, bytes: usize) {
        if bytes > 0 {
            self.0.taken_bytes.set(self.0.taken_bytes.get() - bytes);
            self.change(number, |read| read.bytes -= bytes);
            // Each looks again whether there is enough for it now.
            self.0.releases.happen();
        }
    }

    fn change<T>(&self, number: u64, change: impl FnOnce(&mut OneRead) -> T) -> T {
        change(self.0.reads.borrow_mut().get_mut(&number).expect("it is counted while it is present"))
    }

    /// Tells those who hold something that another one waits for it.
    fn tell_waited_for(&self) {
        for read in self.0.reads.borrow().values().filter(|read| read.bytes > 0) {
            read.ticket.tell_waited_for();
        }
    }
}

impl Present {
    fn new(memory: ReadMemory, ticket: &ReadTicket) -> Self {
        let number = ticket.number();
        let first = || OneRead { ticket: ticket.clone(), present: 0, at_work: 0, bytes: 0 };
        memory.0.reads.borrow_mut().entry(number).or_insert_with(first).present += 1;
        Self { memory, number }
    }
}

impl Clone for Present {
    fn clone(&self) -> Self {
        self.memory.change(self.number, |read| read.present += 1);
        Self { memory: self.memory.clone(), number: self.number }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let left = self.memory.change(self.number, |read| {
            read.present -= 1;
            read.present
        });
        if left == 0 {
            self.memory.0.reads.borrow_mut().remove(&self.number);
            // Another one may be the oldest now.
            self.memory.0.releases.happen();
        }
    }
}

impl OfRead {
    /// A reservation of nothing yet.
    pub(super) fn nothing(&self) -> ReadReservation {
        ReadReservation { read: self.0.clone(), bytes: 0 }
    }
}

impl Drop for OfRead {
    fn drop(&mut self) {
        let Present { memory, number } = &self.0;
        let left = memory.change(*number, |read| {
            read.at_work -= 1;
            read.at_work
        });
        let last_part_holder = &memory.0.last_part_holder;
        if left == 0 && last_part_holder.get() == Some(*number) {
            last_part_holder.set(None);
            memory.0.releases.happen();
        }
    }
}

impl ReadReservation {
    /// Takes so many bytes more, if they can be had now. An error: they never can, or not without more than is planned.
    pub(super) fn try_grow(&mut self, bytes: usize) -> OrEnds<bool> {
        let Present { memory, number } = &self.read;
        let ReadMemoryState { bytes_max, taken_bytes, .. } = &*memory.0;
        // All that it has here, in other cursors too.
        let of_read = memory.change(*number, |read| read.bytes);
        if of_read.saturating_add(bytes) > *bytes_max {
            return Err(ShardReadError::TooLarge { bytes_max: *bytes_max });
        }
        let of_all = taken_bytes.get().saturating_add(bytes);
        let fits = memory.fits(*number, of_all);
        if fits && of_all > bytes_max.saturating_mul(SELECTS_PLANNED) {
            return Err(ShardReadError::MemoryFull);
        }
        if fits {
            memory.take(*number, bytes);
            self.bytes += bytes;
        }
        Ok(fits)
    }

    /// What it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps only so many.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let given_back = self.bytes.saturating_sub(bytes);
        self.bytes -= given_back;
        self.read.memory.give_back(self.read.number, given_back);
    }

    /// Waits until something was given back, or nobody waits for the read any more.
    pub(super) async fn released(&self) {
        let Present { memory, number } = &self.read;
        memory.tell_waited_for();
        let cancelled = memory.change(*number, |read| read.ticket.cancelled());
        let releases = &memory.0.releases;
        select(pin!(releases.after(releases.count())), cancelled).await;
    }
}

impl Drop for ReadReservation {
    fn drop(&mut self) {
        self.read.memory.give_back(self.read.number, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use silverback_test_support::waking::check_is_woken;

    fn reads<const N: usize>(memory: &ReadMemory) -> [OfRead; N] {
        std::array::from_fn(|_| memory.of(&ReadTicket::issue()))
    }

    fn reserve(read: &OfRead, bytes: usize) -> OrEnds<Option<ReadReservation>> {
        let mut reserved = read.nothing();
        Ok(reserved.try_grow(bytes)?.then_some(reserved))
    }

    #[test]
    fn all_together_keep_within_the_bound_but_for_the_oldest() {
        let memory = ReadMemory::new(100);
        let [oldest, second, third] = reads(&memory);
        let of_third = reserve(&third, 60).unwrap().unwrap();
        assert!(reserve(&second, 60).unwrap().is_none());
        let of_oldest = reserve(&oldest, 90).unwrap().expect("whatever others have");
        assert_eq!(memory.taken_bytes(), 150);
        drop((of_oldest, oldest));
        let of_second = reserve(&second, 60).unwrap().expect("it is the oldest now");
        drop((of_second, of_third));
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[test]
    fn a_read_that_comes_back_as_the_oldest_takes_no_more_than_is_planned() {
        let memory = ReadMemory::new(100);
        let tickets = [(); 3].map(|()| ReadTicket::issue());
        let younger = [1, 2].map(|number| memory.of(&tickets[number]));
        let _of_youngest = reserve(&younger[1], 75).unwrap().unwrap();
        let of_oldest = reserve(&younger[0], 100).unwrap().expect("it is the oldest here");
        let older = memory.of(&tickets[0]);
        let mut of_older = reserve(&older, 20).unwrap().expect("it is planned");
        assert_eq!((of_older.try_grow(6), memory.taken_bytes()), (Err(ShardReadError::MemoryFull), 195));
        drop(of_oldest);
        assert_eq!(of_older.try_grow(80), Ok(true));
    }

    #[test]
    fn one_of_those_at_work_goes_on_though_the_oldest_of_all_waits_for_its_client() {
        let memory = ReadMemory::new(100);
        let [slow, older, younger] = reads(&memory);
        let _of_its_cursor = reserve(&slow, 20).unwrap().unwrap();
        drop(slow);
        let mut of_younger = reserve(&younger, 60).unwrap().expect("it takes of the last part");
        let mut of_older = reserve(&older, 1).unwrap();
        assert!(of_older.is_none(), "that is another one's");
        assert_eq!((of_younger.try_grow(20), memory.taken_bytes()), (Ok(true), 100));
        assert_eq!(of_younger.try_grow(1), Ok(false), "what the oldest of all has, it can't have");
        of_younger.shrink_to(70);
        assert!(reserve(&older, 1).unwrap().is_none(), "it is at work still");
        drop(younger);
        of_older = reserve(&older, 10).unwrap();
        assert!(of_older.is_some());
    }

    #[test]
    fn who_waits_is_woken_when_the_last_part_is_free() {
        let memory = ReadMemory::new(100);
        let [_oldest, second, third] = reads(&memory);
        let _kept = reserve(&second, 80).unwrap().unwrap();
        let waiting = third.nothing();
        check_is_woken(waiting.released(), || drop(second));
    }

    #[test]
    fn what_alone_exceeds_the_bound_is_refused_at_once() {
        let memory = ReadMemory::new(100);
        let [read] = reads(&memory);
        assert_eq!(reserve(&read, 101).unwrap_err(), ShardReadError::TooLarge { bytes_max: 100 });
        let mut reserved = reserve(&read, 60).unwrap().unwrap();
        assert_eq!(reserved.try_grow(41), Err(ShardReadError::TooLarge { bytes_max: 100 }));
        reserved.shrink_to(10);
        assert_eq!((reserved.try_grow(90), memory.taken_bytes()), (Ok(true), 100));
    }

    #[test]
    fn a_read_is_bounded_over_all_that_it_holds() {
        let memory = ReadMemory::new(100);
        let [read] = reads(&memory);
        let _first = reserve(&read, 60).unwrap().unwrap();
        assert_eq!(reserve(&read, 41).unwrap_err(), ShardReadError::TooLarge { bytes_max: 100 });
        let _second = reserve(&read, 40).unwrap().expect("the oldest one");
        assert_eq!(memory.taken_bytes(), 100);
    }

    #[test]
    fn who_holds_something_is_told_that_others_wait_for_it() {
        let memory = ReadMemory::new(100);
        let tickets = [(); 3].map(|()| ReadTicket::issue());
        let [holds, waits, has_nothing] = [0, 1, 2].map(|i| memory.of(&tickets[i]));
        let _held = reserve(&holds, 100).unwrap();
        let waiting = waits.nothing();
        let mut released = Box::pin(waiting.released());
        assert!((&mut released).now_or_never().is_none());
        let told = || tickets.each_ref().map(|ticket| ticket.was_waited_for());
        assert_eq!(told(), [true, false, false]);
        memory.take(has_nothing.0.number, 10);
        assert_eq!(told(), [false, false, true], "it holds something now");
        memory.give_back(has_nothing.0.number, 10);
    }

    #[test]
    fn who_waits_is_woken_when_something_is_given_back_and_kept_once_until_then() {
        let memory = ReadMemory::new(100);
        let [first, second] = reads(&memory);
        let held = reserve(&first, 100).unwrap();
        let waiting = second.nothing();
        assert!(Box::pin(waiting.released()).now_or_never().is_none());
        assert!(memory.0.releases.is_unawaited(), "who is dropped leaves its place");
        check_is_woken(waiting.released(), || drop(held));
        drop((waiting, first, second));
        assert!(memory.0.reads.borrow().is_empty() && memory.0.releases.is_unawaited());
    }

    #[test]
    fn who_waits_is_woken_when_nobody_waits_for_it_any_more() {
        let memory = ReadMemory::new(100);
        let (holds, ticket) = (memory.of(&ReadTicket::issue()), ReadTicket::issue());
        let (_held, waits) = (reserve(&holds, 100).unwrap(), memory.of(&ticket).nothing());
        check_is_woken(waits.released(), || ticket.cancel());
    }
}
