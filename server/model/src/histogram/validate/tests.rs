//! What is wrong with a histogram, one thing at a time.
use super::*;

fn side(spans: &[(i32, u32)], deltas: &[i64]) -> Buckets {
    let spans = spans.iter().map(|&(offset, length)| Span { offset, length }).collect();
    Buckets { spans, words: deltas.iter().map(|delta| *delta as u64).collect() }
}

/// 2 and 3 above zero, 1 in the zero bucket, 4 below.
fn integer() -> Histogram {
    Histogram {
        count: 10,
        zero_count: 1,
        positive: side(&[(-1, 2)], &[2, 1]),
        negative: side(&[(0, 1)], &[4]),
        ..Histogram::default()
    }
}

fn float() -> Histogram {
    let bits = |list: &[f64]| list.iter().map(|count| count.to_bits()).collect();
    Histogram {
        kind: HistogramKind::Float,
        count: 5.5_f64.to_bits(),
        positive: Buckets { spans: vec![Span { offset: 0, length: 2 }], words: bits(&[2.5, 3.0]) },
        ..Histogram::default()
    }
}

fn custom() -> Histogram {
    Histogram {
        schema: super::super::CUSTOM_BUCKETS_SCHEMA,
        count: 3,
        positive: side(&[(0, 1), (1, 1)], &[1, 1]),
        bounds: vec![-1.0, 2.5],
        ..Histogram::default()
    }
}

#[track_caller]
fn check(of: Histogram, change: impl FnOnce(&mut Histogram), expect: Result<(), HistogramError>) {
    let mut changed = of;
    change(&mut changed);
    assert_eq!(changed.validate(), expect, "{changed:?}");
}

#[track_caller]
fn check_fault(of: Histogram, change: impl FnOnce(&mut Histogram), expect: HistogramError) {
    check(of, change, Err(expect));
}

#[test]
fn usual_ones_are_valid() {
    for usual in
        [integer(), float(), custom(), Histogram::default(), Histogram::stale(HistogramKind::Integer)]
    {
        check(usual, |_| (), Ok(()));
    }
}

#[test]
fn integer_counts_add_up_unless_a_nan_was_observed() {
    check_fault(integer(), |h| h.count = 11, HistogramError::CountMismatch);
    check_fault(integer(), |h| h.count = 9, HistogramError::CountMismatch);
    let nan = f64::NAN.to_bits();
    check(integer(), |h| (h.count, h.sum_bits) = (11, nan), Ok(()));
    check_fault(integer(), |h| (h.count, h.sum_bits) = (9, nan), HistogramError::CountTooSmall);
}

#[test]
fn counts_beyond_64_bits_add_up_to_nothing() {
    let half = i64::MAX;
    let huge = |h: &mut Histogram| h.positive = side(&[(0, 3)], &[half, 0, 0]);
    check_fault(integer(), huge, HistogramError::CountMismatch);
    let wrapping = |h: &mut Histogram| (h.zero_count, h.count) = (u64::MAX, 8);
    check_fault(integer(), wrapping, HistogramError::CountMismatch);
    check_fault(
        integer(),
        |h| (h.zero_count, h.sum_bits) = (u64::MAX, f64::NAN.to_bits()),
        HistogramError::CountTooSmall,
    );
    let overflow = |h: &mut Histogram| h.positive = side(&[(0, 2)], &[half, 1]);
    check_fault(integer(), overflow, HistogramError::NegativeBucket);
}

#[test]
fn no_bucket_is_negative() {
    check_fault(integer(), |h| h.positive.words[1] = (-3_i64) as u64, HistogramError::NegativeBucket);
    check_fault(integer(), |h| h.negative.words[0] = (-1_i64) as u64, HistogramError::NegativeBucket);
    check_fault(float(), |h| h.positive.words[0] = (-0.5_f64).to_bits(), HistogramError::NegativeBucket);
    check_fault(float(), |h| h.zero_count = (-1.0_f64).to_bits(), HistogramError::NegativeBucket);
    check_fault(float(), |h| h.count = (-1.0_f64).to_bits(), HistogramError::NegativeCount);
    check(float(), |h| h.count = 99.0_f64.to_bits(), Ok(()));
}

