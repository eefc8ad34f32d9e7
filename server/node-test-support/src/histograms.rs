//! Native histograms as senders have them: counters that grow, get buckets and start over, gauges, custom buckets, of
//! integers and of floats, with every hint, and staleness markers among them. Knows neither times nor requests.

use silverback_model::histogram::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint, SCHEMA_MIN, Span,
};
use silverback_test_support::random::Random;

/// Histograms of a counter until it starts over.
const LIFE: usize = 40;
/// Histograms of a counter until it gets a bucket more.
const PER_BUCKET: usize = 8;
/// Bounds of custom buckets, some of which no chunk can write in few bits.
const BOUNDS: [f64; 5] = [-1.0, 0.005, 1.0 / 3.0, 2.5, 1e9];
const _: () = assert!(LIFE / PER_BUCKET <= BOUNDS.len() + 1);

/// What is the same in all histograms of a series, but for a few.
#[derive(Debug, Clone, Copy)]
struct Shape {
    kind: HistogramKind,
    has_custom_buckets: bool,
    is_gauge: bool,
}

impl Shape {
    /// All of them come in turn.
    const fn of(number: usize) -> Self {
        let kind = if number & 1 == 0 { HistogramKind::Integer } else { HistogramKind::Float };
        Self { kind, has_custom_buckets: number & 2 != 0, is_gauge: number & 4 != 0 }
    }
}

/// The `nth` histogram of the series of a number.
pub(crate) fn histogram(number: usize, nth: usize, random: &mut Random) -> Histogram {
    let mut shape = Shape::of(number);
    if random.once_in(32) {
        shape = Shape::of(random.below(8) as usize);
    }
    let hint = if shape.is_gauge { ResetHint::Gauge } else { hint(random) };
    if random.once_in(16) {
        return Histogram { hint, ..Histogram::stale(shape.kind) };
    }
    let age = nth % LIFE;
    let mut counts = (0..=age / PER_BUCKET).map(|bucket| (age * (1 + bucket)) as u64).collect::<Vec<_>>();
    if shape.is_gauge {
        counts.iter_mut().for_each(|count| *count = random.below(1000));
    }
    let histogram = Histogram { hint, sum_bits: sum_bits(random), ..of_counts(shape, &counts) };
    if shape.has_custom_buckets { histogram } else { with_zero_and_negative(histogram, number, age as u64) }
}

/// Some say what isn't so: a reset without one, or none where there is one.
fn hint(random: &mut Random) -> ResetHint {
    match random.below(32) {
        0 => ResetHint::Reset,
        1..=6 => ResetHint::NotReset,
        _ => ResetHint::Unknown,
    }
}

fn sum_bits(random: &mut Random) -> u64 {
    let bits = random.next();
    match random.below(8) {
        0 => bits,
        1 => (-0.0_f64).to_bits(),
        _ => ((bits % 1_000_000) as f64 / 8.0).to_bits(),
    }
}

fn of_counts(Shape { kind, has_custom_buckets, .. }: Shape, counts: &[u64]) -> Histogram {
    let schema = if has_custom_buckets { CUSTOM_BUCKETS_SCHEMA } else { 0 };
    let bounds = if has_custom_buckets { BOUNDS.to_vec() } else { Vec::new() };
    let spans = vec![Span { offset: 0, length: counts.len() as u32 }];
    let mut before = 0;
    let words = counts.iter().map(|count| match kind {
        HistogramKind::Integer => count.wrapping_sub(std::mem::replace(&mut before, *count)),
        HistogramKind::Float => word(kind, *count),
    });
    let positive = Buckets { spans, words: words.collect() };
    Histogram {
        kind,
        schema,
        bounds,
        positive,
        count: word(kind, counts.iter().sum()),
        ..Histogram::default()
    }
}

/// A float's counts aren't whole.
fn word(kind: HistogramKind, count: u64) -> u64 {
    match kind {
        HistogramKind::Integer => count,
        HistogramKind::Float => (count as f64 / 3.0).to_bits(),
    }
}

/// A histogram of exponential buckets with so many observations more at zero, and as many below.
fn with_zero_and_negative(histogram: Histogram, number: usize, more: u64) -> Histogram {
    let kind = histogram.kind;
    let count = match kind {
        HistogramKind::Integer => histogram.count + 2 * more,
        HistogramKind::Float => (f64::from_bits(histogram.count) + 2.0 * more as f64).to_bits(),
    };
    let zero = match kind {
        HistogramKind::Integer => more,
        HistogramKind::Float => (more as f64).to_bits(),
    };
    Histogram {
        schema: SCHEMA_MIN + (number % 13) as i32,
        zero_threshold: if number.is_multiple_of(3) { 0.001 } else { 2_f64.powi(-128) },
        zero_count: zero,
        count,
        negative: Buckets { spans: vec![Span { offset: -2, length: 1 }], words: vec![zero] },
        ..histogram
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn histograms_of_all_shapes_and_hints_are_valid_and_no_two_of_a_series_are_the_same() {
        let mut random = Random::new(7);
        let (mut seen, mut different) = (BTreeSet::new(), BTreeSet::new());
        for (number, nth) in (0..40).flat_map(|number| (0..400).map(move |nth| (number, nth))) {
            let histogram = histogram(number, nth, &mut random);
            assert_eq!(histogram.validate(), Ok(()), "{histogram:?}");
            let shape = (histogram.kind as u8, histogram.has_custom_buckets(), histogram.hint as u8);
            seen.insert((shape, histogram.is_stale()));
            different.insert(histogram.fingerprint());
        }
        let told = |stale: bool| seen.iter().filter(|(_, is_stale)| *is_stale == stale).count();
        assert_eq!(told(false), 2 * 2 * 4, "{seen:?}");
        assert_eq!(told(true), 2 * 4, "{seen:?}");
        assert!(different.len() > 3500, "{}", different.len());
    }
}
