//! Series that have one sample and nothing after it: what a burst of label sets leaves behind. They are the
//! first to go when room for new series is short.
//!
//! From time to time all of them are marked. A series that was marked two hours ago and has one sample still was sent
//! nothing for two hours, by the node's own clock: timestamps don't say it, for samples may come late.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::shard::{Host, Shard};
use crate::wal::{Journal, Log};

/// How long a series may have one sample before it may go.
const SILENT: Duration = Duration::from_secs(2 * 60 * 60);
/// Marks are made so far apart.
const MARK_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Series that are looked at between two looks at the slice.
const STEP: usize = 64;

/// Marks of several times, oldest first. Of series with many neighbours a mark takes a bit each.
#[derive(Debug, Default)]
pub(super) struct Singles(VecDeque<Mark>);

#[derive(Debug)]
struct Mark {
    at_us: u64,
    series: RoaringBitmap,
}

impl Singles {
    /// A series is gone; its ref may get another one.
    pub(super) fn forget(&mut self, series: SeriesRef) {
        for mark in &mut self.0 {
            mark.series.remove(series.0);
        }
    }

    fn is_mark_due(&self, now_us: u64) -> bool {
        self.0.back().is_none_or(|last| now_us.saturating_sub(last.at_us) >= micros(MARK_INTERVAL))
    }

    /// Begins a mark. Of two that are old enough the later one is as good: who left the former one has
    /// got samples.
    fn begin(&mut self, now_us: u64) {
        while self.0.get(1).is_some_and(|second| second.is_old(now_us)) {
            self.0.pop_front();
        }
        self.0.push_back(Mark { at_us: now_us, series: RoaringBitmap::new() });
    }

    /// Takes some of the series that were marked long ago.
    fn take_old(&mut self, now_us: u64) -> Vec<SeriesRef> {
        while self.0.front().is_some_and(|mark| mark.is_old(now_us) && mark.series.is_empty()) {
            self.0.pop_front();
        }
        let Some(oldest) = self.0.front_mut().filter(|mark| mark.is_old(now_us)) else { return Vec::new() };
        let some: Vec<SeriesRef> = oldest.series.iter().take(STEP).map(SeriesRef).collect();
        oldest.series.remove_smallest(some.len() as u64);
        some
    }
}

impl Mark {
    fn is_old(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.at_us) >= micros(SILENT)
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Marks, where it is time for that, and drops who was marked two hours ago and has one sample still, as
/// long as room for new series is short. Returns how many went. `now_us` never goes back; a sample that isn't before
/// `before_ms` stays: it may be in no block yet.
pub async fn drop_singles<H: Host, L: Log>(
    shard: &Rc<RefCell<Shard>>,
    log: &L,
    host: &H,
    (now_us, before_ms): (u64, i64),
) -> usize {
    if shard.borrow().singles.is_mark_due(now_us) {
        mark(shard, host, now_us).await;
    }
    let mut dropped = 0;
    while shard.borrow_mut().is_short_of_series() {
        let some = shard.borrow_mut().singles.take_old(now_us);
        if some.is_empty() {
            break;
        }
        dropped += shard.borrow_mut().drop_single(&some, before_ms, &mut *log.journal());
        host.yield_if_needed().await;
    }
    host.release_slice();
    dropped
}

async fn mark<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, now_us: u64) {
    shard.borrow_mut().singles.begin(now_us);
    let mut from = 0;
    loop {
        let end = shard.borrow().store.end();
        if from >= end {
            break;
        }
        let to = end.min(from + STEP as u32);
        shard.borrow_mut().mark_singles(from..to);
        from = to;
        host.yield_if_needed().await;
    }
}

impl Shard {
    fn is_short_of_series(&mut self) -> bool {
        self.series_limit.is_reached_by(self.store.count()) || !self.has_room_for_series()
    }

    fn mark_singles(&mut self, series: Range<u32>) {
        let Some(mark) = self.singles.0.back_mut() else { return };
        for series in series.map(SeriesRef) {
            if self.store.holds(series) && self.store.is_single(series) {
                mark.series.insert(series.0);
            }
        }
    }