#[test]
fn spans_have_the_buckets_that_there_are() {
    check_fault(integer(), |h| h.positive.spans[0].length = 1, HistogramError::SpansMismatch);
    check_fault(integer(), |h| h.negative.spans.clear(), HistogramError::SpansMismatch);
    check_fault(float(), |h| h.positive.spans[0].length = u32::MAX, HistogramError::SpansMismatch);
    let back = |h: &mut Histogram| h.positive = side(&[(4, 1), (-1, 1)], &[2, 1]);
    check_fault(integer(), back, HistogramError::NegativeOffset);
    let empty = |h: &mut Histogram| h.positive = side(&[(4, 0), (0, 0), (1, 2)], &[2, 1]);
    check(integer(), empty, Ok(()));
}

#[test]
fn schemas_between_the_coarsest_and_the_finest_known_are_taken() {
    for schema in [-4, 0, 8, 9, 52] {
        check(integer(), |h| h.schema = schema, Ok(()));
    }
    for schema in [-54, -9, -5, 53, i32::MIN, i32::MAX] {
        check_fault(integer(), |h| h.schema = schema, HistogramError::UnknownSchema);
    }
}

#[test]
fn a_finer_schema_is_reduced_after_it_was_validated() {
    let mut fine = Histogram { schema: 10, ..integer() };
    assert_eq!(fine.accept(), Ok(()));
    assert_eq!((fine.schema, fine.count), (8, 10));
    assert_eq!(fine.positive, side(&[(0, 1)], &[5]), "-1 and 0 are both of bucket 0");
    // As one bucket they would be 1, and hide that one is negative.
    let mut hidden = Histogram { schema: 10, count: 6, positive: side(&[(-1, 2)], &[2, -3]), ..integer() };
    let before = hidden.clone();
    assert_eq!(hidden.accept(), Err(HistogramError::NegativeBucket));
    assert_eq!(hidden, before);
}

#[test]
fn custom_buckets_have_bounds_and_nothing_else() {
    check_fault(custom(), |h| h.bounds = vec![1.0, 1.0], HistogramError::BoundsNotAscending);
    check_fault(custom(), |h| h.bounds = vec![2.0, 1.0], HistogramError::BoundsNotAscending);
    check_fault(custom(), |h| h.bounds = vec![1.0, f64::NAN], HistogramError::NanBound);
    check_fault(custom(), |h| h.bounds = vec![1.0, f64::INFINITY], HistogramError::InfiniteBound);
    check(custom(), |h| h.bounds = vec![f64::NEG_INFINITY, 1.0], Ok(()));
    check_fault(custom(), |h| h.bounds = vec![1.0], HistogramError::TooFewBounds);
    check_fault(custom(), |h| h.positive.spans[0].offset = -1, HistogramError::NegativeOffset);
    check_fault(custom(), |h| h.positive.spans[1].length = 2, HistogramError::SpansMismatch);
    check_fault(custom(), |h| h.zero_count = 1, HistogramError::CustomZeroBucket);
    check_fault(custom(), |h| h.zero_threshold = 0.5, HistogramError::CustomZeroBucket);
    check_fault(custom(), |h| h.negative = side(&[(0, 0)], &[]), HistogramError::CustomNegative);
    check_fault(integer(), |h| h.bounds = vec![1.0], HistogramError::BoundsOfExponential);
    check_fault(custom(), |h| h.count = 4, HistogramError::CountMismatch);
}

#[test]
fn more_than_a_histogram_may_have_is_refused_whatever_it_says() {
    check_fault(integer(), |h| h.positive.words = vec![0; HISTOGRAM_BUCKETS_MAX], HistogramError::TooLarge);
    check_fault(
        integer(),
        |h| h.negative.spans = vec![Span::default(); HISTOGRAM_SPANS_MAX + 1],
        HistogramError::TooLarge,
    );
    check_fault(custom(), |h| h.bounds = vec![0.0; HISTOGRAM_BOUNDS_MAX + 1], HistogramError::TooLarge);
}
