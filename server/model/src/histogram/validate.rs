//! When a histogram is valid, as Prometheus' receiver has it, and its reduction to the finest schema that is kept.
//!
//! In two places this is stricter: buckets are validated before they are reduced, so that one bucket's count can't
//! hide another's negative one; and counts whose sum doesn't fit 64 bits don't add up to anything.
use super::spans::bucket_count;
use super::value::{Buckets, Histogram, HistogramKind, SCHEMA_MAX, SCHEMA_MIN, SCHEMA_REDUCED_MAX, Span};
use crate::limits::{HISTOGRAM_BOUNDS_MAX, HISTOGRAM_BUCKETS_MAX, HISTOGRAM_SPANS_MAX};

/// What is wrong with a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HistogramError {
    /// The count isn't that of the buckets, and no NaN was observed.
    #[error("count isn't the sum of the buckets")]
    CountMismatch,
    /// NaNs were observed, but fewer observations than the buckets have.
    #[error("count is less than the sum of the buckets")]
    CountTooSmall,
    /// A float histogram's count is negative.
    #[error("count is negative")]
    NegativeCount,
    /// A bucket's count is negative, or doesn't fit 64 bits.
    #[error("bucket with a negative count")]
    NegativeBucket,
    /// A span begins before the one before it ends.
    #[error("span with a negative offset")]
    NegativeOffset,
    /// Spans and buckets are of different numbers.
    #[error("spans have another number of buckets than there are")]
    SpansMismatch,
    /// Custom bounds end before the buckets do.
    #[error("custom bounds are too few for the spans")]
    TooFewBounds,
    /// Custom bounds don't ascend.
    #[error("custom bounds don't ascend")]
    BoundsNotAscending,
    /// The last bucket's bound, +Inf, is among them.
    #[error("custom bounds must be finite: that of the last bucket isn't among them")]
    InfiniteBound,
    /// A custom bound isn't a number.
    #[error("custom bound is NaN")]
    NanBound,
    /// Custom buckets, and a zero bucket.
    #[error("custom buckets beside a zero bucket")]
    CustomZeroBucket,
    /// Custom buckets, and negative ones.
    #[error("custom buckets beside negative ones")]
    CustomNegative,
    /// Custom bounds of exponential buckets.
    #[error("custom bounds, but an exponential schema")]
    BoundsOfExponential,
    /// No schema that is known.
    #[error("schema is neither between -4 and 52 nor -53")]
    UnknownSchema,
    /// More buckets, spans or bounds than a histogram may have, or indexes beyond 32 bits.
    #[error("too many buckets, spans or custom bounds")]
    TooLarge,
}

impl Histogram {
    /// Whether it may be stored. A finer schema than [`SCHEMA_MAX`] is reduced to it. After an error it is what it
    /// was.
    pub fn accept(&mut self) -> Result<(), HistogramError> {
        self.validate()?;
        if !self.has_custom_buckets() && self.schema > SCHEMA_MAX {
            self.reduce_to(SCHEMA_MAX)
        } else {
            Ok(())
        }
    }

    /// Whether it may be stored, reduced where its schema is finer than [`SCHEMA_MAX`].
    pub fn validate(&self) -> Result<(), HistogramError> {
        self.validate_sizes()?;
        if self.has_custom_buckets() {
            self.validate_custom()?;
        } else {
            self.validate_exponential()?;
        }
        match self.kind {
            HistogramKind::Integer => self.validate_integer_counts(),
            HistogramKind::Float => self.validate_float_counts(),
        }
    }

    fn validate_sizes(&self) -> Result<(), HistogramError> {
        let spans = self.positive.spans.len().max(self.negative.spans.len());
        let is_small = self.buckets() <= HISTOGRAM_BUCKETS_MAX
            && spans <= HISTOGRAM_SPANS_MAX
            && self.bounds.len() <= HISTOGRAM_BOUNDS_MAX;
        if is_small { Ok(()) } else { Err(HistogramError::TooLarge) }
    }

    fn validate_custom(&self) -> Result<(), HistogramError> {
        validate_bounds(&self.bounds)?;
        validate_custom_spans(&self.positive, self.bounds.len())?;
        if !self.kind.is_zero(self.zero_count) || self.zero_threshold != 0.0 {
            return Err(HistogramError::CustomZeroBucket);
        }
        if self.negative != Buckets::default() {
            return Err(HistogramError::CustomNegative);
        }
        Ok(())
    }

