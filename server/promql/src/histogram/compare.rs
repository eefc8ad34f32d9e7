//! Whether histograms are the same, and whether a counter began again between two.

use super::tally::{coarser, common_bounds, rebound_counts};
use super::{FloatHistogram, ResetHint};

impl FloatHistogram {
    /// Whether two say the same, bit for bit. Hints and empty buckets don't count.
    pub fn equals(&self, other: &Self) -> bool {
        let bits = |left: f64, right: f64| left.to_bits() == right.to_bits();
        self.schema == other.schema
            && bits(self.count, other.count)
            && bits(self.sum, other.sum)
            && bits(self.zero_count, other.zero_count)
            && self.zero_threshold == other.zero_threshold
            && (!self.has_custom_buckets() || self.custom_bounds == other.custom_bounds)
            && same_buckets(&self.positive, &other.positive)
            && same_buckets(&self.negative, &other.negative)
    }

    /// Whether its counter began again after another histogram of the same series.
    pub fn is_reset_after(&self, before: &Self) -> bool {
        match self.reset_hint {
            ResetHint::Reset => return true,
            ResetHint::NotReset => return false,
            ResetHint::Unknown | ResetHint::Gauge => {}
        }
        if self.count < before.count {
            return true;
        }
        if self.has_custom_buckets() {
            if !before.has_custom_buckets() {
                return true;
            }
            if self.custom_bounds != before.custom_bounds {
                let common = common_bounds(&self.custom_bounds, &before.custom_bounds);
                return is_less(&rebound_counts(self, &common), &rebound_counts(before, &common));
            }
        }
        if self.schema > before.schema || self.zero_threshold < before.zero_threshold {
            return true;
        }
        if !self.has_custom_buckets() {
            let (zero_count, threshold) = before.zero_count_within(self.zero_threshold);
            if threshold != self.zero_threshold || self.zero_count < zero_count {
                return true;
            }
        }
        is_less(&self.positive, &self.outside(before, &before.positive))
            || is_less(&self.negative, &self.outside(before, &before.negative))
    }

    /// Another's buckets in this one's schema, without those in this one's zero bucket.
    fn outside(&self, other: &Self, buckets: &[(i32, f64)]) -> Vec<(i32, f64)> {
        if self.has_custom_buckets() {
            return buckets.to_vec();
        }
        let mut out: Vec<(i32, f64)> = Vec::with_capacity(buckets.len());
        for (index, count) in buckets {
            let index =
                if other.schema > self.schema { coarser(*index, other.schema, self.schema) } else { *index };
            if self.upper_bound(index) <= self.zero_threshold {
                continue;
            }
            match out.last_mut() {
                Some((last, total)) if *last == index => *total += count,
                Some(_) | None => out.push((index, *count)),
            }
        }
        out
    }

    /// The zero bucket's count at a greater width, and that width: greater still where it would cut a bucket.
    pub(super) fn zero_count_within(&self, threshold: f64) -> (f64, f64) {
        let mut threshold = threshold;
        if threshold <= self.zero_threshold {
            return (self.zero_count, self.zero_threshold);
        }
        loop {
            let mut count = self.zero_count;
            let widened = self.positive.iter().chain(&self.negative).find_map(|(index, observed)| {
                if self.upper_bound(*index - 1) >= threshold || *observed == 0.0 {
                    return None;
                }
                count += observed;
                let upper = self.upper_bound(*index);
                (upper > threshold).then_some(upper)
            });
            match widened {
                None => return (count, threshold),
                Some(wider) => threshold = wider,
            }
        }
    }
}

/// Whether any count is less than it was. One that is gone is, too, whatever it was: also a negative one, as of a
/// histogram that was subtracted.
fn is_less(now: &[(i32, f64)], before: &[(i32, f64)]) -> bool {
    let mut at = 0;
    before.iter().any(|(index, count)| {
        at += now[at..].iter().take_while(|(other, _)| other < index).count();
        match now.get(at) {
            Some((other, found)) if other == index => found < count,
            Some(_) | None => *count != 0.0,
        }
    })
}

fn same_buckets(left: &[(i32, f64)], right: &[(i32, f64)]) -> bool {
    fn present(buckets: &[(i32, f64)]) -> impl Iterator<Item = (i32, u64)> + '_ {
        buckets.iter().filter(|(_, count)| *count != 0.0).map(|(index, count)| (*index, count.to_bits()))
    }
    present(left).eq(present(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_is_gone_or_less_is_a_reset_whatever_its_sign() {
        let before = [(1, 2.0), (3, -1.0), (5, 0.0)];
        assert!(!is_less(&before, &before) && !is_less(&[(1, 2.0), (2, 7.0), (3, -0.5)], &before));
        for now in
            [&[(1, 1.0), (3, -1.0)][..], &[(1, 2.0)], &[(3, -1.0)], &[(1, 2.0), (3, -1.0), (5, -1.0)], &[]]
        {
            assert!(is_less(now, &before), "{now:?}");
        }
        assert!(!is_less(&[], &[(4, 0.0)]));
    }
}
