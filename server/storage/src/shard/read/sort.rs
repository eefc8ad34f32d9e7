//! Sorting in slices, and what it takes.

use std::cmp::Ordering;

use super::OrEnds;
use crate::shard::Host;
use crate::shard::read::job::ReadJob;
use silverback_model::merge::merge_runs;

/// Items that are compared between two looks at the slice: some 10 µs, or, of long texts that begin
/// alike, a little more.
pub(super) const TEXTS_STEP: usize = 32;

/// The same of items of so many numbers each, most of which may be equal.
pub(super) fn numbers_step(numbers: usize) -> usize {
    (2048 / numbers.max(1)).clamp(TEXTS_STEP, 256)
}

/// What sorting takes beside the items themselves, in bytes.
pub(super) const fn sort_bytes<T>(items: usize) -> usize {
    items * size_of::<T>()
}

/// A merge sort that gives way between steps. An item that comes before all others from some step on, because
/// what is compared went, costs its own place alone.
pub(super) async fn sort_in_slices<T: Copy, H: Host>(
    items: Vec<T>,
    job: &ReadJob<H>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> OrEnds<Vec<T>> {
    sort_by_steps(items, job, TEXTS_STEP, compare).await
}

/// The same with so many items between two looks at the slice.
pub(super) async fn sort_by_steps<T: Copy, H: Host>(
    mut items: Vec<T>,
    job: &ReadJob<H>,
    step: usize,
    compare: impl Fn(&T, &T) -> Ordering,
) -> OrEnds<Vec<T>> {
    for run in items.chunks_mut(step) {
        run.sort_by(&compare);
        job.yield_if_needed().await?;
    }
    merge_runs(&mut items, &mut Vec::new(), step, compare, async || job.yield_if_needed().await).await?;
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::read::job::tests::job;

    #[test]
    fn sorting_in_slices_is_sorting() {
        for count in [0, 1, 31, 32, 33, 5000] {
            let items: Vec<u32> = (0..count).map(|i: u32| i.wrapping_mul(2_654_435_761) % 1000).collect();
            let mut expect = items.clone();
            expect.sort_unstable();
            let sorted = futures::executor::block_on(sort_in_slices(items, &job(), u32::cmp));
            assert_eq!(sorted.unwrap(), expect);
        }
    }
}
