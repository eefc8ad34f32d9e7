//! Native histograms as expressions compute with them: counts as floats, buckets by index.

mod compare;
mod quantile;
mod tally;
mod trim;

use std::fmt;
use std::rc::Rc;

use crate::number::format_general;
pub(crate) use quantile::NanEffect;
use silverback_model::histogram::bounds::{exponential_bound, outside_zero};
pub use silverback_model::histogram::{CUSTOM_BUCKETS_SCHEMA, ResetHint};
pub(crate) use tally::{Combined, Hints, HistogramAccumulator, Incompatible};
pub(crate) use trim::Keep;

/// A native histogram.
#[derive(Debug, Clone, Default)]
pub struct FloatHistogram {
    /// What it says of the one before it.
    pub reset_hint: ResetHint,
    /// The resolution: -4 to 8, or [`CUSTOM_BUCKETS_SCHEMA`].
    pub schema: i32,
    /// The zero bucket's width to each side.
    pub zero_threshold: f64,
    /// Observations in the zero bucket.
    pub zero_count: f64,
    /// All observations.
    pub count: f64,
    /// The sum of all observations.
    pub sum: f64,
    /// Buckets above zero: index and count, indexes ascending.
    pub positive: Vec<(i32, f64)>,
    /// Buckets below zero: index and count, indexes ascending.
    pub negative: Vec<(i32, f64)>,
    /// Upper bounds, ascending, where the schema is [`CUSTOM_BUCKETS_SCHEMA`].
    pub custom_bounds: Vec<f64>,
}

/// One bucket with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatBucket {
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
    /// Whether the lower bound lies in it.
    pub lower_inclusive: bool,
    /// Whether the upper bound lies in it.
    pub upper_inclusive: bool,
    /// Observations.
    pub count: f64,
}

impl FloatBucket {
    /// As JSON says which bounds lie in it: 0 the upper, 1 the lower, 2 none, 3 both.
    pub(crate) const fn boundaries(&self) -> u8 {
        match (self.lower_inclusive, self.upper_inclusive) {
            (false, true) => 0,
            (true, false) => 1,
            (false, false) => 2,
            (true, true) => 3,
        }
    }
}

impl FloatHistogram {
    /// Whether it marks the end of its series.
    pub fn is_stale(&self) -> bool {
        self.sum.to_bits() == silverback_model::STALE_NAN_BITS
    }

    /// Whether its buckets have bounds of their own.
    pub const fn has_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// All buckets, from the lowest to the highest, empty ones among them, as Prometheus goes through them where it looks
    /// for observations: what of a bucket the zero bucket reaches over is left out.
    pub fn buckets(&self) -> impl Iterator<Item = FloatBucket> + '_ {
        let zero = (self.zero_count > 0.0).then(|| self.zero_bucket());
        let beside = |bucket| self.beside_zero(bucket);
        self.below_zero().map(beside).chain(zero).chain(self.above_zero().map(beside))
    }

    fn beside_zero(&self, bucket: FloatBucket) -> FloatBucket {
        let (lower, upper) = outside_zero((bucket.lower, bucket.upper), self.zero_threshold);
        FloatBucket { lower, upper, ..bucket }
    }

    fn below_zero(&self) -> impl Iterator<Item = FloatBucket> + '_ {
        self.negative.iter().rev().map(|(index, count)| {
            let bucket = self.bucket(*index, *count);
            FloatBucket {
                lower: -bucket.upper,
                upper: -bucket.lower,
                lower_inclusive: true,
                upper_inclusive: false,
                count: *count,
            }
        })
    }

    fn above_zero(&self) -> impl Iterator<Item = FloatBucket> + '_ {
        self.positive.iter().map(|(index, count)| self.bucket(*index, *count))
    }

    fn zero_bucket(&self) -> FloatBucket {
        let Self { zero_threshold, zero_count, .. } = *self;
        let (lower, upper, count) = (-zero_threshold, zero_threshold, zero_count);
        FloatBucket { lower, upper, lower_inclusive: true, upper_inclusive: true, count }
    }

    /// A bucket above zero.
    fn bucket(&self, index: i32, count: f64) -> FloatBucket {
        let is_first_custom = self.has_custom_buckets() && index == 0;
        let lower = self.upper_bound(index - 1);
        FloatBucket {
            lower,
            upper: self.upper_bound(index),
            lower_inclusive: is_first_custom && lower == f64::NEG_INFINITY,
            upper_inclusive: true,
            count,
        }
    }

    /// The upper bound of a bucket above zero.
    pub(crate) fn upper_bound(&self, index: i32) -> f64 {
        if self.has_custom_buckets() {
            return match usize::try_from(index) {
                Ok(at) => self.custom_bounds.get(at).copied().unwrap_or(f64::INFINITY),
                Err(_) => f64::NEG_INFINITY,
            };
        }
        exponential_bound(i64::from(index), self.schema)
    }
}

impl FloatHistogram {
    /// The sum of two. `None`: only one of them has bounds of its own.
    pub fn added(&self, other: &Self) -> Option<Self> {
        let mut tally = HistogramAccumulator::first(self);
        tally.add(other).ok().map(|_| tally.sum())
    }

