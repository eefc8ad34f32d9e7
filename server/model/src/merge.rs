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
