//! What follows from blocks that reads can't be answered from: their ranges stay in memory, or are cut again. Plain arithmetic.

use std::collections::{BTreeMap, BTreeSet};

use super::Memory;
use crate::blocks::BlockRange;
use silverback_block::Ulid;

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

/// Ranges that aren't cut again: `cut_again` says when they were, in ms, and one of the blocks made since is set aside. The next
/// would be damaged, too.
pub(super) fn given_up(
    set_aside: impl Iterator<Item = (BlockRange, Ulid)>,
    cut_again: &BTreeMap<BlockRange, u64>,
) -> BTreeSet<BlockRange> {
    let is_made_since = |(range, ulid): &(BlockRange, Ulid)| {
        cut_again.get(range).is_some_and(|since_ms| ulid.timestamp_ms() >= *since_ms)
    };
    set_aside.filter(is_made_since).map(|(range, _)| range).collect()
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
    fn a_range_is_cut_again_however_many_of_its_blocks_are_damaged_and_once() {
        let check = |set_aside: &[(i64, u64)], cut_again: &[(i64, u64)], expect: &[i64]| {
            let set_aside = set_aside
                .iter()
                .map(|(number, made_ms)| (BlockRange::of(number * H2), Ulid::from_parts(*made_ms, 7)));
            let cut_again = cut_again.iter().map(|(number, at_ms)| (BlockRange::of(number * H2), *at_ms));
            assert_eq!(given_up(set_aside, &cut_again.collect()), ranges(expect).collect());
        };
        check(&[(1, 10), (1, 20), (1, 30)], &[], &[]);
        check(&[(1, 10), (1, 20), (2, 50)], &[(1, 40)], &[]);
        check(&[(1, 10), (1, 40), (2, 50)], &[(1, 40)], &[1]);
        check(&[(1, 10), (2, 50)], &[(1, 40), (2, 40), (3, 0)], &[2]);
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
