//! What follows from blocks that reads can't be answered from: their ranges stay in memory, or are cut again. Plain arithmetic.

use std::collections::{BTreeMap, BTreeSet};

use super::Memory;
use crate::blocks::BlockRange;
use silverback_block::Ulid;

/// Blocks of a range that were set aside until it isn't cut again: the next one would be damaged, too.
const DAMAGED_MAX: usize = 2;

/// The first of the blocks, of which memory has anything, that can't be opened: reads find it in memory alone.
pub(super) fn first_unopened(
    blocks: impl Iterator<Item = (BlockRange, Ulid)>,
    unopened: &BTreeSet<Ulid>,
    memory: &Memory,
) -> Option<(BlockRange, Ulid)> {
    let (oldest_ms, newest_ms) = memory.range_ms?;
    let is_in_memory =
        |range: BlockRange| range.end_ms() > oldest_ms.max(memory.from_ms) && range.begin_ms() <= newest_ms;
    blocks.filter(|(range, ulid)| is_in_memory(*range) && unopened.contains(ulid)).min()
}

/// Of the ranges of blocks that were set aside, those that aren't cut again.
pub(super) fn given_up(set_aside: impl Iterator<Item = BlockRange>) -> BTreeSet<BlockRange> {
    let mut counts = BTreeMap::<_, usize>::new();
    set_aside.for_each(|range| *counts.entry(range).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count >= DAMAGED_MAX).map(|(range, _)| range).collect()
}

/// Before when all that memory has is in blocks that reads are answered from: but for these ranges, and those that aren't done.
pub(super) fn in_blocks_ms(
    memory: &Memory,
    done: &BTreeSet<BlockRange>,
    missing: impl Iterator<Item = BlockRange>,
) -> i64 {
    let Some((oldest_ms, newest_ms)) = memory.range_ms else { return i64::MIN };
    let mut in_memory = BlockRange::between(oldest_ms.max(memory.from_ms), newest_ms);
    let first = in_memory.find(|range| !done.contains(range));
    let begins_ms = missing.chain(first).map(BlockRange::begin_ms);
    begins_ms.min().unwrap_or_else(|| BlockRange::of(newest_ms).end_ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::limits::CHUNK_RANGE_MS;

    const H2: i64 = CHUNK_RANGE_MS;

    fn ranges(numbers: &[i64]) -> impl Iterator<Item = BlockRange> {
        numbers.iter().map(|number| BlockRange::of(number * H2))
    }

    fn memory(range_ms: Option<(i64, i64)>, from_ms: i64) -> Memory {
        Memory { now_ms: 9 * H2, range_ms, horizon_ms: 0, from_ms, uncut: BTreeMap::new() }
    }

    #[test]
    fn memory_keeps_the_first_range_that_it_has_and_reads_find_in_no_open_block() {
        let ulid = |number: i64| Ulid::from_parts(0, number as u128);
        let check = |range_ms, from_ms, unopened: &[i64], expect: Option<i64>| {
            let blocks = (1..=8).rev().map(|number| (BlockRange::of(number * H2), ulid(number)));
            let unopened = unopened.iter().map(|number| ulid(*number)).collect();
            let found = first_unopened(blocks, &unopened, &memory(range_ms, from_ms)).map(|(range, _)| range);
            assert_eq!(found, expect.map(|number| BlockRange::of(number * H2)), "{range_ms:?} {unopened:?}");
        };
        let all = Some((2 * H2, 9 * H2));
        check(all, 0, &[], None);
        check(all, 0, &[1], None);
        check(all, 0, &[7, 4], Some(4));
        check(all, 5 * H2, &[4, 7], Some(7));
        check(all, 5 * H2 - 1, &[4, 7], Some(4));
        check(Some((2 * H2, 7 * H2 - 1)), 0, &[7], None);
        check(None, 0, &[4], None);
    }

    #[test]
    fn a_range_is_cut_again_once_whatever_becomes_of_it() {
        assert!(given_up(ranges(&[])).is_empty());
        assert!(given_up(ranges(&[1, 2, 3])).is_empty());
        assert_eq!(given_up(ranges(&[3, 1, 2, 3, 2, 3])), ranges(&[2, 3]).collect());
    }

    #[test]
    fn what_is_in_blocks_ends_where_the_first_range_begins_that_is_not() {
        let check = |range_ms, from_ms, done: &[i64], missing: &[i64], expect| {
            let found = in_blocks_ms(&memory(range_ms, from_ms), &ranges(done).collect(), ranges(missing));
            assert_eq!(found, expect, "{range_ms:?} from {from_ms}, {done:?}, {missing:?}");
        };
        let all = Some((2 * H2 + 5, 5 * H2 + 5));
        check(None, 0, &[], &[], i64::MIN);
        check(all, 0, &[], &[], 2 * H2);
        check(all, 0, &[2, 3, 5], &[], 4 * H2);
        check(all, 3 * H2, &[3], &[], 4 * H2);
        check(all, 0, &[2, 3, 4, 5], &[], 6 * H2);
        check(all, 0, &[2, 3, 4, 5], &[5, 3], 3 * H2);
    }
}
