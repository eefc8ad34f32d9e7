//! OpenTelemetry's histograms with explicit bounds as native ones with custom buckets, as Prometheus' receiver translates
//! them. The last bucket, which has no upper bound, has none there either; minimum and maximum have no place.
use super::exponential::{DenseBuckets, put_side};
use super::validate::HistogramError;
use super::value::{CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint};
use crate::STALE_NAN_BITS;

/// A data point of a histogram with explicit bounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExplicitPoint<'a> {
    /// Upper bounds of all buckets but the last.
    pub bounds: &'a [f64],
    /// One for each bucket, or none at all.
    pub counts: &'a [u64],
    /// All observations.
    pub count: u64,
    /// Their sum, or 0 where it wasn't given.
    pub sum: f64,
    /// Nothing was recorded: a staleness marker.
    pub is_stale: bool,
}

impl Histogram {
    /// Becomes what a point says. It isn't validated yet.
    pub fn read_explicit(&mut self, point: &ExplicitPoint) -> Result<(), HistogramError> {
        self.clear();
        self.kind = HistogramKind::Integer;
        self.hint = ResetHint::Unknown;
        if point.is_stale {
            self.sum_bits = STALE_NAN_BITS;
            return Ok(());
        }
        self.schema = CUSTOM_BUCKETS_SCHEMA;
        self.bounds.extend_from_slice(point.bounds);
        (self.count, self.sum_bits) = (point.count, point.sum.to_bits());
        let empty = point.counts.iter().take_while(|count| **count == 0).count();
        // The first bucket has index 0 here.
        let offset = i32::try_from(empty).map_err(|_| HistogramError::TooLarge)? - 1;
        put_side(&mut self.positive, DenseBuckets { offset, counts: &point.counts[empty..] }, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HISTOGRAM_BUCKETS_MAX;

    fn read(bounds: &[f64], counts: &[u64], count: u64) -> (Result<(), HistogramError>, Histogram) {
        let mut histogram = Histogram::default();
        let point = ExplicitPoint { bounds, counts, count, sum: 2.5, is_stale: false };
        (histogram.read_explicit(&point), histogram)
    }

    #[track_caller]
    fn check(counts: &[u64], expect_spans: &[(i32, u32)], expect: &[(i64, u64)]) {
        let bounds = [0.5, 1.0, 2.0, 5.0, 10.0, 50.0];
        let (read, histogram) = read(&bounds[..counts.len().saturating_sub(1)], counts, counts.iter().sum());
        assert_eq!(read, Ok(()));
        let spans: Vec<_> = histogram.positive.spans.iter().map(|span| (span.offset, span.length)).collect();
        let found: Vec<_> = histogram.positive.counts(HistogramKind::Integer).collect();
        assert_eq!((spans.as_slice(), found.as_slice()), (expect_spans, expect));
        assert_eq!((histogram.schema, histogram.sum()), (CUSTOM_BUCKETS_SCHEMA, 2.5));
        assert_eq!(histogram.validate(), Ok(()));
    }

    #[test]
    fn a_bucket_has_the_index_of_its_bound() {
        check(&[1, 2, 3], &[(0, 3)], &[(0, 1), (1, 2), (2, 3)]);
        check(&[0, 0, 3, 4], &[(2, 2)], &[(2, 3), (3, 4)]);
        check(&[1, 0, 0, 0, 0, 0, 2], &[(0, 1), (5, 1)], &[(0, 1), (6, 2)]);
        check(&[0, 0], &[], &[]);
        check(&[], &[], &[]);
    }

    #[test]
    fn counts_that_don_t_add_up_and_too_many_buckets_are_refused() {
        let (read_well, histogram) = read(&[1.0], &[1, 2], 4);
        assert_eq!((read_well, histogram.validate()), (Ok(()), Err(HistogramError::CountMismatch)));
        let many = vec![1; HISTOGRAM_BUCKETS_MAX + 1];
        assert_eq!(read(&[], &many, 1).0, Err(HistogramError::TooLarge));
    }

    #[test]
    fn nothing_recorded_is_a_staleness_marker() {
        let mut histogram = Histogram::default();
        let point =
            ExplicitPoint { bounds: &[1.0], counts: &[0, 0], is_stale: true, ..ExplicitPoint::default() };
        assert_eq!(histogram.read_explicit(&point), Ok(()));
        assert!(histogram.is_stale() && histogram.bounds.is_empty());
    }
}
