//! Native histograms in the load: some series send one in place of each of their samples. Who sends and the oracle
//! know samples alone: a histogram stands for the one whose value is its sum, and is made of that.

use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramIter, HistogramKind, ResetHint, Span,
};
use silverback_model::{Labels, STALE_NAN_BITS, Sample};

use crate::random::mixed;

/// The label of the series that send them.
pub(crate) const LABEL: (&str, &str) = ("kind", "histogram");

/// Whether a series' samples are sent as histograms.
pub(crate) fn is_of_histograms(labels: &Labels) -> bool {
    labels.0.iter().any(|(name, value)| (&name[..], &value[..]) == LABEL)
}

/// Bounds of custom buckets.
const BOUNDS: [f64; 5] = [-1.0, 0.005, 1.0 / 3.0, 2.5, 1e9];

/// Buckets of those that have many.
const WIDE_BUCKETS: u64 = 300;

/// The histogram that stands for a value: of either kind, a counter or a gauge, of few buckets or more, some of them
/// custom ones, so that chunks go on, grow wider and are cut.
fn histogram_of(value: f64) -> Histogram {
    let shape = mixed(value.to_bits());
    let is_float = shape.is_multiple_of(3);
    let kind = if is_float { HistogramKind::Float } else { HistogramKind::Integer };
    if value.to_bits() == STALE_NAN_BITS {
        return Histogram::stale(HistogramKind::Integer);
    }
    let is_custom = shape >> 5 & 3 == 1;
    // Some have so many that few are appended between two looks at the clock, or one.
    let is_wide = !is_custom && shape >> 40 & 1 == 1;
    let length = if is_wide { WIDE_BUCKETS } else { 1 + (shape >> 8) % 6 };
    let counts = (0..length).map(|bucket| mixed(shape.wrapping_add(bucket)) & 0xf);
    let count = counts.clone().sum::<u64>();
    let word = |count: u64| if is_float { (count as f64).to_bits() } else { count };
    let mut before = 0;
    let words = counts.map(|count| match kind {
        HistogramKind::Float => word(count),
        HistogramKind::Integer => count.wrapping_sub(std::mem::replace(&mut before, count)),
    });
    let offset = if is_custom { 0 } else { (shape >> 12) as i32 & 3 };
    let spans = vec![Span { offset, length: length as u32 }];
    Histogram {
        schema: if is_custom { CUSTOM_BUCKETS_SCHEMA } else { 0 },
        bounds: if is_custom { BOUNDS.to_vec() } else { Vec::new() },
        kind,
        hint: if shape >> 4 & 1 == 1 { ResetHint::Gauge } else { ResetHint::Unknown },
        sum_bits: value.to_bits(),
        count: word(count),
        positive: Buckets { spans, words: words.collect() },
        ..Histogram::default()
    }
}

/// Appends the message of the histogram that stands for a sample.
pub(crate) fn put_message(sample: Sample, out: &mut Vec<u8>) {
    let times = HistogramTimes { timestamp_ms: sample.timestamp_ms, ..HistogramTimes::default() };
    histogram_of(sample.value).put_message(times, out);
}

/// The samples that a chunk's histograms stand for.
///
/// # Panics
///
/// Where one differs from what was sent in anything but its sum, which the oracle looks at.
pub(crate) fn samples(kind: HistogramKind, chunk: &[u8]) -> Vec<Sample> {
    let (mut iter, mut histogram, mut samples) =
        (HistogramIter::new(kind, chunk), Histogram::default(), Vec::new());
    while iter.samples_left() > 0 {
        let timestamp_ms = iter.next_into(&mut histogram).expect("the node's own chunks decode");
        let sample = Sample::new(timestamp_ms, histogram.sum());
        let sent = histogram_of(sample.value);
        let is_gauge = |histogram: &Histogram| histogram.hint == ResetHint::Gauge;
        let is_what_was_sent = histogram.is_same(&sent) && is_gauge(&histogram) == is_gauge(&sent);
        assert!(is_what_was_sent, "at {timestamp_ms}: holds {histogram:?}");
        samples.push(sample);
    }
    samples
}

#[test]
fn a_histogram_comes_back_as_the_sample_that_it_stands_for() {
    use silverback_model::histogram::OpenHistogram;
    for value in [0.0, -1.5, f64::NAN, f64::from_bits(STALE_NAN_BITS), 7.0, 1e300] {
        let (sample, mut message, mut read) = (Sample::new(9, value), Vec::new(), Histogram::default());
        put_message(sample, &mut message);
        assert_eq!(read.read_message(&message).unwrap().timestamp_ms, 9);
        read.accept().unwrap();
        let chunk = OpenHistogram::start(9, &read, None);
        assert_eq!(samples(chunk.kind(), &chunk.to_bytes()), [sample]);
    }
}
