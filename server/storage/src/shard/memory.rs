//! A shard's memory: what it holds, what it may hold, and what it refuses in between.
//!
//! What it holds are sums that are kept as things are made, cut and removed: asking costs a few
//! dozen additions, for each part and for some of its new series, and nothing for a sample. The accounting and the
//! kernel's own count are compared in a test.

use crate::message::{MemoryPressure, ShardMemory};
use crate::shard::Shard;
use silverback_model::limits::memory::{NEW_SERIES_PERCENT, RECOVERY_PERCENT};

/// New series that are made at most between two looks at what is held, while there is ample room, ...
const UNSEEN_SERIES_MAX: u32 = 16;
/// ... and what the texts of their labels may take.
const UNSEEN_TEXT_BYTES_MAX: usize = 16 << 10;

/// Decides by a shard's memory what is to be refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryGate {
    /// New series stop short of it.
    budget_bytes: usize,
    /// The samples of known series may fill it.
    known_bytes: usize,
    pressure: MemoryPressure,
    /// New series since the last look for one.
    unseen_series: u32,
    /// What labels' texts took then.
    seen_text_bytes: usize,
}

impl Default for MemoryGate {
    fn default() -> Self {
        Self {
            budget_bytes: usize::MAX,
            known_bytes: usize::MAX,
            pressure: MemoryPressure::Ample,
            unseen_series: UNSEEN_SERIES_MAX,
            seen_text_bytes: 0,
        }
    }
}

impl MemoryGate {
    /// What may be held, but for the samples of known series, which may go beyond it.
    pub(crate) fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// How much more may be held before new series are refused.
    pub(crate) fn room_bytes(&self, held_bytes: usize) -> usize {
        self.no_new_series_bytes().saturating_sub(held_bytes)
    }

    /// Where new series stop: well below the budget, and as far below what known ones may fill. The process may have
    /// less room than the budget says, which is for the known ones then.
    #[inline]
    pub(crate) fn no_new_series_bytes(&self) -> usize {
        let percent = self.budget_bytes / 100;
        let for_known = percent * (100 - NEW_SERIES_PERCENT);
        (percent * NEW_SERIES_PERCENT).min(self.known_bytes.saturating_sub(for_known))
    }

    /// As it was at the last look.
    pub(crate) fn pressure(&self) -> MemoryPressure {
        self.pressure
    }

    /// Whether one more series may be made without a look, with so much text of labels there.
    #[inline]
    fn has_ample_room(&mut self, text_bytes: usize) -> bool {
        self.seen_text_bytes = self.seen_text_bytes.min(text_bytes);
        let unseen_bytes = text_bytes - self.seen_text_bytes;
        self.unseen_series += 1;
        self.pressure == MemoryPressure::Ample
            && self.unseen_series <= UNSEEN_SERIES_MAX
            && unseen_bytes < UNSEEN_TEXT_BYTES_MAX
    }

    /// What was made takes much more than a new series mostly does: the next one waits for a look.
    pub(super) fn look_before_next(&mut self) {
        self.unseen_series = UNSEEN_SERIES_MAX;
    }

    /// The pressure of so many bytes. It rises at once, and falls only well below where it rose.
    #[inline]
    fn look(&mut self, held_bytes: usize) -> MemoryPressure {
        let percent = self.budget_bytes / 100;
        let full = self.known_bytes;
        let no_new_series = self.no_new_series_bytes();
        let recovered = percent * RECOVERY_PERCENT;
        let is_at_least = |level: MemoryPressure, bytes: usize| {
            let begins = if self.pressure >= level { bytes.saturating_sub(recovered) } else { bytes };
            held_bytes >= begins
        };
        self.pressure = if is_at_least(MemoryPressure::Full, full) {
            MemoryPressure::Full
        } else if is_at_least(MemoryPressure::NoNewSeries, no_new_series) {
            MemoryPressure::NoNewSeries
        } else {
            MemoryPressure::Ample
        };
        self.pressure
    }
}

impl Shard {
    /// What the shard may hold from now on. What it holds above that stays until retention drops it.
    pub fn set_memory_budget(&mut self, bytes: usize) {
        self.set_memory_budgets(bytes, bytes);
    }

    /// The same, and what the samples of known series may fill, which is more or less as the process has
    /// room.
    pub fn set_memory_budgets(&mut self, bytes: usize, known_bytes: usize) {
        self.memory.budget_bytes = bytes;
        self.memory.known_bytes = known_bytes;
        self.share_budget_with_exemplars(bytes);
        self.share_budget_with_metadata(bytes);
        self.memory.look(self.memory_bytes().total());
    }

