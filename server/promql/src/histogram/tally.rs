//! Sums and means of histograms, with what rounding takes from each count kept beside it.

use super::{FloatHistogram, ResetHint};
use crate::eval::math::Sum;

/// Two histograms of which one has bounds of its own: nothing can be computed of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incompatible;

/// What was noticed when two histograms became one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Combined {
    /// One says that its counter began again, the other that it went on.
    pub(crate) collides: bool,
    /// Their own bounds differed.
    pub(crate) is_reconciled: bool,
}

/// Which hints were seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hints {
    reset: bool,
    not_reset: bool,
}

impl Hints {
    pub(crate) fn see(&mut self, histogram: &FloatHistogram) {
        self.reset |= histogram.reset_hint == ResetHint::Reset;
        self.not_reset |= histogram.reset_hint == ResetHint::NotReset;
    }

    /// Those that another saw, too.
    pub(crate) fn merge(&mut self, other: Self) {
        self.reset |= other.reset;
        self.not_reset |= other.not_reset;
    }

    pub(crate) const fn collide(self) -> bool {
        self.reset && self.not_reset
    }
}

type Buckets = Vec<(i32, Sum)>;

/// A sum of histograms.
#[derive(Debug, Clone)]
pub(crate) struct HistogramAccumulator {
    frame: FloatHistogram,
    zero_count: Sum,
    count: Sum,
    sum: Sum,
    positive: Buckets,
    negative: Buckets,
    /// Histograms so far; once the sum would overflow, the rest is the mean.
    terms: f64,
    is_mean: bool,
}

fn sums(buckets: &[(i32, f64)]) -> Buckets {
    buckets.iter().map(|(index, count)| (*index, Sum { value: *count, lost: 0.0 })).collect()
}

fn sum_of(value: f64) -> Sum {
    Sum { value, lost: 0.0 }
}

impl HistogramAccumulator {
    /// Of one histogram.
    pub(crate) fn first(histogram: &FloatHistogram) -> Self {
        Self {
            zero_count: sum_of(histogram.zero_count),
            count: sum_of(histogram.count),
            sum: sum_of(histogram.sum),
            positive: sums(&histogram.positive),
            negative: sums(&histogram.negative),
            frame: FloatHistogram { positive: Vec::new(), negative: Vec::new(), ..histogram.clone() },
            terms: 1.0,
            is_mean: false,
        }
    }

    /// One more.
    pub(crate) fn add(&mut self, other: &FloatHistogram) -> Result<Combined, Incompatible> {
        self.terms += 1.0;
        self.combine(other, 1.0)
    }

    /// One less.
    pub(crate) fn subtract(&mut self, other: &FloatHistogram) -> Result<Combined, Incompatible> {
        self.combine(other, -1.0)
    }

    /// One more for the mean, which doesn't overflow where the sum would.
    pub(crate) fn add_to_mean(&mut self, other: &FloatHistogram) -> Result<Combined, Incompatible> {
        if !self.is_mean {
            let mut sum = self.clone();
            let combined = sum.add(other)?;
            if !sum.overflows() {
                *self = sum;
                return Ok(combined);
            }
            self.is_mean = true;
            let terms = self.terms;
            self.change(|value| value / terms);
        }
        self.terms += 1.0;
        let terms = self.terms;
        self.change(|value| value * ((terms - 1.0) / terms));
        self.combine(&other.divided(terms), 1.0)
    }

