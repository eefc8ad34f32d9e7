//! Which ranges of two hours are to be cut. Plain arithmetic over the blocks that are there: no state but theirs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use silverback_model::limits::CHUNK_RANGE_MS;

/// A fleet's cuts are spread over this.
const SPREAD_MS: u64 = 5 * 60 * 1000;

/// An aligned range of two hours, by its number since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockRange(i64);

impl BlockRange {
    /// The one that a time lies in.
    pub const fn of(at_ms: i64) -> Self {
        Self(at_ms.div_euclid(CHUNK_RANGE_MS))
    }

    /// Those of all times from one to another, both included.
    pub fn between(oldest_ms: i64, newest_ms: i64) -> impl Iterator<Item = Self> {
        (Self::of(oldest_ms).0..=Self::of(newest_ms).0).map(Self)
    }

    /// Its first ms.
    pub const fn begin_ms(self) -> i64 {
        self.0.saturating_mul(CHUNK_RANGE_MS)
    }

    /// The first ms after it.
    pub const fn end_ms(self) -> i64 {
        self.begin_ms().saturating_add(CHUNK_RANGE_MS)
    }

    /// All its times.
    pub const fn times_ms(self) -> RangeInclusive<i64> {
        self.begin_ms()..=self.end_ms() - 1
    }
}

/// When a node cuts.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    after_end_ms: i64,
}

impl Schedule {
    /// So long after a range's end, and some minutes later by the node's identity: else a fleet would cut at
    /// once.
    pub fn new(delay: Duration, node: u64) -> Self {
        let spread_ms = (node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % SPREAD_MS;
        Self { after_end_ms: delay.as_millis() as i64 + spread_ms as i64 }
    }

    /// Whether a range may be cut.
    pub fn is_over(&self, range: BlockRange, now_ms: i64) -> bool {
        range.end_ms().saturating_add(self.after_end_ms) <= now_ms
    }
}

/// The ranges to cut, oldest first: of those in memory, which reaches from one time to another, both inclusive, those
/// that are over and not in `done`. What lies before `from_ms` is gone or about to go, and no block of it is missed that
/// was deleted since.
pub fn due<'a>(
    schedule: &Schedule,
    now_ms: i64,
    memory_ms: Option<(i64, i64)>,
    from_ms: i64,
    done: &'a BTreeSet<BlockRange>,
) -> impl Iterator<Item = BlockRange> + use<'a> {
    let (oldest_ms, newest_ms) = memory_ms.unwrap_or((0, -1));
    let (first, last) = (BlockRange::of(oldest_ms.max(from_ms)), BlockRange::of(newest_ms));
    let schedule = *schedule;
    let last = if memory_ms.is_some() { last.0 } else { first.0 - 1 };
    let ranges = (first.0..=last).map(BlockRange).take_while(move |range| schedule.is_over(*range, now_ms));
    ranges.filter(|range| !done.contains(range))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const H2: i64 = CHUNK_RANGE_MS;

    fn check(now_ms: i64, memory_ms: Option<(i64, i64)>, horizon_ms: i64, done: &[i64], expect: &[i64]) {
        let schedule = Schedule { after_end_ms: 1000 };
        let done = done.iter().map(|number| BlockRange(*number)).collect();
        let found: Vec<_> =
            due(&schedule, now_ms, memory_ms, horizon_ms, &done).map(|range| range.0).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn what_is_over_and_in_no_block_is_due_oldest_first() {
        let memory = Some((H2 + 5, 5 * H2));
        check(i64::MAX, None, 0, &[], &[]);
        check(2 * H2 + 999, memory, 0, &[], &[]);
        check(2 * H2 + 1000, memory, 0, &[], &[1]);
        check(9 * H2, memory, 0, &[], &[1, 2, 3, 4, 5]);
        check(9 * H2, memory, 0, &[1, 3], &[2, 4, 5]);
        check(9 * H2, memory, 3 * H2 - 1, &[], &[2, 3, 4, 5]);
        check(9 * H2, memory, 3 * H2, &[], &[3, 4, 5]);
        check(9 * H2, Some((-5, -1)), i64::MIN, &[], &[-1]);
    }

    #[test]
    fn nodes_cut_at_times_of_their_own_within_minutes() {
        let times: BTreeSet<_> =
            (0..1000).map(|node| Schedule::new(Duration::from_secs(1), node).after_end_ms).collect();
        assert!(times.len() > 900 && times.iter().all(|ms| (1000..1000 + SPREAD_MS as i64).contains(ms)));
        let [one, same] = [7, 7].map(|node| Schedule::new(Duration::ZERO, node).after_end_ms);
        assert_eq!(one, same);
    }

    proptest! {
        #[test]
        fn whatever_the_clock_does_each_range_is_cut_once_and_none_before_its_end(
            looks in prop::collection::vec((-3_i64..400, any::<bool>()), 1..200),
        ) {
            let schedule = Schedule { after_end_ms: H2 / 2 };
            let (mut done, mut cut) = (BTreeSet::new(), Vec::new());
            for (now, succeeds) in looks {
                let now_ms = now * H2 / 16;
                let first = due(&schedule, now_ms, Some((0, now_ms.max(0))), i64::MIN, &done).next();
                if let (Some(range), true) = (first, succeeds) {
                    prop_assert!(range.end_ms() + H2 / 2 <= now_ms);
                    done.insert(range);
                    cut.push(range);
                }
            }
            prop_assert!(cut.is_sorted_by(|one, next| one < next), "oldest first: {:?}", cut);
            prop_assert!(cut.iter().zip(0..).all(|(range, number)| range.0 == number), "none left out");
        }
    }
}