    /// The difference of two. `None`: only one of them has bounds of its own.
    pub fn subtracted(&self, other: &Self) -> Option<Self> {
        let mut tally = HistogramAccumulator::first(self);
        tally.subtract(other).ok().map(|_| tally.sum())
    }

    /// The floats that would take its memory in Prometheus, where a query's samples are counted so.
    pub(crate) fn weight(&self) -> u64 {
        const STRUCT_BYTES: usize = 168;
        // A span's offset and length, a bucket's count, a bound.
        const PART_BYTES: usize = 8;
        const FLOAT_BYTES: usize = 16;

        let spans = |side: &[(i32, f64)]| {
            side.len() - side.windows(2).filter(|pair| pair[1].0 == pair[0].0.wrapping_add(1)).count()
        };
        let buckets = self.positive.len() + self.negative.len();
        let parts = buckets + self.custom_bounds.len() + spans(&self.positive) + spans(&self.negative);
        ((STRUCT_BYTES + PART_BYTES * (parts + 1)) / FLOAT_BYTES) as u64
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + (self.positive.len() + self.negative.len()) * size_of::<(i32, f64)>()
            + self.custom_bounds.len() * size_of::<f64>()
    }

    /// With all counts and the sum multiplied; by less than zero it isn't a counter any more.
    pub(crate) fn multiplied(&self, factor: f64) -> Self {
        let mut result = self.clone();
        result.scale(|value| value * factor);
        if factor < 0.0 {
            result.reset_hint = ResetHint::Gauge;
        }
        result
    }

    /// With all counts and the sum divided; by zero no bucket is left.
    pub(crate) fn divided(&self, divisor: f64) -> Self {
        let mut result = self.clone();
        result.scale(|value| value / divisor);
        if divisor == 0.0 {
            result.positive.clear();
            result.negative.clear();
        } else if divisor < 0.0 {
            result.reset_hint = ResetHint::Gauge;
        }
        result
    }

    /// Without empty buckets.
    pub(crate) fn compacted(mut self) -> Self {
        self.positive.retain(|(_, count)| *count != 0.0);
        self.negative.retain(|(_, count)| *count != 0.0);
        self
    }

    /// Saying nothing of the one before it, as a subquery has it: that one may not be among its samples.
    pub(crate) fn without_reset_hint(self: &Rc<Self>) -> Rc<Self> {
        match self.reset_hint {
            ResetHint::Unknown | ResetHint::Gauge => Rc::clone(self),
            ResetHint::Reset | ResetHint::NotReset => {
                Rc::new(Self { reset_hint: ResetHint::Unknown, ..Self::clone(self) })
            }
        }
    }

    fn scale(&mut self, change: impl Fn(f64) -> f64) {
        self.zero_count = change(self.zero_count);
        self.count = change(self.count);
        self.sum = change(self.sum);
        for (_, count) in self.positive.iter_mut().chain(&mut self.negative) {
            *count = change(*count);
        }
    }
}

impl fmt::Display for FloatBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.lower_inclusive { '[' } else { '(' };
        let close = if self.upper_inclusive { ']' } else { ')' };
        let [lower, upper, count] = [self.lower, self.upper, self.count].map(format_general);
        write!(f, "{open}{lower},{upper}{close}:{count}")
    }
}

/// As Prometheus shows it: `{count:3, sum:5, (1,2]:3}`.
impl fmt::Display for FloatHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{count:{}, sum:{}", format_general(self.count), format_general(self.sum))?;
        let zero = std::iter::once(self.zero_bucket());
        let all = self.below_zero().chain(zero).chain(self.above_zero());
        for bucket in all.filter(|bucket| bucket.count != 0.0) {
            write!(f, ", {bucket}")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_that_exports_tell() {
        let bound = |index| FloatHistogram { schema: 2, ..FloatHistogram::default() }.upper_bound(index);
        assert_eq!([bound(-6), bound(-1)], [0.353_553_390_593_273_73, 0.840_896_415_253_714_4]);
    }

    #[test]
    fn a_histogram_counts_as_the_floats_that_take_its_memory_in_prometheus() {
        let check = |positive: &[i32], negative: &[i32], bounds: usize, expect: u64| {
            let side = |indexes: &[i32]| indexes.iter().map(|index| (*index, 1.0)).collect();
            let custom_bounds = std::iter::repeat_n(1.0, bounds).collect();
            let histogram = FloatHistogram {
                positive: side(positive),
                negative: side(negative),
                custom_bounds,
                ..FloatHistogram::default()
            };
            assert_eq!(histogram.weight(), expect, "{positive:?} {negative:?} {bounds}");
        };
        check(&[], &[], 0, 11);
        // Two spans of three buckets: 168 + 40 bytes.
        check(&[0, 1, 5], &[], 0, 13);
        check(&[0, 1, 5], &[-3, -2, -1], 4, 17);
        check(&[i32::MAX], &[i32::MIN], 0, 13);
    }
}