    /// The histograms of another sum, too.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<Combined, Incompatible> {
        self.terms += other.terms;
        let combined = self.combine(&other.part(|count| count.value), 1.0)?;
        // What rounding took is counted as the rest is: all that is done to counts is linear.
        self.combine(&other.part(|count| count.lost), 1.0)?;
        Ok(combined)
    }

    /// The histograms of another mean, too.
    pub(crate) fn merge_mean(&mut self, mut other: Self) -> Result<Combined, Incompatible> {
        if !self.is_mean && !other.is_mean {
            let mut sum = self.clone();
            let combined = sum.merge(&other)?;
            if !sum.overflows() {
                *self = sum;
                return Ok(combined);
            }
        }
        let terms = self.terms + other.terms;
        for part in [&mut *self, &mut other] {
            let share = if part.is_mean { part.terms / terms } else { 1.0 / terms };
            part.change(|value| value * share);
            part.is_mean = true;
        }
        self.merge(&other)
    }

    /// How many buckets it has.
    pub(crate) fn buckets(&self) -> usize {
        self.positive.len() + self.negative.len()
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bounds = self.frame.custom_bounds.len() * size_of::<f64>();
        size_of::<Self>() + self.buckets() * size_of::<(i32, Sum)>() + bounds
    }

    /// A part of each count, in the same buckets.
    fn part(&self, part: fn(&Sum) -> f64) -> FloatHistogram {
        let parts = |buckets: &Buckets| buckets.iter().map(|(index, count)| (*index, part(count))).collect();
        FloatHistogram {
            zero_count: part(&self.zero_count),
            count: part(&self.count),
            sum: part(&self.sum),
            positive: parts(&self.positive),
            negative: parts(&self.negative),
            ..self.frame.clone()
        }
    }

    fn overflows(&self) -> bool {
        let buckets = self.positive.iter().chain(&self.negative).map(|(_, count)| *count);
        [self.zero_count, self.count, self.sum].into_iter().chain(buckets).any(|sum| sum.value.is_infinite())
    }

    fn change(&mut self, change: impl Fn(f64) -> f64) {
        let buckets = self.positive.iter_mut().chain(&mut self.negative).map(|(_, count)| count);
        for sum in [&mut self.zero_count, &mut self.count, &mut self.sum].into_iter().chain(buckets) {
            *sum = Sum { value: change(sum.value), lost: change(sum.lost) };
        }
    }

    /// The sum.
    pub(crate) fn sum(self) -> FloatHistogram {
        let plain = |buckets: &Buckets| {
            let counts = buckets.iter().map(|(index, count)| (*index, count.total()));
            counts.filter(|(_, count)| *count != 0.0).collect()
        };
        FloatHistogram {
            zero_count: self.zero_count.total(),
            count: self.count.total(),
            sum: self.sum.total(),
            positive: plain(&self.positive),
            negative: plain(&self.negative),
            ..self.frame
        }
    }

    /// The mean.
    pub(crate) fn mean(mut self) -> FloatHistogram {
        if !self.is_mean {
            let terms = self.terms;
            self.change(|value| value / terms);
        }
        self.sum()
    }

    fn combine(&mut self, other: &FloatHistogram, sign: f64) -> Result<Combined, Incompatible> {
        if self.frame.has_custom_buckets() != other.has_custom_buckets() {
            return Err(Incompatible);
        }
        let mut combined = Combined { collides: self.take_hint(other), is_reconciled: false };
        self.count.add(sign * other.count);
        self.sum.add(sign * other.sum);
        if self.frame.has_custom_buckets() {
            combined.is_reconciled = self.combine_custom(other, sign);
            return Ok(combined);
        }
        let zero_count = self.reconcile_zero(other);
        self.zero_count.add(sign * zero_count);
        if other.schema < self.frame.schema {
            let (from, to) = (self.frame.schema, other.schema);
            self.positive = reduced(&self.positive, from, to);
            self.negative = reduced(&self.negative, from, to);
            self.frame.schema = to;
        }
        let (frame, schema) = (&self.frame, other.schema);
        // What lies within the zero bucket is counted there.
        let outside = |buckets: &[(i32, f64)]| -> Buckets {
            let buckets = reduced(&sums(buckets), schema, frame.schema).into_iter();
            let is_inside = |(index, _): &(i32, Sum)| frame.upper_bound(*index) <= frame.zero_threshold;
            buckets.skip_while(is_inside).collect()
        };
        let (positive, negative) = (outside(&other.positive), outside(&other.negative));
        self.positive = merged(&self.positive, &positive, sign);
        self.negative = merged(&self.negative, &negative, sign);
        Ok(combined)
    }

    fn take_hint(&mut self, other: &FloatHistogram) -> bool {
        let (ours, theirs) = (self.frame.reset_hint, other.reset_hint);
        let (hint, collides) = match (ours, theirs) {
            (ours, theirs) if ours == theirs => (ours, false),
            (ResetHint::Gauge, _) | (_, ResetHint::Gauge) => (ResetHint::Gauge, false),
            (ResetHint::Unknown, _) | (_, ResetHint::Unknown) => (ResetHint::Unknown, false),
            (ResetHint::Reset | ResetHint::NotReset, _) => (ResetHint::Unknown, true),
        };
        self.frame.reset_hint = hint;
        collides
    }

    fn combine_custom(&mut self, other: &FloatHistogram, sign: f64) -> bool {
        if self.frame.custom_bounds == other.custom_bounds {
            self.positive = merged(&self.positive, &sums(&other.positive), sign);
            return false;
        }
        let common = common_bounds(&self.frame.custom_bounds, &other.custom_bounds);
        let ours = rebound(&self.positive, &self.frame.custom_bounds, &common);
        let theirs = rebound(&sums(&other.positive), &other.custom_bounds, &common);
        self.positive = merged(&ours, &theirs, sign);
        self.frame.custom_bounds = common;
        true
    }

    /// Makes the zero buckets equally wide; the other's count in that width.
    fn reconcile_zero(&mut self, other: &FloatHistogram) -> f64 {
        let (mut count, mut threshold) = (other.zero_count, other.zero_threshold);
        // Nothing makes that equal to another.
        if threshold.is_nan() || self.frame.zero_threshold.is_nan() {
            return count;
        }
        while threshold != self.frame.zero_threshold {
            if self.frame.zero_threshold > threshold {
                (count, threshold) = other.zero_count_within(self.frame.zero_threshold);
            }
            if threshold > self.frame.zero_threshold {
                self.widen_zero(threshold);
            }
        }
        count
    }

    fn widen_zero(&mut self, threshold: f64) {
        let plain = FloatHistogram {
            positive: self.positive.iter().map(|(index, count)| (*index, count.total())).collect(),
            negative: self.negative.iter().map(|(index, count)| (*index, count.total())).collect(),
            zero_count: self.zero_count.total(),
            ..self.frame.clone()
        };
        let (count, threshold) = plain.zero_count_within(threshold);
        self.zero_count = sum_of(count);
        self.frame.zero_threshold = threshold;
        let frame = &self.frame;
        let stays = |(index, _): &(i32, Sum)| frame.upper_bound(*index - 1) >= threshold;
        self.positive.retain(stays);
        self.negative.retain(stays);
    }
}

