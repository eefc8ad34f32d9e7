//! Samples that came after their range was cut: they get blocks of their own, with the hint that Prometheus gives these.
//!
//! Shards mark the series that take such samples, so a block of them has those series of the range. Which these are isn't
//! known after a start, nor where a marked series has left its shard: then what the memory has of the range is counted and
//! compared with what the newest block of it says the memory had, and all of the range is written again where there is
//! more. A sample may be in several blocks then, with the same value; none is in no block.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::cut::{Part, Uncut};
use super::{Keeper, Memory, Step, StepFault};
use crate::blocks::Range;
use silverback_runtime::now;
use silverback_storage::message::CoreStats;

/// What retention is about to drop is looked at this often; else late samples wait for the next cut of a range.
const URGENT_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// What begins so long after retention's horizon, or earlier, it is about to drop.
const URGENT_MS: i64 = 2 * URGENT_INTERVAL.as_millis() as i64;
/// Cores' horizons are that near to each other.
pub(super) const HORIZON_SLACK_MS: i64 = 60 * 1000;

/// When late samples are written.
#[derive(Debug)]
pub(super) struct LateTurn {
    /// A range was cut since, or the node has started.
    is_due: bool,
    /// When what is urgent was looked at last.
    looked: Instant,
}

impl Default for LateTurn {
    fn default() -> Self {
        Self { is_due: true, looked: now() }
    }
}

impl LateTurn {
    /// A range was cut.
    pub(super) fn call(&mut self) {
        self.is_due = true;
    }
}

/// What all shards have that is in no block, by range.
pub(super) fn uncut(cores: &[CoreStats]) -> BTreeMap<Range, Uncut> {
    let mut all = BTreeMap::<Range, Uncut>::new();
    for own in cores.iter().flat_map(|core| &core.shard.uncut) {
        let sum = all.entry(Range::of(own.begin_ms)).or_default();
        sum.series += own.series;
        sum.is_unknown |= own.is_unknown;
    }
    all
}

/// The ranges to look at, oldest first: of those that are in blocks those with late samples, and those that weren't
/// compared with their blocks since the start.
fn wanted<'a>(
    in_blocks: impl Iterator<Item = &'a Range>,
    uncut: &BTreeMap<Range, Uncut>,
    settled: &BTreeSet<Range>,
    from_ms: i64,
) -> impl Iterator<Item = Range> {
    let is_wanted = move |range: &&Range| {
        range.end_ms() > from_ms && (uncut.contains_key(range) || !settled.contains(range))
    };
    in_blocks.filter(is_wanted).copied()
}

impl Keeper {
    /// Writes what came late of one range.
    pub(super) async fn cut_late(&mut self, memory: &Memory) -> Result<Step, StepFault> {
        let in_blocks = self.held_by_blocks();
        let ranges: Vec<_> =
            wanted(in_blocks.keys(), &memory.uncut, &self.settled, memory.horizon_ms).collect();
        self.blocks.counts.note_late_ranges(ranges.len() as u64);
        let is_urgent_due = self.late.looked.elapsed() >= URGENT_INTERVAL;
        let before_ms = match (self.late.is_due, is_urgent_due) {
            (true, _) => i64::MAX,
            (false, true) => memory.horizon_ms.saturating_add(URGENT_MS),
            (false, false) => return Ok(Step::Nothing),
        };
        let Some(range) = ranges.into_iter().find(|range| range.begin_ms() < before_ms) else {
            (self.late.is_due, self.late.looked) = (false, now());
            return Ok(Step::Nothing);
        };
        self.cut_late_of(range, &in_blocks[&range], memory.horizon_ms).await?;
        self.settled.insert(range);
        Ok(Step::Done)
    }

    async fn cut_late_of(&self, range: Range, held: &[u64], horizon_ms: i64) -> Result<(), StepFault> {
        let read = self.begin_read().await?;
        let epoch = self.reader.router.read_epoch();
        // From here on all that comes late is marked. What is counted before the cut begins is in its block then.
        self.begin_cut(&read, range).await?;
        let counted = self.count(&read, range).await?;
        let Uncut { series, is_unknown } = self.begin_cut(&read, range).await?;
        let has_whole_from_ms = horizon_ms.saturating_add(HORIZON_SLACK_MS);
        let is_more = || counted.has_more_than(held, range.begin_ms(), has_whole_from_ms);
        if (is_unknown || !self.settled.contains(&range)) && is_more() {
            self.write(&read, range, Part::Again).await?;
        } else if series > 0 {
            self.write(&read, range, Part::Late(counted)).await?;
            // A cell that has moved left its marks behind: what it had is counted as written, and may not be.
            if self.reader.router.read_epoch() != epoch {
                self.write(&read, range, Part::Again).await?;
            }
        }
        Ok(self.end_cut(&read, range).await?)
    }

    /// By range, what the memory had when the newest block of it was cut.
    fn held_by_blocks(&self) -> BTreeMap<Range, Vec<u64>> {
        // Blocks come in the order in which they were made.
        let held = |(range, block): (Range, &crate::blocks::LocalBlock)| {
            Some((range, block.cut.as_ref()?.held.clone()))
        };
        self.own_blocks().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::limits::CHUNK_RANGE_MS;

    const H2: i64 = CHUNK_RANGE_MS;

    fn check(uncut: &[i64], settled: &[i64], from_ms: i64, expect: &[i64]) {
        let ranges = |numbers: &[i64]| numbers.iter().map(|number| Range::of(number * H2)).collect();
        let (in_blocks, settled): (BTreeSet<_>, _) = (ranges(&[1, 2, 3, 4]), ranges(settled));
        let uncut = uncut.iter().map(|number| (Range::of(number * H2), Uncut::default())).collect();
        let found: Vec<_> = wanted(in_blocks.iter(), &uncut, &settled, from_ms).collect();
        assert_eq!(found, expect.iter().map(|number| Range::of(number * H2)).collect::<Vec<_>>());
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
}
