//! A step of a merge sort, for those that sort in slices. It gives way to nobody itself: a step is as short as its caller
//! wants it.
use std::cmp::Ordering;

/// Moves up to `items` items from the beginnings of two sorted runs to the end of `merged`; of equal ones the left run's
/// come first. What is left of the runs is moved by further steps.
pub fn merge_step<'a, T: Copy>(
    items: usize,
    left: &mut &'a [T],
    right: &mut &'a [T],
    merged: &mut Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    for _ in 0..items {
        let from_left = match (left.first(), right.first()) {
            (Some(l), Some(r)) => compare(l, r).is_le(),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return,
        };
        let from = if from_left { &mut *left } else { &mut *right };
        merged.extend(from.split_off_first().copied());
    }
}

/// Merges runs of so many sorted items, and those that come of it, until there is one; `merged` gets to be as large. A step
/// has as many items, and `pause` is called after each.
pub async fn merge_runs<T: Copy, E>(
    items: &mut Vec<T>,
    merged: &mut Vec<T>,
    step: usize,
    compare: impl Fn(&T, &T) -> Ordering,
    pause: impl AsyncFn() -> Result<(), E>,
) -> Result<(), E> {
    let mut width = step;
    while width < items.len() {
        merged.clear();
        merged.reserve(items.len());
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while !(left.is_empty() && right.is_empty()) {
                merge_step(step, &mut left, &mut right, merged, &compare);
                pause().await?;
            }
        }
        std::mem::swap(items, merged);
        width *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_are_merged_step_by_step_and_of_equal_items_the_left_one_comes_first() {
        let (mut left, mut right) = (&[(1, 'l'), (3, 'l'), (3, 'm')][..], &[(0, 'r'), (3, 'r')][..]);
        let (mut merged, mut steps) = (Vec::new(), 0);
        while !(left.is_empty() && right.is_empty()) {
            merge_step(2, &mut left, &mut right, &mut merged, |a, b| a.0.cmp(&b.0));
            steps += 1;
        }
        assert_eq!((merged, steps), (vec![(0, 'r'), (1, 'l'), (3, 'l'), (3, 'm'), (3, 'r')], 3));
    }
}
