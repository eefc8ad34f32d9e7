//! Which ranges of two hours a snapshot has a block of.

use std::ops::RangeInclusive;

use crate::api::query::range_blocks::RangeBlocksError;
use silverback_model::limits::CHUNK_RANGE_MS;

/// Two years and more, at two hours a block.
const RANGES_MAX: u64 = 10_000;
/// As long after its end Prometheus' head keeps a range.
const HEAD_GRACE_MS: i64 = CHUNK_RANGE_MS / 2;

/// What is to be in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotScope {
    /// All there is.
    Everything,
    /// No range that a Prometheus would have in its head alone.
    WithoutHead,
}

/// The ranges that samples of these times lie in, each as its blocks are aligned; the last one ends with them.
pub(super) fn ranges(
    times_ms: Option<(i64, i64)>,
    asked: SnapshotScope,
) -> Result<impl Iterator<Item = RangeInclusive<i64>>, RangeBlocksError> {
    // None: a range that is empty.
    let (min_ms, max_ms) = times_ms.unwrap_or((0, -1));
    let first = min_ms.div_euclid(CHUNK_RANGE_MS);
    let last = match asked {
        _ if times_ms.is_none() => first - 1,
        SnapshotScope::Everything => max_ms.div_euclid(CHUNK_RANGE_MS),
        SnapshotScope::WithoutHead => max_ms.saturating_sub(HEAD_GRACE_MS).div_euclid(CHUNK_RANGE_MS) - 1,
    };
    let count = last.saturating_sub(first).saturating_add(1).max(0) as u64;
    if count > RANGES_MAX {
        return Err(RangeBlocksError::TooManyRanges { ranges: count, ranges_max: RANGES_MAX });
    }
    Ok((first..=last).map(move |range| {
        let begin_ms = range.saturating_mul(CHUNK_RANGE_MS);
        begin_ms..=begin_ms.saturating_add(CHUNK_RANGE_MS - 1).min(max_ms)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times_ms: Option<(i64, i64)>, asked: SnapshotScope, expect: &[(i64, i64)]) {
        let found = ranges(times_ms, asked).unwrap();
        let found: Vec<_> = found.map(|range| (*range.start(), *range.end())).collect();
        assert_eq!(found, expect, "{times_ms:?} {asked:?}");
    }

    #[test]
    fn ranges_are_aligned_and_the_last_one_ends_with_the_samples() {
        const H2: i64 = CHUNK_RANGE_MS;
        check(None, SnapshotScope::Everything, &[]);
        check(None, SnapshotScope::WithoutHead, &[]);
        check(Some((5, 5)), SnapshotScope::Everything, &[(0, 5)]);
        check(Some((-1, H2)), SnapshotScope::Everything, &[(-H2, -1), (0, H2 - 1), (H2, H2)]);
        check(Some((5, H2 + H2 / 2 - 1)), SnapshotScope::WithoutHead, &[]);
        check(Some((5, H2 + H2 / 2)), SnapshotScope::WithoutHead, &[(0, H2 - 1)]);
        check(Some((5, 3 * H2)), SnapshotScope::WithoutHead, &[(0, H2 - 1), (H2, 2 * H2 - 1)]);
    }

    #[test]
    fn times_that_lie_too_far_apart_are_refused() {
        let fault = ranges(Some((i64::MIN, i64::MAX)), SnapshotScope::Everything).err().unwrap();
        assert!(matches!(fault, RangeBlocksError::TooManyRanges { ranges_max: RANGES_MAX, .. }), "{fault}");
    }
}
