//! Quantiles, fractions and the variance of a histogram's observations.

use super::{FloatBucket, FloatHistogram};
use crate::eval::math::Sum;

/// What NaN among the observations did to a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NanEffect {
    None,
    /// There is no quantile.
    Result,
    /// The quantile is too high.
    Skew,
}

impl FloatBucket {
    /// Which part of it lies below a value in it.
    pub(super) fn fraction_below(&self, value: f64, is_linear: bool) -> f64 {
        if is_linear {
            return (value - self.lower) / (self.upper - self.lower);
        }
        let (lower, upper, value_log) =
            (self.lower.abs().log2(), self.upper.abs().log2(), value.abs().log2());
        match value > 0.0 {
            true => (value_log - lower) / (upper - lower),
            false => 1.0 - (value_log - upper) / (lower - upper),
        }
    }
}

impl FloatHistogram {
    /// The zero bucket reaches to one side alone where there are no buckets on the other.
    fn bound_zero(&self, bucket: &mut FloatBucket) {
        let (above, below) = (!self.positive.is_empty(), !self.negative.is_empty());
        if above && !below {
            bucket.lower = 0.0;
        } else if below && !above {
            bucket.upper = 0.0;
        }
    }

    /// The value that a share of the observations lies below.
    pub(crate) fn quantile(&self, q: f64) -> (f64, NanEffect) {
        let plain = |value| (value, NanEffect::None);
        if q < 0.0 {
            return plain(f64::NEG_INFINITY);
        }
        if q > 1.0 {
            return plain(f64::INFINITY);
        }
        if self.count == 0.0 || q.is_nan() {
            return plain(f64::NAN);
        }
        let buckets: Vec<_> = self.buckets().collect();
        let is_forward = self.sum.is_nan() || q < 0.5;
        let rank = if is_forward { q * self.count } else { (1.0 - q) * self.count };
        let ordered: Box<dyn Iterator<Item = &FloatBucket>> =
            if is_forward { Box::new(buckets.iter()) } else { Box::new(buckets.iter().rev()) };
        let (mut count, mut bucket) = (0.0, None);
        for next in ordered {
            count += next.count;
            bucket = Some(*next);
            // Where the counts don't come to as many, an empty bucket may be the last.
            if next.count != 0.0 && count >= rank {
                break;
            }
        }
        let mut bucket = bucket.unwrap_or(FloatBucket {
            lower: 0.0,
            upper: 0.0,
            lower_inclusive: false,
            upper_inclusive: false,
            count: 0.0,
        });
        if self.has_custom_buckets() {
            if bucket.lower == f64::NEG_INFINITY {
                if bucket.upper <= 0.0 {
                    return plain(bucket.upper);
                }
                bucket.lower = 0.0;
            } else if bucket.upper == f64::INFINITY {
                return plain(bucket.lower);
            }
        } else if bucket.lower < 0.0 && bucket.upper > 0.0 {
            self.bound_zero(&mut bucket);
        }
        count = count.min(self.count);
        if count < rank {
            return if self.sum.is_nan() { (f64::NAN, NanEffect::Result) } else { plain(bucket.upper) };
        }
        let within = if is_forward { rank - (count - bucket.count) } else { count - rank };
        let all: f64 = buckets.iter().map(|bucket| bucket.count).sum();
        let effect = if self.sum.is_nan() && all < self.count { NanEffect::Skew } else { NanEffect::None };
        let fraction = within / bucket.count;
        if self.has_custom_buckets() || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
            return (bucket.lower + (bucket.upper - bucket.lower) * fraction, effect);
        }
        let (lower, upper) = (bucket.lower.abs().log2(), bucket.upper.abs().log2());
        let value = match bucket.lower > 0.0 {
            true => (lower + (upper - lower) * fraction).exp2(),
            false => -(upper + (lower - upper) * (1.0 - fraction)).exp2(),
        };
        (value, effect)
    }

    /// Which share of the observations lies between two values, and whether some are NaN.
    pub(crate) fn fraction(&self, lower: f64, upper: f64) -> (f64, bool) {
        if self.count == 0.0 || lower.is_nan() || upper.is_nan() {
            return (f64::NAN, false);
        }
        if lower >= upper {
            return (0.0, false);
        }
        let (mut rank, mut lower_rank, mut upper_rank) = (0.0, None, None);
        for mut bucket in self.buckets() {
            let is_custom = self.has_custom_buckets();
            let is_zero = !is_custom && bucket.lower <= 0.0 && bucket.upper >= 0.0;
            if is_zero {
                self.bound_zero(&mut bucket);
            } else if is_custom && bucket.lower == f64::NEG_INFINITY && bucket.upper > 0.0 {
                // Without an end, it begins at 0, as for quantiles.
                bucket.lower = 0.0;
            }
            let is_linear = is_zero || is_custom;
            for (value, found) in [(lower, &mut lower_rank), (upper, &mut upper_rank)] {
                if found.is_some() {
                    continue;
                }
                if bucket.lower >= value {
                    *found = Some(rank);
                } else if bucket.upper > value {
                    *found = Some(match is_linear && bucket.lower == f64::NEG_INFINITY {
                        true => bucket.count,
                        false => rank + bucket.count * bucket.fraction_below(value, is_linear),
                    });
                }
            }
            if lower_rank.is_some() && upper_rank.is_some() {
                break;
            }
            rank += bucket.count;
        }
        let observed: f64 = self.buckets().map(|bucket| bucket.count).sum();
        let count = if self.sum.is_nan() { observed } else { self.count };
        let bounded = |rank: Option<f64>| rank.filter(|rank| *rank <= count).unwrap_or(count);
        let has_nan = self.sum.is_nan() && observed < self.count;
        ((bounded(upper_rank) - bounded(lower_rank)) / self.count, has_nan)
    }

    /// The variance, each observation taken to be in the middle of its bucket.
    pub(crate) fn variance(&self) -> f64 {
        let mean = self.sum / self.count;
        let mut sum = Sum::default();
        for bucket in self.buckets().filter(|bucket| bucket.count != 0.0) {
            let value = if self.has_custom_buckets() {
                (bucket.upper + bucket.lower) / 2.0
            } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
                0.0
            } else {
                let middle = (bucket.upper * bucket.lower).sqrt();
                if bucket.upper < 0.0 { -middle } else { middle }
            };
            let delta = value - mean;
            sum.add(bucket.count * delta * delta);
        }
        sum.total() / self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(hex: &str) -> f64 {
        f64::from_bits(u64::from_str_radix(hex, 16).unwrap())
    }

    fn buckets(line: &str) -> Vec<(i32, f64)> {
        let of_pair = |(index, count): (&str, &str)| (index.parse().unwrap(), float(count));
        line.split_whitespace().skip(1).map(|pair| of_pair(pair.split_once(':').unwrap())).collect()
    }

    fn floats(line: &str) -> Vec<Vec<f64>> {
        line.split_whitespace().skip(1).map(|words| words.split(':').map(float).collect()).collect()
    }

    /// A histogram, its quantiles and its fractions, as Prometheus has them.
    fn vector(lines: &[&str]) -> (FloatHistogram, Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let head: Vec<_> = lines[0].split_whitespace().collect();
        let [zero_threshold, zero_count, count, sum] = [2, 3, 4, 5].map(|at| float(head[at]));
        let histogram = FloatHistogram {
            schema: head[1].parse().unwrap(),
            zero_threshold,
            zero_count,
            count,
            sum,
            positive: buckets(lines[1]),
            negative: buckets(lines[2]),
            custom_bounds: floats(lines[3]).concat(),
            ..FloatHistogram::default()
        };
        (histogram, floats(lines[4]), floats(lines[5]))
    }

    /// But for what other functions make of the last bits.
    fn check(found: f64, expect: f64, what: &str) {
        let is_near = (found - expect).abs() <= 1e-12 * expect.abs();
        assert!(
            is_near || found.total_cmp(&expect).is_eq() || found.is_nan() && expect.is_nan(),
            "{what}: {found}"
        );
    }

    #[test]
    fn quantiles_and_fractions_are_those_of_prometheus_whatever_buckets_are_empty() {
        let lines: Vec<_> = include_str!("../../tests/quantile_vectors/vectors.txt").lines().collect();
        assert_eq!(lines.len(), 6 * 240);
        for lines in lines.chunks(6) {
            let (histogram, quantiles, fractions) = vector(lines);
            for given in quantiles {
                let [q, expect] = given[..] else { panic!("a share and its quantile") };
                check(histogram.quantile(q).0, expect, &format!("{q} of {histogram:?}, for {expect}"));
            }
            for given in fractions {
                let [lower, upper, expect] = given[..] else { panic!("two values and a fraction") };
                let what = format!("from {lower} to {upper} of {histogram:?}, for {expect}");
                check(histogram.fraction(lower, upper).0, expect, &what);
            }
        }
    }
}