    fn drop_single(&mut self, series: &[SeriesRef], before_ms: i64, journal: &mut impl Journal) -> usize {
        let mut dropped = 0;
        for series in series {
            // Its ref is forgotten with a series, so it is the one that was marked.
            let is_single = self.store.holds(*series) && self.store.is_single(*series);
            let may_go = is_single && self.store.newest_ms(*series) < before_ms;
            if may_go && !self.is_on_its_way(self.store.id(*series).cell()) {
                self.remove_series(*series, journal);
                dropped += 1;
            }
        }
        self.counters.series_evicted += dropped as u64;
        dropped
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::shard::tests::{EVER, append, scrape, shard};
    use crate::wal::MemoryLog;
    use silverback_host::Alone;

    const HOUR_US: u64 = 60 * 60 * 1_000_000;

    fn pass(shard: &Rc<RefCell<Shard>>, hours: u64) -> usize {
        pass_before(shard, hours * HOUR_US, i64::MAX)
    }

    fn pass_before(shard: &Rc<RefCell<Shard>>, now_us: u64, before_ms: i64) -> usize {
        block_on(drop_singles(shard, &MemoryLog::default(), &Alone, (now_us, before_ms)))
    }

    #[test]
    fn what_a_burst_left_goes_when_room_is_short_and_known_series_stay() {
        let shard = shard();
        append(&shard, EVER, &scrape(100, 1000));
        let burst = append(&shard, EVER, &scrape(5000, 2000));
        assert_eq!(burst.written, 5000, "a hundred of them have two samples now");
        assert_eq!((pass(&shard, 0), pass(&shard, 3)), (0, 0), "there is room");
        let held = shard.borrow().memory_bytes().total();
        shard.borrow_mut().set_memory_budgets(held, 2 * held);
        assert_eq!(append(&shard, EVER, &scrape(5001, 3000)).written, 5000, "no new series");
        // They have two samples now, but for those that come.
        shard.borrow_mut().set_memory_budgets(usize::MAX, usize::MAX);
        let late = scrape(9000, 4000).split_off(5000);
        assert_eq!(append(&shard, EVER, &late).written, 4000);
        assert_eq!(pass(&shard, 4), 0);
        let held = shard.borrow().memory_bytes().total();
        shard.borrow_mut().set_memory_budgets(held, 2 * held);
        assert_eq!(pass(&shard, 5), 0, "not two hours yet");
        let dropped = pass(&shard, 6);
        let stats = shard.borrow().stats();
        assert!((1..=4000).contains(&dropped), "{dropped}");
        assert_eq!((stats.series, stats.series_evicted), (9000 - dropped, dropped as u64));
        assert!(shard.borrow_mut().has_room_for_series() || dropped == 4000);
        assert_eq!(append(&shard, EVER, &scrape(5000, 9000)).written, 5000, "known ones are all there");
    }

    #[test]
    fn a_ref_that_another_series_got_is_not_dropped_for_the_former_one() {
        let shard = Rc::new(RefCell::new(Shard::new(silverback_model::ShardId(0), 50)));
        append(&shard, EVER, &scrape(50, 1000));
        assert_eq!(pass(&shard, 0), 0);
        block_on(crate::shard::maintenance::retain(&shard, &MemoryLog::default(), &Alone, 5000));
        append(&shard, EVER, &scrape(100, 6000).split_off(50));
        assert_eq!(pass(&shard, 2), 0, "they are new, at refs that were marked");
        assert_eq!(pass(&shard, 5), 50, "the limit is reached, and they go a step at a time");
        assert_eq!(append(&shard, EVER, &scrape(50, 7000)).written, 50);
    }

    #[test]
    fn a_sample_that_is_in_no_block_yet_stays_until_it_is() {
        let shard = Rc::new(RefCell::new(Shard::new(silverback_model::ShardId(0), 20)));
        append(&shard, EVER, &scrape(10, 1000));
        append(&shard, EVER, &scrape(20, 2000).split_off(10));
        let pass = |hours, before_ms| pass_before(&shard, hours * HOUR_US, before_ms);
        assert_eq!((pass(0, 2000), pass(3, 1000)), (0, 0), "nothing is in a block");
        assert_eq!((pass(6, 2000), shard.borrow().stats().series), (10, 10));
        let mut later = (9..20).map(|hours| pass(hours, 2001));
        assert!(later.all(|dropped| dropped == 0), "there is room");
        append(&shard, EVER, &scrape(30, 3000).split_off(20));
        assert_eq!((pass(30, 2001), shard.borrow().stats().series), (10, 10), "looked at again and again");
    }

    #[test]
    fn marks_are_few_however_long_there_is_room() {
        let shard = shard();
        append(&shard, EVER, &scrape(10, 1000));
        for half_hours in 0..100 {
            pass_before(&shard, half_hours * HOUR_US / 2, i64::MAX);
        }
        assert!(shard.borrow().singles.0.len() <= 6, "{:?}", shard.borrow().singles);
    }
}
