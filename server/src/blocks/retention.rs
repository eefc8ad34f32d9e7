//! Which blocks are deleted: the oldest, by time and by what all take. Plain arithmetic.

use silverback_block::Ulid;

use super::directory::LocalBlock;
use silverback_model::limits::CHUNK_RANGE_MS;

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub struct RetentionBounds {
    /// Blocks that end before it go, in ms.
    pub from_ms: i64,
    /// What all may take, in bytes; `None`: there is no such bound.
    pub bytes_max: Option<u64>,
    /// What the memory has from here on is never deleted: it would be cut again.
    pub memory_from_ms: i64,
}

/// The blocks that go, oldest first. `may_go` is asked for those that go by their age: the bound of what all take holds
/// whoever wants them.
pub fn doomed(blocks: &[LocalBlock], kept: &RetentionBounds, may_go: impl Fn(Ulid) -> bool) -> Vec<Ulid> {
    let mut by_age: Vec<&LocalBlock> = blocks.iter().collect();
    by_age.sort_by_key(|block| (block.end_ms, block.ulid));
    let mut bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
    let mut doomed = Vec::new();
    for block in by_age {
        let is_old = block.end_ms <= kept.from_ms;
        let is_much = kept.bytes_max.is_some_and(|bytes_max| bytes > bytes_max);
        // A range of margin: after a restart the memory may reach a little further back.
        let is_in_memory = block.end_ms.saturating_add(CHUNK_RANGE_MS) > kept.memory_from_ms;
        if !is_in_memory && (is_much || is_old && may_go(block.ulid)) {
            bytes -= block.bytes;
            doomed.push(block.ulid);
        }
    }
    doomed
}

#[cfg(test)]
mod tests {
    use super::*;

    const H2: i64 = CHUNK_RANGE_MS;

    /// Blocks of the ranges 0 to 9, of 10 bytes each, by the number of their range.
    fn check(from_ms: i64, bytes_max: Option<u64>, memory_from_ms: i64, stays: u128, expect: &[u128]) {
        let block = |number: i64| LocalBlock {
            ulid: Ulid::from_parts(0, number as u128),
            begin_ms: number * H2,
            end_ms: (number + 1) * H2 - 7,
            bytes: 10,
            is_late: false,
            cut: None,
        };
        let blocks: Vec<_> = (0..10).rev().map(block).collect();
        let kept = RetentionBounds { from_ms, bytes_max, memory_from_ms };
        let found = doomed(&blocks, &kept, |ulid| ulid.random() != stays);
        assert_eq!(found.iter().map(Ulid::random).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn the_oldest_go_by_time_and_by_size_and_what_the_memory_has_stays() {
        check(i64::MIN, None, 10 * H2, 99, &[]);
        check(2 * H2, None, 10 * H2, 99, &[0, 1]);
        check(2 * H2 - 8, None, 10 * H2, 99, &[0]);
        check(i64::MIN, Some(100), 10 * H2, 99, &[]);
        check(i64::MIN, Some(99), 10 * H2, 99, &[0]);
        check(i64::MIN, Some(55), 10 * H2, 99, &[0, 1, 2, 3, 4]);
        check(3 * H2, Some(85), 10 * H2, 99, &[0, 1, 2]);
        check(i64::MIN, Some(0), 4 * H2, 99, &[0, 1, 2]);
        check(9 * H2, None, 0, 99, &[]);
        check(3 * H2, Some(75), 10 * H2, 1, &[0, 1, 2]);
        check(3 * H2, Some(95), 10 * H2, 1, &[0, 2]);
    }
}