    /// What the shard holds.
    #[inline]
    pub fn memory_bytes(&self) -> ShardMemory {
        let store = self.store.size();
        ShardMemory {
            series_bytes: store.series_bytes,
            chunk_bytes: store.chunk_bytes,
            index_bytes: self.index.bytes() + self.table_bytes + self.late_marks.bytes(),
            exemplar_bytes: self.exemplars.bytes(),
            metadata_bytes: self.metadata.bytes(),
        }
    }

    /// Whether a new series may be made.
    #[inline]
    pub fn has_room_for_series(&mut self) -> bool {
        match self.memory.look(self.memory_bytes().total()) {
            MemoryPressure::Ample => true,
            MemoryPressure::NoNewSeries | MemoryPressure::Full => false,
        }
    }

    /// The same for each of many that are made one after the other: it looks at some of them.
    #[inline]
    pub(super) fn has_room_for_next_series(&mut self) -> bool {
        let text_bytes = self.index.text_bytes();
        if self.memory.has_ample_room(text_bytes) {
            return true;
        }
        (self.memory.unseen_series, self.memory.seen_text_bytes) = (0, text_bytes);
        self.has_room_for_series()
    }

    /// Whether a part is refused whole, and counted so.
    pub(super) fn refuses_part(&mut self) -> bool {
        match self.memory.look(self.memory_bytes().total()) {
            MemoryPressure::Ample | MemoryPressure::NoNewSeries => false,
            MemoryPressure::Full => {
                self.counters.parts_refused += 1;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryPressure::{Ample, Full, NoNewSeries};

    /// The pressure at each of these fills in turn, in parts in a thousand of the budget.
    fn check(steps: &[(usize, MemoryPressure)]) {
        let mut gate =
            MemoryGate { budget_bytes: 1_000_000, known_bytes: 1_000_000, ..MemoryGate::default() };
        for (held, expect) in steps {
            assert_eq!(gate.look(held * 1000), *expect, "at {held} in {steps:?}");
        }
    }

    /// How many of 20 series are made without a look, one after the other, each with so much text.
    fn unseen(gate: &mut MemoryGate, mut text_bytes: usize, of_each: usize) -> usize {
        (gate.unseen_series, gate.seen_text_bytes) = (0, text_bytes);
        let mut made = 0;
        while made < 20 && gate.has_ample_room(text_bytes) {
            made += 1;
            text_bytes += of_each;
        }
        made
    }

    #[test]
    fn a_few_new_series_are_made_without_a_look_while_there_is_ample_room() {
        let mut gate = MemoryGate::default();
        assert!(!gate.has_ample_room(0), "the first is looked at");
        assert_eq!(unseen(&mut gate, 1 << 30, 100), UNSEEN_SERIES_MAX as usize);
        assert_eq!(unseen(&mut gate, 1 << 30, UNSEEN_TEXT_BYTES_MAX / 4), 4, "long texts");
        (gate.unseen_series, gate.seen_text_bytes) = (0, 1 << 30);
        assert!(gate.has_ample_room(1 << 20), "texts that went meanwhile");
        assert!(!gate.has_ample_room((1 << 20) + UNSEEN_TEXT_BYTES_MAX), "and others that came");
        gate.look_before_next();
        assert!(!gate.has_ample_room(1 << 20));
        gate.pressure = NoNewSeries;
        assert_eq!(unseen(&mut gate, 0, 0), 0);
    }

    #[test]
    fn new_series_are_refused_first_and_then_everything() {
        check(&[(0, Ample), (899, Ample), (900, NoNewSeries), (999, NoNewSeries), (1000, Full)]);
        check(&[(0, Ample), (1200, Full)]);
    }

    #[test]
    fn what_was_refused_is_taken_in_again_only_well_below() {
        check(&[(1000, Full), (980, Full), (969, NoNewSeries), (999, NoNewSeries), (1000, Full)]);
        check(&[(900, NoNewSeries), (880, NoNewSeries), (869, Ample), (899, Ample), (900, NoNewSeries)]);
        check(&[(1000, Full), (500, Ample)]);
    }

    #[test]
    fn known_series_go_on_beyond_what_new_ones_stop_short_of() {
        let mut gate = MemoryGate { budget_bytes: 1000, known_bytes: 1500, ..MemoryGate::default() };
        assert_eq!(
            [899, 900, 1499, 1500].map(|held| gate.look(held)),
            [Ample, NoNewSeries, NoNewSeries, Full]
        );
        // The process has less room: what is left of it is for them, too.
        gate = MemoryGate { budget_bytes: 1000, known_bytes: 500, ..MemoryGate::default() };
        assert_eq!([399, 400, 499, 500].map(|held| gate.look(held)), [Ample, NoNewSeries, NoNewSeries, Full]);
        // The process has no room, though the shard holds little.
        gate.known_bytes = 100;
        assert_eq!(gate.look(100), Full);
    }

    #[test]
    fn without_a_budget_nothing_is_refused() {
        assert_eq!(MemoryGate::default().look(1 << 50), Ample);
    }
}
