//! OpenTelemetry's exponential histograms as native ones, as Prometheus' receiver translates them.
//!
//! A finer scale than the finest schema is reduced, minimum and maximum have no place, and the width of the zero
//! bucket is Prometheus' own. Where buckets are reduced and the first are empty, Prometheus counts some
//! observations one bucket too low; here they stay where they belong.
use super::validate::HistogramError;
use super::value::{Buckets, Histogram, HistogramKind, ResetHint, SCHEMA_MAX, SCHEMA_MIN, Span};
use crate::STALE_NAN_BITS;
use crate::limits::HISTOGRAM_BUCKETS_MAX;

/// How wide the zero bucket is.
const ZERO_THRESHOLD: f64 = 1e-128;

/// Up to so many empty buckets are written out; for more a span begins.
const GAP_MAX: i64 = 2;

/// The counts of one side, without a gap.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenseBuckets<'a> {
    /// The first's index. Bucket 0 begins at 1, where a native histogram's ends there.
    pub offset: i32,
    /// One for each bucket.
    pub counts: &'a [u64],
}

/// A data point of an exponential histogram.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExponentialPoint<'a> {
    /// The buckets' resolution.
    pub scale: i32,
    /// All observations.
    pub count: u64,
    /// Their sum, or 0 where it wasn't given.
    pub sum: f64,
    /// Observations about zero.
    pub zero_count: u64,
    /// Those above.
    pub positive: DenseBuckets<'a>,
    /// Those below.
    pub negative: DenseBuckets<'a>,
    /// Counts since the last point, and not since the start.
    pub is_delta: bool,
    /// Nothing was recorded: a staleness marker.
    pub is_stale: bool,
}

impl Histogram {
    /// Becomes what a point says. It isn't validated yet.
    pub fn read_exponential(&mut self, point: &ExponentialPoint) -> Result<(), HistogramError> {
        self.clear();
        if point.scale < SCHEMA_MIN {
            return Err(HistogramError::UnknownSchema);
        }
        self.kind = HistogramKind::Integer;
        self.hint = if point.is_delta { ResetHint::Gauge } else { ResetHint::Unknown };
        if point.is_stale {
            self.sum_bits = STALE_NAN_BITS;
            return Ok(());
        }
        let by = i64::from(point.scale) - i64::from(SCHEMA_MAX);
        self.schema = point.scale.min(SCHEMA_MAX);
        self.zero_threshold = ZERO_THRESHOLD;
        (self.zero_count, self.count, self.sum_bits) = (point.zero_count, point.count, point.sum.to_bits());
        let by = by.clamp(0, 63) as u32;
        put_side(&mut self.positive, point.positive, by)?;
        put_side(&mut self.negative, point.negative, by)
    }
}

/// Writes one side, 2^by buckets of it as one. The lowest one's index in `out` is one above its own.
pub(super) fn put_side(out: &mut Buckets, dense: DenseBuckets, by: u32) -> Result<(), HistogramError> {
    if dense.counts.is_empty() {
        return Ok(());
    }
    let coarser = |at: usize| ((i64::from(dense.offset) + at as i64) >> by) + 1;
    let first = coarser(0);
    let mut side = Side { out, next: first, last_count: 0 };
    side.begin_span(first)?;
    let mut at = 0;
    // Zero for as long as nothing but empty buckets came since the last that was written.
    let (mut index, mut pending) = (first, 0_u64);
    while at < dense.counts.len() {
        let next = coarser(at);
        if next != index && pending != 0 {
            side.put(index, pending)?;
            pending = 0;
        }
        index = next;
        pending = pending.checked_add(dense.counts[at]).ok_or(HistogramError::CountMismatch)?;
        at += 1;
    }
    side.put(index, pending)
}

/// A side that is written, from its lowest bucket up.
struct Side<'a> {
    out: &'a mut Buckets,
    /// The index after the last bucket's.
    next: i64,
    last_count: u64,
}

