//! A slab in pages: values keep their place, growth copies nothing, freed places are used again.

use crate::cell::heap::{array_bytes, vec_bytes};

/// Places of one page.
const PAGE: usize = 1024;
/// Pages that are made ahead at most.
const AHEAD_MAX: usize = 256;
/// What stays ready of free places when memory is given back: for one more of so many values that are held.
const SPARE_PARTS: usize = 4;
/// And so many pages of them.
const SPARE_PAGES: usize = 4;

/// Values at dense `u32` indices. Memory grows by a page at a time, so a shard that doubles never
/// holds its series twice, and no append waits for a copy of the whole. A page of free places alone can be
/// given back: they stay free, and the first that is used brings it back.
#[derive(Debug)]
pub struct Pages<T> {
    /// Those that were given back are empty.
    pages: Vec<Box<[T]>>,
    free: Vec<u32>,
    /// How many places of each page are free.
    free_in: Vec<u16>,
    /// Pages that are given back.
    away: usize,
    /// What all places of these hold.
    vacant: T,
    used: u32,
    /// Pages that are there before they are needed.
    ahead: Vec<Box<[T]>>,
    /// How many pages there were when it was last asked how many are wanted ahead.
    seen: Option<usize>,
}

const _: () = assert!(PAGE <= u16::MAX as usize);

impl<T: Default> Default for Pages<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            free_in: Vec::new(),
            away: 0,
            vacant: T::default(),
            used: 0,
            ahead: Vec::new(),
            seen: None,
        }
    }
}

impl<T: Default> Pages<T> {
    /// Puts a value in a free place and returns its index. `None`: 2^32 − 1 places are taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => {
                self.free_in[index as usize / PAGE] -= 1;
                index
            }
            None if self.used == u32::MAX => return None,
            None => self.used,
        };
        self.insert_at(index, value);
        Some(index)
    }

    /// Puts a value in a place of the caller's choice. The places that this leaves out below it
    /// stay taken until they are freed.
    pub(crate) fn insert_at(&mut self, index: u32, value: T) {
        self.take_up_to(index + 1);
        if self.pages[index as usize / PAGE].is_empty() {
            self.bring_back(index as usize / PAGE);
        }
        *self.get_mut(index) = value;
    }

    /// Takes all places below `end` that were never used. They stay taken until they are freed.
    pub(crate) fn take_up_to(&mut self, end: u32) {
        while end as usize > self.pages.len() * PAGE {
            let page = self.next_page();
            self.pages.push(page);
            self.free_in.push(0);
        }
        self.used = self.used.max(end);
    }

    #[cold]
    fn bring_back(&mut self, page: usize) {
        self.pages[page] = self.next_page();
        self.away -= 1;
    }

    fn next_page(&mut self) -> Box<[T]> {
        self.ahead.pop().unwrap_or_else(Self::page)
    }

    fn page() -> Box<[T]> {
        std::iter::repeat_with(T::default).take(PAGE).collect()
    }

    /// Makes a page for later.
    pub(crate) fn make_page_ahead(&mut self) {
        self.ahead.push(Self::page());
    }

    /// Takes a value out and frees its place, which the next insert uses.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        self.free(index);
        self.take(index)
    }

    /// Takes a value out; its place stays taken until [`Self::free`].
    pub(crate) fn take(&mut self, index: u32) -> T {
        std::mem::take(self.get_mut(index))
    }
}

