//! Samples that came after their range was cut: they get blocks of their own, with the hint that Prometheus gives these.
//!
//! Shards mark the series that take such samples, so a block of them has those series of the range. Which these are isn't
//! known after a start, nor where a marked series has left its shard: then what the memory has of the range is compared with
//! what the newest block of it says the memory had, series by series, and where that isn't the same, or a cell moved
//! meanwhile, all of the range is written again. A sample may be in several blocks then, with the same value; none is in no
//! block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::cut::{CutPart, Uncut};
use super::{Keeper, KeeperError, Memory, Step};
use crate::blocks::{BlockRange, LocalBlock};
use silverback_block::Ulid;
use silverback_runtime::now;
use silverback_storage::message::CoreStats;

/// What retention is about to drop is looked at this often; else late samples wait for the next cut of a range.
const URGENT_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// What begins so long after retention's horizon, or earlier, it is about to drop.
const URGENT_MS: i64 = 2 * URGENT_INTERVAL.as_millis() as i64;
/// A sample is accepted so long after it was found young enough, at most.
const ON_ITS_WAY_MS: i64 = 60 * 1000;

/// When late samples are written.
#[derive(Debug)]
pub(super) struct LateTurn {
    /// A range was cut since, or the node has started.
    is_due: bool,
    /// When what is urgent was looked at last.
    looked: Instant,
    /// What is older and came late is in blocks, in ms: none of it can come any more.
    clear_ms: i64,
}

impl Default for LateTurn {
    fn default() -> Self {
        Self { is_due: true, looked: now(), clear_ms: i64::MIN }
    }
}

impl LateTurn {
    /// A range was cut.
    pub(super) fn call(&mut self) {
        self.is_due = true;
    }

    /// Of these ranges something came late that is in no block, and of no other; nothing that is older than the horizon is
    /// taken any more.
    fn note(&mut self, mut late: impl Iterator<Item = BlockRange>, horizon_ms: i64) {
        if late.all(|range| range.begin_ms() >= horizon_ms) {
            self.clear_ms = self.clear_ms.max(horizon_ms.saturating_sub(ON_ITS_WAY_MS));
        }
    }
}

/// What all shards have that is in no block, by range.
pub(super) fn uncut(cores: &[CoreStats]) -> BTreeMap<BlockRange, Uncut> {
    let mut all = BTreeMap::<BlockRange, Uncut>::new();
    for own in cores.iter().flat_map(|core| &core.shard.uncut) {
        let sum = all.entry(BlockRange::of(own.begin_ms)).or_default();
        sum.series += own.series;
        sum.is_unknown |= own.is_unknown;
    }
    all
}

/// The ranges to look at, oldest first: of those that are in blocks those with late samples, and those that weren't
/// compared with their blocks since the start.
fn wanted<'a>(
    in_blocks: impl Iterator<Item = &'a BlockRange>,
    uncut: &BTreeMap<BlockRange, Uncut>,
    settled: &BTreeSet<BlockRange>,
    from_ms: i64,
) -> impl Iterator<Item = BlockRange> {
    let is_wanted = move |range: &&BlockRange| {
        range.end_ms() > from_ms && (uncut.contains_key(range) || !settled.contains(range))
    };
    in_blocks.filter(is_wanted).copied()
}

/// What is to be written of a range. `is_as_before`: the memory has what it had when the last block of it was cut;
/// `has_moved`: a cell did since the marks were looked at for the first time.
fn part_of(uncut: Uncut, is_as_before: bool, has_moved: bool) -> Option<CutPart> {
    match uncut {
        _any if has_moved => Some(CutPart::Again),
        Uncut { is_unknown: true, .. } if !is_as_before => Some(CutPart::Again),
        Uncut { series: 0, .. } => None,
        Uncut { .. } => Some(CutPart::Late),
    }
}