impl Side<'_> {
    /// Adds a bucket, and what lies between as empty ones or as a gap.
    fn put(&mut self, index: i64, count: u64) -> Result<(), HistogramError> {
        let gap = index - self.next;
        if gap > GAP_MAX {
            self.begin_span(gap)?;
        } else {
            for _ in 0..gap {
                self.put_word(0)?;
            }
        }
        self.next = index + 1;
        self.put_word(count)
    }

    fn begin_span(&mut self, offset: i64) -> Result<(), HistogramError> {
        let offset = i32::try_from(offset).map_err(|_| HistogramError::TooLarge)?;
        self.out.spans.push(Span { offset, length: 0 });
        Ok(())
    }

    fn put_word(&mut self, count: u64) -> Result<(), HistogramError> {
        if self.out.words.len() == HISTOGRAM_BUCKETS_MAX {
            return Err(HistogramError::TooLarge);
        }
        self.out.words.push(count.wrapping_sub(self.last_count));
        self.out.spans.last_mut().expect("a span was begun").length += 1;
        self.last_count = count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point<'a>(scale: i32, offset: i32, counts: &'a [u64]) -> ExponentialPoint<'a> {
        let positive = DenseBuckets { offset, counts };
        ExponentialPoint { scale, count: counts.iter().sum(), positive, ..ExponentialPoint::default() }
    }

    #[track_caller]
    fn check(scale: i32, offset: i32, counts: &[u64], expect_spans: &[(i32, u32)], expect: &[u64]) {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.read_exponential(&point(scale, offset, counts)), Ok(()));
        let spans: Vec<_> = histogram.positive.spans.iter().map(|span| (span.offset, span.length)).collect();
        let read: Vec<_> =
            histogram.positive.counts(HistogramKind::Integer).map(|(_, count)| count).collect();
        assert_eq!((spans.as_slice(), read.as_slice()), (expect_spans, expect));
        assert_eq!(histogram.accept(), Ok(()));
    }

    #[test]
    fn buckets_are_named_by_their_end_and_small_gaps_are_filled() {
        check(0, 0, &[3, 2, 1], &[(1, 3)], &[3, 2, 1]);
        check(2, -3, &[4, 0, 0, 1], &[(-2, 4)], &[4, 0, 0, 1]);
        check(0, 0, &[4, 0, 0, 0, 1], &[(1, 1), (3, 1)], &[4, 1]);
        check(0, 0, &[0, 5, 3], &[(1, 3)], &[0, 5, 3]);
        check(0, 0, &[0, 0, 0, 0, 5], &[(1, 0), (4, 1)], &[5]);
        check(0, 0, &[5, 0, 0], &[(1, 3)], &[5, 0, 0]);
        check(8, 0, &[], &[], &[]);
    }

    #[test]
    fn a_finer_scale_than_the_finest_schema_is_reduced() {
        check(9, 0, &[1, 2, 3, 4], &[(1, 2)], &[3, 7]);
        check(9, 1, &[1, 2, 3, 4], &[(1, 3)], &[1, 5, 4]);
        check(10, -1, &[1, 2, 3, 4, 5], &[(0, 2)], &[1, 14]);
        check(9, 0, &[0, 0, 5, 7, 3, 0], &[(1, 3)], &[0, 12, 3]);
        check(i32::MAX, -1, &[1, 2], &[(0, 2)], &[1, 2]);
    }

    #[test]
    fn what_has_no_schema_or_no_index_is_refused() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.read_exponential(&point(-5, 0, &[1])), Err(HistogramError::UnknownSchema));
        assert_eq!(histogram.read_exponential(&point(0, i32::MAX, &[1])), Err(HistogramError::TooLarge));
        let many = vec![1; HISTOGRAM_BUCKETS_MAX + 1];
        assert_eq!(histogram.read_exponential(&point(0, 0, &many)), Err(HistogramError::TooLarge));
        let mut huge = point(9, 0, &[]);
        huge.positive.counts = &[u64::MAX, 1];
        assert_eq!(histogram.read_exponential(&huge), Err(HistogramError::CountMismatch));
    }

    #[test]
    fn deltas_are_gauges_and_nothing_recorded_is_a_staleness_marker() {
        let mut histogram = Histogram::default();
        let of = ExponentialPoint { is_delta: true, sum: 2.5, zero_count: 1, ..point(3, 0, &[1]) };
        assert_eq!(histogram.read_exponential(&ExponentialPoint { count: 2, ..of }), Ok(()));
        assert_eq!((histogram.hint, histogram.sum(), histogram.zero_count), (ResetHint::Gauge, 2.5, 1));
        assert_eq!((histogram.schema, histogram.zero_threshold), (3, ZERO_THRESHOLD));
        assert_eq!(histogram.read_exponential(&ExponentialPoint { is_stale: true, ..of }), Ok(()));
        assert!(histogram.is_stale() && histogram.positive.words.is_empty());
    }
}