    fn validate_exponential(&self) -> Result<(), HistogramError> {
        if !(SCHEMA_MIN..=SCHEMA_REDUCED_MAX).contains(&self.schema) {
            return Err(HistogramError::UnknownSchema);
        }
        validate_spans(&self.positive)?;
        validate_spans(&self.negative)?;
        if self.bounds.is_empty() { Ok(()) } else { Err(HistogramError::BoundsOfExponential) }
    }

    fn validate_integer_counts(&self) -> Result<(), HistogramError> {
        let sides = [sum_of_deltas(&self.positive)?, sum_of_deltas(&self.negative)?];
        let in_buckets = sides.into_iter().try_fold(self.zero_count, u64::checked_add);
        match in_buckets {
            Some(sum) if self.sum().is_nan() && sum <= self.count => Ok(()),
            Some(_) | None if self.sum().is_nan() => Err(HistogramError::CountTooSmall),
            Some(sum) if sum == self.count => Ok(()),
            Some(_) | None => Err(HistogramError::CountMismatch),
        }
    }

    /// Floats needn't add up: they are estimates, or sums of many.
    fn validate_float_counts(&self) -> Result<(), HistogramError> {
        let words = self.negative.words.iter().chain(&self.positive.words);
        if words.chain([&self.zero_count]).any(|word| f64::from_bits(*word) < 0.0) {
            return Err(HistogramError::NegativeBucket);
        }
        if f64::from_bits(self.count) < 0.0 { Err(HistogramError::NegativeCount) } else { Ok(()) }
    }
}

/// The sum of counts that are written as deltas.
fn sum_of_deltas(buckets: &Buckets) -> Result<u64, HistogramError> {
    let (mut count, mut sum, mut signs) = (0_i64, 0_u128, 0_i64);
    for delta in &buckets.words {
        // As long as none before was negative, this is where it wraps.
        count = count.wrapping_add(*delta as i64);
        signs |= count;
        sum += u128::from(count as u64);
    }
    match u64::try_from(sum) {
        Ok(sum) if signs >= 0 => Ok(sum),
        Ok(_) | Err(_) => checked_sum_of_deltas(buckets),
    }
}

/// The same, one by one: which fault comes first.
#[cold]
fn checked_sum_of_deltas(buckets: &Buckets) -> Result<u64, HistogramError> {
    let (mut count, mut sum) = (0_i64, 0_u64);
    for delta in &buckets.words {
        count = count
            .checked_add(*delta as i64)
            .filter(|count| *count >= 0)
            .ok_or(HistogramError::NegativeBucket)?;
        sum = sum.checked_add(count as u64).ok_or(HistogramError::CountMismatch)?;
    }
    Ok(sum)
}

fn validate_spans(Buckets { spans, words }: &Buckets) -> Result<(), HistogramError> {
    if spans.iter().skip(1).any(|span| span.offset < 0) {
        return Err(HistogramError::NegativeOffset);
    }
    validate_bucket_count(spans, words)
}

fn validate_bucket_count(spans: &[Span], words: &[u64]) -> Result<(), HistogramError> {
    if bucket_count(spans) == words.len() as u64 { Ok(()) } else { Err(HistogramError::SpansMismatch) }
}

fn validate_custom_spans(Buckets { spans, words }: &Buckets, bounds: usize) -> Result<(), HistogramError> {
    if spans.iter().any(|span| span.offset < 0) {
        return Err(HistogramError::NegativeOffset);
    }
    validate_bucket_count(spans, words)?;
    let left_out: u64 = spans.iter().map(|span| u64::from(span.offset.unsigned_abs())).sum();
    // The last bucket, up to +Inf, has no bound.
    if left_out + words.len() as u64 <= bounds as u64 + 1 {
        Ok(())
    } else {
        Err(HistogramError::TooFewBounds)
    }
}

fn validate_bounds(bounds: &[f64]) -> Result<(), HistogramError> {
    if bounds.iter().any(|bound| bound.is_nan()) {
        return Err(HistogramError::NanBound);
    }
    if bounds.windows(2).any(|pair| pair[1] <= pair[0]) {
        return Err(HistogramError::BoundsNotAscending);
    }
    if bounds.last() == Some(&f64::INFINITY) { Err(HistogramError::InfiniteBound) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