impl Keeper {
    /// Ranges of which there are blocks, and late samples that are in none, or perhaps are.
    pub(super) fn late_ranges(&self, memory: &Memory) -> Vec<BlockRange> {
        let in_blocks = self.held_by_blocks();
        wanted(in_blocks.keys(), &memory.uncut, &self.settled, memory.from_ms).collect()
    }

    /// What is older is in no need of a block any more: retention may drop it. `due` are the ranges to be cut, `late` those
    /// of late samples.
    pub(super) fn released_ms(&mut self, memory: &Memory, due: &[BlockRange], late: &[BlockRange]) -> i64 {
        self.late.note(late.iter().copied(), memory.horizon_ms);
        let unsettled = late.iter().find(|range| !self.settled.contains(range)).copied();
        let unopened = self.first_unopened(memory).map(|(range, _)| range);
        let waiting = [due.first().copied(), unsettled, unopened];
        let begins_ms = waiting.into_iter().flatten().map(|range| range.begin_ms());
        begins_ms.fold(self.late.clear_ms.min(memory.horizon_ms), i64::min)
    }

    /// Writes what came late of the first range of which it can be written.
    pub(super) async fn cut_late(
        &mut self,
        memory: &Memory,
        ranges: &[BlockRange],
    ) -> Result<Step, KeeperError> {
        self.blocks.counts.late_ranges.store(ranges.len() as u64, Ordering::Relaxed);
        let is_urgent_due = self.late.looked.elapsed() >= URGENT_INTERVAL;
        let before_ms = match (self.late.is_due, is_urgent_due) {
            (true, _) => i64::MAX,
            (false, true) => memory.horizon_ms.saturating_add(URGENT_MS),
            (false, false) => return Ok(Step::Nothing),
        };
        let mut first_fault = None;
        for range in ranges.iter().copied().filter(|range| range.begin_ms() < before_ms) {
            self.note_cut_again(range);
            match self.cut_late_of(range).await {
                Ok(()) => {
                    self.note_settled(range);
                    // What was there at the look is in a block now. What came since is younger.
                    self.late.note(ranges.iter().copied().filter(|other| *other != range), memory.horizon_ms);
                    return Ok(Step::Done);
                }
                Err(fault) if first_fault.is_some() => {
                    tracing::debug!(%fault, begin_ms = range.begin_ms(), "blocks: late samples of another range can't be cut either");
                }
                Err(fault) => first_fault = Some(fault),
            }
            if self.reader.shutdown.is_requested() {
                break;
            }
        }
        if let Some(fault) = first_fault {
            return Err(fault);
        }
        (self.late.is_due, self.late.looked) = (false, now());
        Ok(Step::Nothing)
    }

    async fn cut_late_of(&self, range: BlockRange) -> Result<(), KeeperError> {
        let read = self.begin_read().await?;
        let epoch = self.reader.router.read_epoch();
        // A cell that moves leaves its marks behind: what it had may be counted as written, and not be.
        let has_moved = || self.reader.router.read_epoch() != epoch;
        // From here on all that comes late is marked. What is counted before the cut begins is in its block then.
        self.begin_cut(&read, range).await?;
        let before = self.count(&read, range).await?;
        let mut uncut = self.begin_cut(&read, range).await?;
        uncut.is_unknown |= !self.settled.contains(&range);
        let is_as_before =
            !self.reduced.contains(&range) && self.held_by_blocks().get(&range) == Some(&before.held);
        let mut part = part_of(uncut, is_as_before, has_moved());
        if part == Some(CutPart::Late) {
            self.write(&read, range, CutPart::Late, before.clone()).await?;
            part = has_moved().then_some(CutPart::Again);
        }
        if let Some(part) = part {
            self.write(&read, range, part, before).await?;
        }
        Ok(self.end_cut(&read, range).await?)
    }

