//! The series of one label pair, with what they take of memory.

use roaring::RoaringBitmap;

use crate::cell::heap::heap_bytes;

/// What the bitmap keeps for each 65,536 refs in its list, beside their own buffer.
const CONTAINER_BYTES: usize = 40;
/// The bitmap's list of containers begins with room for this many.
const CONTAINERS_MIN: usize = 4;

/// A set of series refs. Changes report to the sum of all postings' bytes.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    series: RoaringBitmap,
    /// What was counted for the bitmap the last time. It may lag behind by one part in
    /// [`MEASURED_PARTS`].
    counted_bytes: u32,
}

/// A bitmap is measured again once it may have changed by one part in so many: measuring it takes a
/// look at each container, and a change touches one of them.
const MEASURED_PARTS: u32 = 32;

impl Postings {
    /// Adds a series.
    pub(crate) fn insert(&mut self, series: u32, sum_bytes: &mut usize) {
        self.series.insert(series);
        self.count(series, sum_bytes);
    }

    /// Takes a series out.
    pub(crate) fn remove(&mut self, series: u32, sum_bytes: &mut usize) {
        self.series.remove(series);
        self.count(series, sum_bytes);
    }

    /// The series.
    pub(crate) fn series(&self) -> &RoaringBitmap {
        &self.series
    }

    /// Takes what was counted out of the sum.
    pub(crate) fn forget(self, sum_bytes: &mut usize) {
        *sum_bytes -= self.counted_bytes as usize;
    }

    /// A large bitmap is measured at some of its changes, picked by the ref: on average one in as
    /// many as would fill that part of it.
    fn count(&mut self, series: u32, sum_bytes: &mut usize) {
        let changes_between = (self.counted_bytes / (4 * MEASURED_PARTS)).max(1).next_power_of_two();
        let is_picked = (series.wrapping_mul(0x9e37_79b9) >> 16) & (changes_between - 1) == 0;
        if !is_picked && !self.series.is_empty() {
            return;
        }
        let bytes = bitmap_bytes(&self.series);
        *sum_bytes = *sum_bytes + bytes - self.counted_bytes as usize;
        self.counted_bytes = bytes as u32;
    }
}

/// What a set of some of these series takes at most: a bitmap for each part that has any.
pub(crate) fn set_bytes_max(all: &RoaringBitmap) -> usize {
    const BITMAP_BYTES: usize = 8 << 10;

    all.statistics().n_containers as usize * (BITMAP_BYTES + CONTAINER_BYTES)
}

fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    let found = bitmap.statistics();
    let containers = found.n_containers as usize;
    let list = match containers {
        0 => 0,
        some => heap_bytes(some.next_power_of_two().max(CONTAINERS_MIN) * CONTAINER_BYTES),
    };
    // Its statistics take the two bytes of an array's entry for four.
    let arrays = found.n_bytes_array_containers as usize / 2;
    let of_an_array = arrays.checked_div(found.n_array_containers as usize).unwrap_or(0);
    let arrays = heap_bytes(of_an_array) * found.n_array_containers as usize;
    list + arrays + (found.n_bytes_bitset_containers + found.n_bytes_run_containers) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum after these refs were added, beside the exact measure.
    fn check(refs: impl IntoIterator<Item = u32>) {
        let (mut postings, mut sum) = (Postings::default(), 0);
        refs.into_iter().for_each(|series| postings.insert(series, &mut sum));
        let exact = bitmap_bytes(postings.series());
        assert!(sum.abs_diff(exact) * 10 <= exact, "{sum} counted, {exact} measured");
        postings.forget(&mut sum);
        assert_eq!(sum, 0);
    }

    #[test]
    fn what_is_counted_follows_what_is_held() {
        check([7]);
        check(0..3000);
        check(0..200_000);
        check((0..100_000).map(|i| i * 64));
        check((0..300).map(|i| i << 16));
    }

    #[test]
    fn a_set_that_is_emptied_counts_next_to_nothing() {
        let (mut postings, mut sum) = (Postings::default(), 0);
        (0..5000).for_each(|series| postings.insert(series, &mut sum));
        assert!(sum >= 8192, "{sum}");
        (0..5000).for_each(|series| postings.remove(series, &mut sum));
        assert!(sum < 1024, "{sum}");
    }
}