/// Buckets of a coarser schema.
fn reduced(buckets: &Buckets, from: i32, to: i32) -> Buckets {
    if from <= to { buckets.clone() } else { placed(buckets, |index| coarser(index, from, to)) }
}

/// Buckets at other places, which ascend as they do: those that come to the same one are one.
fn placed(buckets: &Buckets, place: impl Fn(i32) -> i32) -> Buckets {
    let mut out: Buckets = Vec::with_capacity(buckets.len());
    for (index, count) in buckets {
        let index = place(*index);
        match out.last_mut() {
            Some((last, total)) if *last == index => {
                total.add(count.value);
                total.add(count.lost);
            }
            Some(_) | None => out.push((index, *count)),
        }
    }
    out
}

/// The bucket of a coarser schema that holds one of a finer schema.
pub(super) const fn coarser(index: i32, from: i32, to: i32) -> i32 {
    ((index - 1) >> (from - to)) + 1
}

fn merged(left: &Buckets, right: &Buckets, sign: f64) -> Buckets {
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut at, mut other) = (0, 0);
    loop {
        let next = match (left.get(at), right.get(other)) {
            (None, None) => return out,
            (Some(ours), Some(theirs)) if ours.0 == theirs.0 => {
                let mut sum = ours.1;
                sum.add(sign * theirs.1.value);
                sum.add(sign * theirs.1.lost);
                at += 1;
                other += 1;
                (ours.0, sum)
            }
            (Some(ours), Some(theirs)) if ours.0 < theirs.0 => {
                at += 1;
                *ours
            }
            (Some(ours), None) => {
                at += 1;
                *ours
            }
            (_, Some(theirs)) => {
                other += 1;
                (theirs.0, Sum { value: sign * theirs.1.value, lost: sign * theirs.1.lost })
            }
        };
        out.push(next);
    }
}

/// The bounds that both have.
pub(super) fn common_bounds(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().copied().filter(|bound| right.contains(bound)).collect()
}

/// Counts between other bounds, each of which is among the old ones.
fn rebound(buckets: &Buckets, bounds: &[f64], common: &[f64]) -> Buckets {
    placed(buckets, |index| {
        let upper = usize::try_from(index).ok().and_then(|at| bounds.get(at));
        upper.map_or(common.len(), |upper| common.partition_point(|bound| bound < upper)) as i32
    })
}

/// Plain counts between other bounds.
pub(super) fn rebound_counts(histogram: &FloatHistogram, common: &[f64]) -> Vec<(i32, f64)> {
    let buckets = rebound(&sums(&histogram.positive), &histogram.custom_bounds, common);
    buckets.into_iter().map(|(index, count)| (index, count.total())).collect()
}