impl<T> Pages<T> {
    /// Lets the next insert use a place whose value was taken.
    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
        self.free_in[index as usize / PAGE] += 1;
    }

    /// Gives the memory of a page back of which every place is free: one of those that would be used last. Returns
    /// whether there was one, beyond the places that are kept for values to come.
    pub(crate) fn give_back_page(&mut self) -> bool {
        let spare = self.len() / SPARE_PARTS + SPARE_PAGES * PAGE;
        if self.free_and_there() < spare + PAGE {
            return false;
        }
        let mut pages = self.free_in.iter().zip(&self.pages);
        let page = pages.position(|(free, page)| usize::from(*free) == PAGE && !page.is_empty());
        let Some(page) = page else { return false };
        self.pages[page] = Box::default();
        self.away += 1;
        true
    }

    /// Free places that take memory.
    fn free_and_there(&self) -> usize {
        self.free.len() - self.away * PAGE
    }

    /// The value at an index below [`Self::end`]; a vacant one where nothing is held.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        match self.pages[index as usize / PAGE].get(index as usize % PAGE) {
            Some(value) => value,
            None => self.vacant(),
        }
    }

    /// Likewise, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.pages[index as usize / PAGE][index as usize % PAGE]
    }

    /// The value at an index, to change it; none where its page was given back.
    #[inline]
    pub(crate) fn find_mut(&mut self, index: u32) -> Option<&mut T> {
        self.pages.get_mut(index as usize / PAGE)?.get_mut(index as usize % PAGE)
    }

    /// What is in a place whose page was given back.
    #[cold]
    fn vacant(&self) -> &T {
        &self.vacant
    }

    /// One past the highest index ever used.
    pub(crate) fn end(&self) -> u32 {
        self.used
    }

    /// Values held.
    pub(crate) fn len(&self) -> usize {
        self.used as usize - self.free.len()
    }

    /// How many pages to have ahead, if the next time until this is asked is as the last one: half as
    /// many again as were needed, and one. None where a page's worth of places is free.
    pub(crate) fn pages_wanted_ahead(&mut self) -> usize {
        let there = self.pages.len() - self.away;
        let seen = self.seen.replace(there);
        let needed = seen.map_or(0, |seen| there.saturating_sub(seen));
        if self.free_and_there() < PAGE { (needed + needed / 2 + 1).min(AHEAD_MAX) } else { 0 }
    }

    /// Pages that were made for later.
    pub(crate) fn pages_ahead(&self) -> usize {
        self.ahead.len()
    }

    /// How many of them there may be, if so many bytes more are spent on them.
    pub(crate) fn pages_ahead_within(&self, bytes: usize) -> usize {
        self.ahead.len() + bytes / array_bytes::<T>(PAGE)
    }

    /// Keeps no more than so many of them.
    pub(crate) fn keep_ahead(&mut self, pages: usize) {
        self.ahead.truncate(pages);
    }

    /// Bytes of the pages, those for later too, and of the list of free places.
    pub(crate) fn bytes(&self) -> usize {
        let pages = self.pages.len() - self.away + self.ahead.len();
        pages * array_bytes::<T>(PAGE)
            + vec_bytes(&self.pages)
            + vec_bytes(&self.ahead)
            + vec_bytes(&self.free)
            + vec_bytes(&self.free_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_place_over_page_growth() {
        let mut pages = Pages::default();
        let indices: Vec<u32> = (0..3000u64).map(|v| pages.insert(v).unwrap()).collect();
        assert_eq!(indices, (0..3000).collect::<Vec<u32>>());
        assert!(indices.iter().all(|i| *pages.get(*i) == u64::from(*i)));
    }

    #[test]
    fn a_freed_place_is_used_before_memory_grows() {
        let mut pages = Pages::default();
        for v in 0..1024u64 {
            pages.insert(v);
        }
        let before = pages.bytes();
        assert_eq!(pages.remove(7), 7);
        assert_eq!((pages.len(), pages.end()), (1023, 1024));
        assert_eq!(pages.insert(70), Some(7));
        assert!(pages.bytes() <= before + 4 * 4, "one place in the free list at most");
    }

    #[test]
    fn pages_are_wanted_ahead_as_they_are_needed_and_used_before_others_are_made() {
        let mut pages: Pages<u64> = Pages::default();
        assert_eq!(pages.pages_wanted_ahead(), 1);
        pages.take_up_to(4 * PAGE as u32);
        assert_eq!(pages.pages_wanted_ahead(), 4 + 2 + 1);
        pages.take_up_to(1004 * PAGE as u32);
        assert_eq!(pages.pages_wanted_ahead(), AHEAD_MAX);
        (0..3).for_each(|_| pages.make_page_ahead());
        let before = pages.bytes();
        pages.take_up_to(1006 * PAGE as u32);
        assert_eq!((pages.pages_ahead(), pages.pages.len()), (1, 1006));
        assert!(pages.bytes() < before + array_bytes::<u64>(PAGE), "none was made");
        pages.keep_ahead(0);
        assert_eq!((pages.pages_ahead(), pages.pages_wanted_ahead()), (0, 2 + 1 + 1));
        assert_eq!(pages.pages_wanted_ahead(), 1);
        (0..PAGE as u32).for_each(|index| pages.free(index));
        assert_eq!(pages.pages_wanted_ahead(), 0, "what is free is used first");
    }

    #[test]
    fn pages_of_free_places_are_given_back_and_come_back_as_they_are_used() {
        let line = |number: u32| [u64::from(number); 8];
        let mut pages: Pages<[u64; 8]> = Pages::default();
        let count = 100 * PAGE as u32;
        let indices: Vec<_> = (0..count).map(|index| pages.insert(line(index)).unwrap()).collect();
        assert_eq!(indices.last(), Some(&(count - 1)));
        let full = pages.bytes();
        // One in the middle stays.
        for index in (0..count).filter(|index| *index != 50_000) {
            assert_eq!(pages.remove(index), line(index));
        }
        while pages.give_back_page() {}
        assert!(pages.bytes() * 5 < full, "{} of {full} bytes", pages.bytes());
        assert_eq!((pages.len(), pages.get(50_000), pages.get(7)), (1, &line(50_000), &line(0)));
        let mut again: Vec<u32> = (1..count).map(|index| pages.insert(line(index)).unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, (0..count).filter(|index| *index != 50_000).collect::<Vec<_>>());
        assert_eq!((pages.end(), pages.away), (count, 0), "no place is left out");
        assert!(!pages.give_back_page());
    }

    #[test]
    fn what_comes_and_goes_keeps_its_places() {
        let mut pages: Pages<u64> = Pages::default();
        let count = 100 * PAGE as u32;
        let indices: Vec<_> = (0..count).map(|value| pages.insert(value.into()).unwrap()).collect();
        assert_eq!(indices.last(), Some(&(count - 1)));
        for index in 0..count / 6 {
            assert_eq!(pages.remove(index), u64::from(index));
        }
        assert!(!pages.give_back_page());
    }

    #[test]
    fn places_that_are_taken_without_a_value_are_not_used_before_they_are_freed() {
        let mut pages: Pages<u64> = Pages::default();
        pages.take_up_to(2000);
        assert_eq!(pages.insert(1), Some(2000));
        pages.free(1999);
        assert_eq!(pages.insert(2), Some(1999));
    }
}
