//! Where buckets begin and end, as Prometheus computes it, bit for bit.
use super::value::{Buckets, Histogram};

/// A bucket that isn't empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBucket {
    /// Where it begins.
    pub lower: f64,
    /// Where it ends.
    pub upper: f64,
    /// Whether observations at its beginning are its own.
    pub includes_lower: bool,
    /// Whether observations at its end are its own.
    pub includes_upper: bool,
    /// How many observations it has.
    pub count: f64,
}

/// The finest schema's power: 2⁸ bounds for each power of two.
const FINEST: u32 = 8;

/// 2^(2^-n) for n = 1 to 8, as Go's library rounds them: the first is one bit less than the nearest.
#[expect(clippy::approx_constant, reason = "one bit less than the nearest is the point")]
const FACTORS: [f64; FINEST as usize] = [
    1.414213562373095,
    1.189207115002721,
    1.0905077326652577,
    1.0442737824274138,
    1.0218971486541166,
    1.0108892860517005,
    1.0054299011128027,
    1.0027112750502025,
];

/// The bounds from 0.5 to 1 of the finest schema; those of a coarser are every 2ⁿth of them. Prometheus' table was
/// made by these multiplications, each bound from the one before, and not by rounding the exact numbers.
const BOUNDS: [f64; 1 << FINEST] = {
    let mut bounds = [0.5; 1 << FINEST];
    let mut schema = 1;
    while schema <= FINEST {
        let step = 1 << (FINEST - schema);
        let mut at = step;
        while at < bounds.len() {
            bounds[at] = bounds[at - step] * FACTORS[schema as usize - 1];
            at += 2 * step;
        }
        schema += 1;
    }
    bounds
};

/// The bounds of a bucket that the zero bucket may reach into: it begins, or ends, where that ends.
pub fn outside_zero((lower, upper): (f64, f64), zero_threshold: f64) -> (f64, f64) {
    if lower > 0.0 && lower < zero_threshold {
        (zero_threshold, upper)
    } else if upper < 0.0 && upper > -zero_threshold {
        (lower, -zero_threshold)
    } else {
        (lower, upper)
    }
}

impl Histogram {
    /// Its buckets that have observations, from the lowest to the highest. A staleness marker has none.
    pub fn buckets_in_use(&self) -> impl Iterator<Item = HistogramBucket> + '_ {
        let negative = self.side(&self.negative).map(|bucket| self.mirrored(bucket));
        let negative: Vec<_> = negative.collect();
        let zero = Some(self.zero_bucket()).filter(|bucket| bucket.count > 0.0);
        let positive = self.side(&self.positive).map(|bucket| self.beside_zero(bucket));
        negative.into_iter().rev().chain(zero).chain(positive).filter(|bucket| bucket.count != 0.0)
    }

    /// The buckets of one side, as if they were positive ones.
    fn side<'a>(&'a self, buckets: &'a Buckets) -> impl Iterator<Item = HistogramBucket> + 'a {
        buckets.counts(self.kind).map(|(index, count)| {
            let (lower, upper) = (self.bound(index - 1), self.bound(index));
            // Custom buckets may lie below zero. Each has its end, and the first its beginning too.
            let (includes_lower, includes_upper) =
                if self.has_custom_buckets() { (index == 0, true) } else { (lower < 0.0, upper > 0.0) };
            HistogramBucket { lower, upper, includes_lower, includes_upper, count: self.kind.number(count) }
        })
    }

    fn mirrored(&self, bucket: HistogramBucket) -> HistogramBucket {
        let HistogramBucket { lower, upper, count, .. } = bucket;
        let (lower, upper) = (-upper, -lower);
        let (includes_lower, includes_upper) = (lower < 0.0, upper > 0.0);
        let (lower, upper) = outside_zero((lower, upper), self.zero_threshold);
        HistogramBucket { lower, upper, includes_lower, includes_upper, count }
    }

    fn beside_zero(&self, bucket: HistogramBucket) -> HistogramBucket {
        let (lower, upper) = outside_zero((bucket.lower, bucket.upper), self.zero_threshold);
        HistogramBucket { lower, upper, ..bucket }
    }

    fn zero_bucket(&self) -> HistogramBucket {
        HistogramBucket {
            lower: -self.zero_threshold,
            upper: self.zero_threshold,
            includes_lower: true,
            includes_upper: true,
            count: self.kind.number(self.zero_count),
        }
    }

    /// Where the bucket of this index ends.
    fn bound(&self, index: i64) -> f64 {
        if !self.has_custom_buckets() {
            return exponential_bound(index, self.schema);
        }
        match usize::try_from(index) {
            Ok(index) => self.bounds.get(index).copied().unwrap_or(f64::INFINITY),
            Err(_before_the_first) => f64::NEG_INFINITY,
        }
    }
}

