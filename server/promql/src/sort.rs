//! Sorting that gives way: by comparisons that may be of long texts, in short steps.

use std::cmp::Ordering;

use crate::budget::Pacing;
use crate::error::QueryError;
use silverback_model::merge::merge_runs;

/// Items that are compared between two counts of the work.
const STEP: usize = 32;
/// Numbers that are sorted, or merged, between two counts of the work.
const NUMBERS_STEP: usize = 256;
/// A comparison of labels, in values' worth of work.
const COMPARISON: usize = 16;

/// The places of items in their order; those that are equal stay as they are. Items that are in order already cost one
/// comparison each.
pub(crate) async fn sorted_places<T>(
    items: &[T],
    compare: impl Fn(&T, &T) -> Ordering,
    pacing: &Pacing<'_>,
) -> Result<Vec<u32>, QueryError> {
    let mut places: Vec<u32> = (0..items.len() as u32).collect();
    if is_sorted(items, &compare, pacing).await? {
        return Ok(places);
    }
    let compare = |left: &u32, right: &u32| compare(&items[*left as usize], &items[*right as usize]);
    for run in places.chunks_mut(STEP) {
        run.sort_by(compare);
        // About log2(STEP) comparisons of each.
        pacing.spent(5 * COMPARISON * run.len()).await?;
    }
    let pause = async || pacing.spent(COMPARISON * STEP).await;
    merge_runs(&mut places, &mut Vec::new(), STEP, compare, pause).await?;
    Ok(places)
}

/// Puts numbers in order, in place; where they are many, `merged` gets to be as large.
pub(crate) async fn sort_numbers(
    numbers: &mut Vec<f64>,
    merged: &mut Vec<f64>,
    compare: impl Fn(&f64, &f64) -> Ordering,
    pacing: &Pacing<'_>,
) -> Result<(), QueryError> {
    for run in numbers.chunks_mut(NUMBERS_STEP) {
        run.sort_unstable_by(&compare);
        // About log2(NUMBERS_STEP) comparisons of each.
        pacing.spent(8 * run.len()).await?;
    }
    merge_runs(numbers, merged, NUMBERS_STEP, compare, async || pacing.spent(2 * NUMBERS_STEP).await).await
}

/// Items by their places.
pub(crate) fn placed<T>(items: Vec<T>, places: &[u32]) -> Vec<T> {
    let mut items: Vec<_> = items.into_iter().map(Some).collect();
    places.iter().filter_map(|at| items[*at as usize].take()).collect()
}

async fn is_sorted<T>(
    items: &[T],
    compare: &impl Fn(&T, &T) -> Ordering,
    pacing: &Pacing<'_>,
) -> Result<bool, QueryError> {
    // Each part begins with the last of the one before.
    for start in (0..items.len()).step_by(STEP) {
        let part = &items[start..items.len().min(start + STEP + 1)];
        if !part.is_sorted_by(|left, right| compare(left, right).is_le()) {
            return Ok(false);
        }
        pacing.spent(COMPARISON * part.len()).await?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::Pin;

    use futures::executor::block_on;

    use super::*;
    use crate::budget::{Interruption, NoPace, Pace};

    fn shuffled(count: u32) -> Vec<u32> {
        (0..count).map(|i| i.wrapping_mul(2_654_435_761) % 1000).collect()
    }

    #[test]
    fn sorting_in_steps_is_stable_sorting() {
        for count in [0, 1, 31, 32, 33, 64, 65, 5000] {
            let items: Vec<(u32, usize)> = shuffled(count).into_iter().zip(0..).collect();
            let by_first = |left: &(u32, usize), right: &(u32, usize)| left.0.cmp(&right.0);
            let places = block_on(sorted_places(&items, by_first, &Pacing::new(&NoPace))).unwrap();
            let mut expect = items.clone();
            expect.sort_by(by_first);
            assert_eq!(placed(items, &places), expect, "{count}");
        }
    }

    /// Counts comparisons, and the most of them between two ways.
    struct Between<'a> {
        comparisons: &'a Cell<usize>,
        most: Cell<usize>,
    }

    impl Pace for Between<'_> {
        fn is_due(&self) -> bool {
            true
        }

        fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
            self.most.set(self.most.get().max(self.comparisons.take()));
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn however_many_are_sorted_it_gives_way_after_few_comparisons() {
        let comparisons = Cell::new(0);
        let pace = Between { comparisons: &comparisons, most: Cell::new(0) };
        let compare = |left: &u32, right: &u32| {
            comparisons.set(comparisons.get() + 1);
            left.cmp(right)
        };
        block_on(sorted_places(&shuffled(50_000), compare, &Pacing::new(&pace))).unwrap();
        assert!(comparisons.get().max(pace.most.get()) < 500, "{}", pace.most.get());
    }

    #[test]
    fn numbers_are_sorted_in_place_as_at_one_go() {
        let pacing = Pacing::new(&NoPace);
        for count in [0, 1, 255, 256, 257, 5000] {
            let mut numbers: Vec<f64> = shuffled(count).into_iter().map(f64::from).collect();
            let mut expect = numbers.clone();
            expect.sort_by(f64::total_cmp);
            block_on(sort_numbers(&mut numbers, &mut Vec::new(), f64::total_cmp, &pacing)).unwrap();
            assert_eq!(numbers, expect);
        }
    }
}
