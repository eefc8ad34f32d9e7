//! Quantiles and fractions of a classic histogram: of counts of observations up to bounds.

/// How many observations are at most so large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) upper: f64,
    pub(super) count: f64,
}

/// What had to be fixed: counts that fell from one bound to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fixed {
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) difference: f64,
}

/// Bounds by size, each once; at least one.
pub(super) struct ClassicBuckets<'a>(&'a mut Vec<Bound>);

/// Counts that differ by less are the same but for rounding.
const TOLERANCE: f64 = 1e-12;

impl<'a> ClassicBuckets<'a> {
    /// From bounds by size.
    pub(super) fn new(bounds: &'a mut Vec<Bound>) -> Self {
        bounds.dedup_by(|next, kept| {
            let is_same = next.upper == kept.upper;
            if is_same {
                kept.count += next.count;
            }
            is_same
        });
        Self(bounds)
    }

    fn is_complete(&self) -> bool {
        self.0.last().is_some_and(|last| last.upper == f64::INFINITY)
    }

    /// The quantile, and what was fixed for it.
    pub(super) fn quantile(&mut self, q: f64) -> (f64, Option<Fixed>) {
        if q.is_nan() {
            return (f64::NAN, None);
        }
        if !(0.0..=1.0).contains(&q) {
            return (if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY }, None);
        }
        if !self.is_complete() {
            return (f64::NAN, None);
        }
        let fixed = self.fix();
        (self.fixed_quantile(q), fixed)
    }

    fn fixed_quantile(&self, q: f64) -> f64 {
        let bounds = &self.0;
        let last = bounds.len() - 1;
        let observations = bounds[last].count;
        if last == 0 || observations == 0.0 || observations.is_nan() {
            return f64::NAN;
        }
        let rank = q * observations;
        let at = bounds[..last].partition_point(|bound| bound.count < rank || bound.count.is_nan());
        if at == last {
            return bounds[last - 1].upper;
        }
        let Bound { upper, count } = bounds[at];
        if at == 0 && upper <= 0.0 {
            return upper;
        }
        let before = if at > 0 { bounds[at - 1] } else { Bound { upper: 0.0, count: 0.0 } };
        before.upper + (upper - before.upper) * ((rank - before.count) / (count - before.count))
    }

    /// Makes counts rise from bound to bound.
    fn fix(&mut self) -> Option<Fixed> {
        let mut fixed: Option<Fixed> = None;
        let mut before = self.0[0].count;
        for bound in &mut self.0[1..] {
            let count = bound.count;
            if count == before {
                continue;
            }
            if is_almost(before, count) {
                bound.count = before;
                continue;
            }
            if count < before {
                bound.count = before;
                let so_far = fixed.unwrap_or(Fixed {
                    lowest: f64::INFINITY,
                    highest: f64::NEG_INFINITY,
                    difference: 0.0,
                });
                fixed = Some(Fixed {
                    lowest: so_far.lowest.min(bound.upper),
                    highest: so_far.highest.max(bound.upper),
                    difference: so_far.difference.max(before - count),
                });
                continue;
            }
            before = count;
        }
        fixed
    }

    /// Which share of the observations lies between two values.
    pub(super) fn fraction(&self, lower: f64, upper: f64) -> f64 {
        let bounds = &self.0;
        let count = bounds[bounds.len() - 1].count;
        if !self.is_complete() || count == 0.0 || lower.is_nan() || upper.is_nan() {
            return f64::NAN;
        }
        if lower >= upper {
            return 0.0;
        }
        let bounded = |value: f64| self.rank(value).filter(|rank| *rank <= count).unwrap_or(count);
        (bounded(upper) - bounded(lower)) / count
    }

    /// How many observations are below a value.
    fn rank(&self, value: f64) -> Option<f64> {
        let mut rank = 0.0;
        let mut lower = if self.0[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
        for bound in self.0.iter() {
            if lower >= value {
                return Some(rank);
            }
            if bound.upper > value {
                return Some(match lower == f64::NEG_INFINITY {
                    true => bound.count,
                    false => rank + (bound.count - rank) * (value - lower) / (bound.upper - lower),
                });
            }
            (rank, lower) = (bound.count, bound.upper);
        }
        None
    }
}

fn is_almost(left: f64, right: f64) -> bool {
    let sum = left.abs() + right.abs();
    let difference = (left - right).abs();
    if left == 0.0 || right == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < TOLERANCE * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(pairs: &[(f64, f64)]) -> Vec<Bound> {
        pairs.iter().map(|(upper, count)| Bound { upper: *upper, count: *count }).collect()
    }

    #[test]
    fn quantiles_lie_between_bounds() {
        let mut bounds = bounds(&[(1.0, 10.0), (2.0, 20.0), (f64::INFINITY, 40.0)]);
        let mut buckets = ClassicBuckets::new(&mut bounds);
        assert_eq!(buckets.quantile(0.125), (0.5, None));
        assert_eq!(buckets.quantile(0.375), (1.5, None));
        assert_eq!(buckets.quantile(0.99), (2.0, None));
        assert_eq!(buckets.quantile(-1.0), (f64::NEG_INFINITY, None));
        assert_eq!(buckets.fraction(0.0, 1.5), 0.375);
    }

    #[test]
    fn counts_that_fall_are_fixed_and_told() {
        let mut bounds = bounds(&[(1.0, 10.0), (2.0, 5.0), (f64::INFINITY, 20.0)]);
        let fixed = Fixed { lowest: 2.0, highest: 2.0, difference: 5.0 };
        assert_eq!(ClassicBuckets::new(&mut bounds).quantile(0.25), (0.5, Some(fixed)));
    }
}