/// Where the bucket of an index ends: 2^(index × 2^-schema), and the largest float instead of infinity in the last
/// bucket of numbers.
pub fn exponential_bound(index: i64, schema: i32) -> f64 {
    /// The power of two that the largest float is just below of.
    const LAST: i64 = 1024;

    let (fraction, exponent) = match u32::try_from(schema) {
        Ok(schema) => {
            let schema = schema.min(FINEST);
            let at = (index & ((1 << schema) - 1)) as usize;
            (BOUNDS[at << (FINEST - schema)], (index >> schema) + 1)
        }
        Err(_coarse) => (0.5, index.saturating_mul(1 << schema.unsigned_abs().min(32)).saturating_add(1)),
    };
    if fraction == 0.5 && exponent == LAST + 1 { f64::MAX } else { scaled(fraction, exponent) }
}

/// `fraction`, from 0.5 to 1, times 2^exponent, without overflow on the way.
fn scaled(fraction: f64, exponent: i64) -> f64 {
    // In three steps, none of which rounds but the last: a subnormal number is rounded once.
    let exponent = exponent.clamp(-1100, 1100) as i32;
    let step = exponent.clamp(-1000, 1000);
    fraction * 2_f64.powi(step) * 2_f64.powi(exponent - step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{CUSTOM_BUCKETS_SCHEMA, Span};

    #[test]
    fn bounds_are_those_of_prometheus_table() {
        let check = |index, schema, expect: f64| {
            assert_eq!(exponential_bound(index, schema), expect, "{index} of schema {schema}");
        };
        // The values of its tables, which aren't always the nearest to the exact ones.
        check(-1, 1, 0.707_106_781_186_547_5);
        check(-64, 8, 0.840_896_415_253_714_4);
        check(-1, 8, 0.997_296_056_085_469_8);
        check(1, 8, 1.002_711_275_050_202_5);
        check(-3, 2, 0.594_603_557_501_360_5);
        check(0, 0, 1.0);
        check(3, 0, 8.0);
        check(-2, -1, 1.0 / 16.0);
        check(1024, 0, f64::MAX);
        check(1025, 0, f64::INFINITY);
        check(64, -4, f64::MAX);
        check(-1074, 0, f64::from_bits(1));
        check(-1076, 0, 0.0);
        check(i64::from(i32::MAX), -4, f64::INFINITY);
        check(i64::from(i32::MIN), 8, 0.0);
    }

    fn shown(histogram: &Histogram) -> Vec<String> {
        let text = |bucket: HistogramBucket| {
            let open = if bucket.includes_lower { '[' } else { '(' };
            let close = if bucket.includes_upper { ']' } else { ')' };
            format!("{open}{},{}{close}:{}", bucket.lower, bucket.upper, bucket.count)
        };
        histogram.buckets_in_use().map(text).collect()
    }

    fn side(spans: &[(i32, u32)], words: &[u64]) -> Buckets {
        let spans = spans.iter().map(|&(offset, length)| Span { offset, length }).collect();
        Buckets { spans, words: words.to_vec() }
    }

    #[test]
    fn buckets_stand_from_the_lowest_to_the_highest_without_empty_ones() {
        let histogram = Histogram {
            zero_threshold: 0.75,
            zero_count: 4,
            negative: side(&[(0, 3)], &[1, u64::MAX, 2]),
            positive: side(&[(0, 1), (1, 1)], &[5, 1]),
            ..Histogram::default()
        };
        let expect = ["[-4,-2):2", "[-1,-0.75):1", "[-0.75,0.75]:4", "(0.75,1]:5", "(2,4]:6"];
        assert_eq!(shown(&histogram), expect);
    }

    #[test]
    fn custom_buckets_begin_at_minus_infinity_and_end_at_infinity() {
        let histogram = Histogram {
            schema: CUSTOM_BUCKETS_SCHEMA,
            positive: side(&[(0, 3)], &[1, 0, 0]),
            bounds: vec![-1.0, 2.5],
            ..Histogram::default()
        };
        assert_eq!(shown(&histogram), ["[-inf,-1]:1", "(-1,2.5]:1", "(2.5,inf]:1"]);
    }
}
