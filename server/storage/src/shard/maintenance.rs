//! What is done beside the traffic, in slices: retention, by which what is older goes, and memory that is
//! made ready before samples need it, or given back after series went.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::cell::SeriesRef;
use crate::cell::series::Retained;
use crate::shard::exemplars::ring::ExemplarNumber;
use crate::shard::{Host, Shard};
use crate::wal::{Journal, Log};

/// Series that are looked at between two looks at the slice.
const STEP: u32 = 64;

/// Series that are asked for the time that a shard has reached.
const ASKED_MAX: u32 = 1000;

/// How retention compares to the wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionState {
    /// How far the time that it goes by is behind the wall clock, in ms.
    pub behind_ms: u64,
    /// How often the wall clock was found far ahead since the start.
    pub jumps: u64,
}

/// Goes over all series once and drops what lies before `horizon_ms`: whole sealed chunks, and
/// series whose newest sample is older.
pub async fn retain<H: Host, L: Log>(shard: &Rc<RefCell<Shard>>, log: &L, host: &H, horizon_ms: i64) {
    let mut from = 0;
    loop {
        let end = shard.borrow().store.end();
        if from >= end {
            break;
        }
        let to = end.min(from + STEP);
        shard.borrow_mut().retain_slice(from..to, horizon_ms, &mut *log.journal());
        from = to;
        host.yield_if_needed().await;
    }
    drop_exemplars(shard, host, horizon_ms).await;
    drop_metadata(shard, host, horizon_ms).await;
    let mut shard = shard.borrow_mut();
    shard.store.release_unused();
    shard.late_marks.drop_before(horizon_ms);
    if let Some((oldest, newest)) = shard.range_ms {
        shard.range_ms = Some((oldest.max(horizon_ms).min(newest), newest));
    }
}

/// Exemplars are older than their series' samples, too, once these are kept and they aren't.
async fn drop_exemplars<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, horizon_ms: i64) {
    let mut from = ExemplarNumber::default();
    loop {
        let next = shard.borrow_mut().drop_exemplars_before(horizon_ms, from);
        let Some(next) = next else { return };
        from = next;
        host.yield_if_needed().await;
    }
}

async fn drop_metadata<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, horizon_ms: i64) {
    let mut passed: Option<Box<str>> = None;
    loop {
        passed = shard.borrow_mut().drop_metadata_before(horizon_ms, passed.as_deref());
        if passed.is_none() {
            return;
        }
        host.yield_if_needed().await;
    }
}

/// Makes memory ready for the samples that come until the next call: the system takes milliseconds to give
/// some that nobody had before, and no append is to wait for it.
pub async fn make_memory_ahead<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H) {
    let wanted = shard.borrow_mut().wanted_ahead();
    while shard.borrow_mut().store.make_ahead(wanted) {
        host.yield_if_needed().await;
    }
    host.release_slice();
}

/// Gives memory back that series have left which went, but for some that others soon need.
pub async fn give_memory_back<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H) {
    while shard.borrow_mut().give_page_back() {
        host.yield_if_needed().await;
    }
    host.release_slice();
}

impl Shard {
    fn give_page_back(&mut self) -> bool {
        self.store.give_page_back() || self.index.give_page_back()
    }

    /// The time, in ms, that half of the series have reached with their newest samples: a few whose sender's
    /// clock is wrong, and this node's own series, say nothing. `None` without series.
    pub fn time_reached_ms(&self) -> Option<i64> {
        let end = self.store.end();
        let asked = (0..end).step_by(end.div_ceil(ASKED_MAX).max(1) as usize).map(SeriesRef);
        let there = asked.filter(|series| self.index.all().contains(series.0));
        let mut newest: Vec<i64> = there.map(|series| self.store.newest_ms(series)).collect();
        newest.sort_unstable();
        newest.get(newest.len() / 2).copied()
    }

    /// Says how retention compares to the wall clock.
    pub fn note_retention(&mut self, state: RetentionState) {
        self.counters.retention_behind_ms = state.behind_ms;
        self.counters.clock_jumps = state.jumps;
    }

    /// None where memory is short, and at most half of the room that is left for series: it counts as held.
    fn wanted_ahead(&mut self) -> usize {
        let wanted = self.store.wanted_ahead();
        if !self.has_room_for_series() {
            return 0;
        }
        let room_bytes = self.memory.room_bytes(self.memory_bytes().total());
        wanted.min(self.store.ahead_within(room_bytes / 2))
    }

    fn retain_slice(&mut self, series: Range<u32>, horizon_ms: i64, journal: &mut impl Journal) {
        for series in series.map(SeriesRef) {
            if !self.index.all().contains(series.0) {
                continue;
            }
            match self.store.drop_before(series, horizon_ms) {
                Retained::Kept => {}
                Retained::Expired if self.is_on_its_way(self.store.id(series).cell()) => {}
                Retained::Expired => {
                    self.remove_series(series, journal);
                    self.counters.series_expired += 1;
                }
            }
        }
    }
}