    /// All blocks that this node cut of a range, those among them that were cut before it was over.
    pub(super) fn blocks_of(&self, range: BlockRange) -> impl Iterator<Item = Ulid> {
        let is_of_range = move |block: &&LocalBlock| {
            block.cut.as_ref().is_some_and(|cut| BlockRange::of(cut.begin_ms) == range)
        };
        self.readable_blocks().filter(is_of_range).map(|block| block.ulid)
    }

    /// By range, what the memory had when the newest block of it was cut.
    fn held_by_blocks(&self) -> BTreeMap<BlockRange, Vec<u64>> {
        // Blocks come in the order in which they were made.
        let held =
            |(range, block): (BlockRange, &LocalBlock)| Some((range, block.cut.as_ref()?.held.clone()));
        self.own_blocks().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::limits::CHUNK_RANGE_MS;

    const H2: i64 = CHUNK_RANGE_MS;

    fn check(uncut: &[i64], settled: &[i64], from_ms: i64, expect: &[i64]) {
        let ranges = |numbers: &[i64]| numbers.iter().map(|number| BlockRange::of(number * H2)).collect();
        let (in_blocks, settled): (BTreeSet<_>, _) = (ranges(&[1, 2, 3, 4]), ranges(settled));
        let uncut = uncut.iter().map(|number| (BlockRange::of(number * H2), Uncut::default())).collect();
        let found: Vec<_> = wanted(in_blocks.iter(), &uncut, &settled, from_ms).collect();
        assert_eq!(found, expect.iter().map(|number| BlockRange::of(number * H2)).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_with_late_samples_and_those_never_compared_are_looked_at_oldest_first() {
        let all = [1, 2, 3, 4];
        check(&[], &all, 0, &[]);
        check(&[3, 2], &all, 0, &[2, 3]);
        check(&[3], &[2, 3, 4], 0, &[1, 3]);
        check(&[5, 0], &all, 0, &[]);
        check(&all, &[], 3 * H2, &[3, 4]);
    }
    #[test]
    fn all_of_a_range_is_written_where_it_is_in_doubt_what_came_late() {
        let uncut = |series: u64, is_unknown: bool| Uncut { series, is_unknown };
        let check = |uncut: Uncut, is_as_before: bool, has_moved: bool, expect: Option<CutPart>| {
            assert_eq!(part_of(uncut, is_as_before, has_moved), expect, "{uncut:?} {is_as_before}");
        };
        check(uncut(0, false), false, false, None);
        check(uncut(3, false), false, false, Some(CutPart::Late));
        check(uncut(0, true), true, false, None);
        check(uncut(3, true), true, false, Some(CutPart::Late));
        check(uncut(0, true), false, false, Some(CutPart::Again));
        check(uncut(3, true), false, false, Some(CutPart::Again));
        // It came before the move and was counted after it, or was counted on neither side.
        for (series, is_unknown, is_as_before) in [(0, false, false), (0, true, true), (3, false, true)] {
            check(uncut(series, is_unknown), is_as_before, true, Some(CutPart::Again));
        }
    }

    #[test]
    fn what_came_late_and_is_about_to_go_is_waited_for_until_it_is_in_a_block() {
        let mut late = LateTurn::default();
        let ranges = |numbers: &'static [i64]| numbers.iter().map(|number| BlockRange::of(number * H2));
        assert_eq!(late.clear_ms, i64::MIN, "nothing is known at a start");
        late.note(ranges(&[3]), 3 * H2 + 5);
        assert_eq!(late.clear_ms, i64::MIN);
        late.note(ranges(&[4]), 3 * H2 + 5);
        assert_eq!(late.clear_ms, 3 * H2 + 5 - ON_ITS_WAY_MS);
        late.note(ranges(&[3, 4]), 3 * H2 + 9);
        late.note(ranges(&[]), 3 * H2);
        assert_eq!(late.clear_ms, 3 * H2 + 5 - ON_ITS_WAY_MS, "it goes back with no clock");
    }
}
