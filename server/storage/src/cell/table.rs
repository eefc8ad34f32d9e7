//! A cell's index: series id → series ref, open addressing with linear probing.
//!
//! Series ids are uniform hashes, so a slot is picked from their bits as they are. A slot is eight
//! bytes (a tag of the id and the ref); the series' own line holds the whole id and decides. Small
//! tables, one for each cell, keep a table's growth to microseconds.

use crate::cell::SeriesRef;
use crate::cell::heap::array_bytes;
use silverback_model::SeriesId;
use silverback_model::gorilla::prefetch;

const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Slot {
    tag: u32,
    series: u32,
}

/// Series id → series ref. The caller compares ids: the table itself holds tags only.
#[derive(Debug, Default)]
pub struct SeriesTable {
    slots: Box<[Slot]>,
    len: usize,
}

/// The bits that pick a slot: the lowest, for the highest pick the cell.
fn home(id: SeriesId) -> usize {
    id.0 as u32 as usize
}

fn tag(id: SeriesId) -> u32 {
    (id.0 >> 32) as u32
}

impl SeriesTable {
    /// The ref for which the tag fits and `is_it` confirms.
    #[inline]
    pub fn find(&self, id: SeriesId, mut is_it: impl FnMut(SeriesRef) -> bool) -> Option<SeriesRef> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = home(id) & mask;
        loop {
            let slot = self.slots[at];
            if slot.series == EMPTY {
                return None;
            }
            if slot.tag == tag(id) && is_it(SeriesRef(slot.series)) {
                return Some(SeriesRef(slot.series));
            }
            at = (at + 1) & mask;
        }
    }

    /// The first ref whose tag fits: nearly always the right one, good enough to prefetch.
    #[inline]
    pub(crate) fn candidate(&self, id: SeriesId) -> Option<SeriesRef> {
        self.find(id, |_| true)
    }

    /// Brings the slot where a search begins towards the core.
    #[inline]
    pub(crate) fn prefetch(&self, id: SeriesId) {
        if let Some(slot) = self.slots.get(home(id) & self.slots.len().wrapping_sub(1)) {
            prefetch(slot);
        }
    }

    /// Adds a series that is not in the table. `id_of` returns a held series' id.
    pub fn insert(&mut self, id: SeriesId, series: SeriesRef, id_of: impl Fn(SeriesRef) -> SeriesId) {
        // At most three quarters full, so that probes stay short.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN), id_of);
        }
        self.place(id, series);
        self.len += 1;
    }

    /// Takes a series out, and moves up those after it that it kept from their home.
    pub(crate) fn remove(&mut self, id: SeriesId, series: SeriesRef, id_of: impl Fn(SeriesRef) -> SeriesId) {
        let mask = self.slots.len() - 1;
        let mut hole = home(id) & mask;
        while self.slots[hole].series != series.0 {
            assert!(self.slots[hole].series != EMPTY, "a removed series is in its cell's table");
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.series == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(home(id_of(SeriesRef(slot.series)))) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole].series = EMPTY;
        self.len -= 1;
        if self.len * 8 < self.slots.len() && self.slots.len() > SLOTS_MIN {
            self.resize(self.slots.len() / 2, id_of);
        }
    }

    /// Series held.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the cell has no series.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All refs, in no order that means something.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SeriesRef> + '_ {
        self.slots.iter().filter(|s| s.series != EMPTY).map(|s| SeriesRef(s.series))
    }

    /// Bytes of the slots.
    pub(crate) fn bytes(&self) -> usize {
        array_bytes::<Slot>(self.slots.len())
    }

    fn resize(&mut self, slots: usize, id_of: impl Fn(SeriesRef) -> SeriesId) {
        let empty = vec![Slot { tag: 0, series: EMPTY }; slots].into_boxed_slice();
        let old = std::mem::replace(&mut self.slots, empty);
        for slot in old.iter().filter(|s| s.series != EMPTY) {
            let series = SeriesRef(slot.series);
            self.place(id_of(series), series);
        }
    }

    fn place(&mut self, id: SeriesId, series: SeriesRef) {
        let mask = self.slots.len() - 1;
        let mut at = home(id) & mask;
        while self.slots[at].series != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = Slot { tag: tag(id), series: series.0 };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Few distinct homes, so that runs and wraps are the rule.
    fn id(n: u32) -> SeriesId {
        SeriesId(u128::from(n % 13) | u128::from(n / 3) << 32 | u128::from(n) << 64)
    }

    #[test]
    fn a_long_random_run_of_inserts_and_removes_agrees_with_a_map() {
        let mut table = SeriesTable::default();
        let mut model = HashMap::new();
        let mut random = 1u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = (random >> 16) % 300;
            let held = model.contains_key(&n);
            if held {
                table.remove(id(n), SeriesRef(n), |s| id(s.0));
                model.remove(&n);
            } else {
                table.insert(id(n), SeriesRef(n), |s| id(s.0));
                model.insert(n, ());
            }
            assert_eq!(table.len(), model.len());
            let probe = (random >> 8) % 300;
            let found = table.find(id(probe), |s| id(s.0) == id(probe));
            assert_eq!(found.is_some(), model.contains_key(&probe));
        }
        let mut held: Vec<u32> = table.iter().map(|s| s.0).collect();
        held.sort_unstable();
        let mut expect: Vec<u32> = model.into_keys().collect();
        expect.sort_unstable();
        assert_eq!(held, expect);
    }

    #[test]
    fn an_emptied_table_gives_its_memory_back() {
        let mut table = SeriesTable::default();
        (0..1000).for_each(|n| table.insert(id(n), SeriesRef(n), |s| id(s.0)));
        (0..1000).for_each(|n| table.remove(id(n), SeriesRef(n), |s| id(s.0)));
        assert!(table.is_empty());
        assert!(table.bytes() <= 2 * SLOTS_MIN * size_of::<Slot>());
    }
}
