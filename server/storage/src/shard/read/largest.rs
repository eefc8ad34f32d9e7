//! The largest of many counts, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the largest `max` counts that it is given. Which of equal ones at the edge it keeps is left open.
#[derive(Debug)]
pub(super) struct Largest<T: Ord> {
    max: usize,
    /// The smallest on top.
    kept: BinaryHeap<Reverse<(u64, T)>>,
}

impl<T: Ord> Largest<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, kept: BinaryHeap::new() }
    }

    pub(super) fn add(&mut self, count: u64, of: T) {
        if self.kept.len() < self.max {
            self.kept.push(Reverse((count, of)));
        } else if let Some(mut smallest) = self.kept.peek_mut()
            && smallest.0.0 < count
        {
            *smallest = Reverse((count, of));
        }
    }

    /// In no order that means something.
    pub(super) fn into_counts(self) -> impl Iterator<Item = (u64, T)> {
        self.kept.into_iter().map(|Reverse(counted)| counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counts: &[u64], max: usize, expect: &[u64]) {
        let mut largest = Largest::new(max);
        (0..).zip(counts).for_each(|(i, count)| largest.add(*count, i));
        let mut kept: Vec<u64> = largest.into_counts().map(|(count, _)| count).collect();
        kept.sort_unstable();
        assert_eq!(kept, expect, "{counts:?}");
    }

    #[test]
    fn the_largest_are_kept() {
        check(&[], 3, &[]);
        check(&[5, 1], 3, &[1, 5]);
        check(&[5, 1, 9, 7, 3, 8], 3, &[7, 8, 9]);
        check(&[1, 2, 3], 0, &[]);
        check(&[2, 2, 2, 3], 2, &[2, 3]);
    }
}
