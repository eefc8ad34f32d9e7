//! Native histograms as shards keep them, as the query engine computes with them. It knows values alone, neither
//! queries nor memory.

use std::rc::Rc;

use silverback_model::histogram as stored;
use silverback_promql::histogram::FloatHistogram;

/// What each histogram takes besides its buckets and bounds, in bytes.
const HISTOGRAM_BYTES: usize = size_of::<FloatHistogram>() + 32;
/// A bucket's index and count; a bound takes half of it.
const BUCKET_BYTES: usize = size_of::<(i32, f64)>();

/// The same with counts as floats, and its memory in bytes.
pub(super) fn computed(from: &stored::Histogram) -> (Rc<FloatHistogram>, usize) {
    let (positive, negative) = (buckets(from, &from.positive), buckets(from, &from.negative));
    let bytes = HISTOGRAM_BYTES + BUCKET_BYTES * (positive.len() + negative.len() + from.bounds.len());
    let histogram = FloatHistogram {
        reset_hint: from.hint,
        schema: from.schema,
        zero_threshold: from.zero_threshold,
        zero_count: number(from.kind, from.zero_count),
        count: number(from.kind, from.count),
        sum: f64::from_bits(from.sum_bits),
        positive,
        negative,
        custom_bounds: from.bounds.clone(),
    };
    (Rc::new(histogram), bytes)
}

fn buckets(of: &stored::Histogram, side: &stored::Buckets) -> Vec<(i32, f64)> {
    // What is stored was validated: its indexes are such.
    let all = side.counts(of.kind).map(|(index, count)| (i32::try_from(index).ok(), number(of.kind, count)));
    all.filter_map(|(index, count)| Some((index?, count))).collect()
}

fn number(kind: stored::HistogramKind, word: u64) -> f64 {
    match kind {
        stored::HistogramKind::Integer => word as f64,
        stored::HistogramKind::Float => f64::from_bits(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stored::{Buckets, HistogramKind, Span};

    #[test]
    fn deltas_become_counts_at_their_indexes() {
        let integer = stored::Histogram {
            hint: stored::ResetHint::NotReset,
            schema: 1,
            zero_threshold: 0.5,
            sum_bits: 18.4_f64.to_bits(),
            count: 12,
            zero_count: 2,
            positive: Buckets {
                spans: vec![Span { offset: -1, length: 2 }, Span { offset: 3, length: 1 }],
                words: vec![3, 1, (-1_i64) as u64],
            },
            ..stored::Histogram::default()
        };
        let (computed, bytes) = computed(&integer);
        assert_eq!(computed.positive, [(-1, 3.0), (0, 4.0), (4, 3.0)]);
        assert_eq!((computed.count, computed.zero_count, computed.sum), (12.0, 2.0, 18.4));
        assert_eq!((computed.reset_hint, computed.schema), (stored::ResetHint::NotReset, 1));
        assert!(bytes >= HISTOGRAM_BYTES + 3 * BUCKET_BYTES);
    }

    #[test]
    fn a_float_s_counts_and_bounds_stay_as_they_are() {
        let float = stored::Histogram {
            kind: HistogramKind::Float,
            schema: stored::CUSTOM_BUCKETS_SCHEMA,
            count: 1.5_f64.to_bits(),
            positive: Buckets { spans: vec![Span { offset: 1, length: 1 }], words: vec![1.5_f64.to_bits()] },
            bounds: vec![1.0, 2.0],
            ..stored::Histogram::default()
        };
        let (computed, _) = computed(&float);
        assert_eq!((&computed.positive[..], &computed.custom_bounds[..]), (&[(1, 1.5)][..], &[1.0, 2.0][..]));
        assert_eq!(computed.count, 1.5);
    }
}
