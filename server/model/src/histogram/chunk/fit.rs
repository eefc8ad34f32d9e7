//! Whether a histogram belongs to an open chunk, by Prometheus' rules, and what has to be done so that it does.
//!
//! A chunk of counters holds no reset: no count is less than the one before it, and no bucket in use disappears.
//! One of gauges holds any counts. Neither changes its schema, threshold or bounds.
use super::ResetHeader;
use super::layout::ChunkLayout;
use super::state::HistogramState;
use super::track::Track;
use crate::histogram::spans::{bucket_count, counts, spans_of, union};
use crate::histogram::value::{Buckets, Histogram, HistogramKind, ResetHint, Span};
use crate::limits::HISTOGRAM_BUCKETS_MAX;

/// How a histogram goes on after a chunk's last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Its buckets are the chunk's.
    Same,
    /// It lacks some of the chunk's buckets, which are empty.
    Fewer,
    /// It has more: the chunk and it get these spans, positive and negative ones.
    More(Box<[Vec<Span>; 2]>),
    /// It begins another chunk, of which this is known.
    Another(ResetHeader),
}

/// Buckets that one of the two has and the other hasn't.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    /// The chunk lacks some.
    in_chunk: bool,
    /// The histogram lacks some, all of them empty.
    in_histogram: bool,
}

/// Judges a histogram, of the chunk's kind.
pub(super) fn fit(
    header: ResetHeader,
    layout: &ChunkLayout,
    state: &HistogramState,
    histogram: &Histogram,
) -> Fit {
    if histogram.hint == ResetHint::Gauge {
        return fit_gauge(header, layout, state, histogram);
    }
    let another = |known| Fit::Another(known);
    if header == ResetHeader::Gauge {
        return another(ResetHeader::NotReset);
    }
    if histogram.hint == ResetHint::Reset {
        return another(ResetHeader::Reset);
    }
    if histogram.is_stale() {
        return Fit::Same;
    }
    if state.is_stale() {
        return another(ResetHeader::Unknown);
    }
    if is_less(layout.kind, histogram.count, state.count.last) {
        return another(ResetHeader::Reset);
    }
    if !has_schema_of(layout, histogram) {
        return another(ResetHeader::Unknown);
    }
    match missing_of_counters(layout, state, histogram) {
        Some(missing) => widened(layout, histogram, missing, ResetHeader::Unknown),
        None => another(ResetHeader::Reset),
    }
}

fn fit_gauge(
    header: ResetHeader,
    layout: &ChunkLayout,
    state: &HistogramState,
    histogram: &Histogram,
) -> Fit {
    if header != ResetHeader::Gauge {
        return Fit::Another(ResetHeader::Gauge);
    }
    if histogram.is_stale() {
        return Fit::Same;
    }
    if state.is_stale() || !has_schema_of(layout, histogram) || layout.bounds != histogram.bounds {
        return Fit::Another(ResetHeader::Gauge);
    }
    let sides = [
        missing_of_gauge(&layout.positive, &histogram.positive.spans),
        missing_of_gauge(&layout.negative, &histogram.negative.spans),
    ];
    // Where the histogram lacks a bucket on one side, Prometheus writes the spans of both again.
    let in_histogram = sides.iter().any(|side| side.in_histogram);
    widened(layout, histogram, sides.map(|side| Missing { in_histogram, ..side }), ResetHeader::Gauge)
}

fn has_schema_of(layout: &ChunkLayout, histogram: &Histogram) -> bool {
    histogram.schema == layout.schema && histogram.zero_threshold == layout.zero_threshold
}

/// What both sides lack. `None` is a counter reset.
fn missing_of_counters(
    layout: &ChunkLayout,
    state: &HistogramState,
    histogram: &Histogram,
) -> Option<[Missing; 2]> {
    let is_reset = layout.bounds != histogram.bounds
        || is_less(layout.kind, histogram.zero_count, state.zero_count.last);
    if is_reset {
        return None;
    }
    Some([
        missing_of_counter(layout.kind, &layout.positive, &state.positive, &histogram.positive)?,
        missing_of_counter(layout.kind, &layout.negative, &state.negative, &histogram.negative)?,
    ])
}

fn missing_of_counter(
    kind: HistogramKind,
    spans: &[Span],
    tracks: &[Track],
    next: &Buckets,
) -> Option<Missing> {
    if spans == next.spans {
        return has_no_less(kind, tracks, &next.words).then(Missing::default);
    }
    let mut missing = Missing::default();
    let mut had = counts(kind, spans, tracks.iter().map(|track| track.last)).peekable();
    let mut has = next.counts(kind).peekable();
    loop {
        match (had.peek().copied(), has.peek().copied()) {
            (Some((had_index, before)), Some((index, now))) if had_index == index => {
                if is_count_less(kind, now, before) {
                    return None;
                }
                had.next();
                has.next();
            }
            (Some((had_index, before)), now) if now.is_none_or(|(index, _)| had_index < index) => {
                // Only an empty bucket may disappear.
                if !kind.is_zero(before) {
                    return None;
                }
                missing.in_histogram = true;
                had.next();
            }
            (_, Some(_)) => {
                missing.in_chunk = true;
                has.next();
            }
            (_, None) => return Some(missing),
        }
    }
}

/// The usual case: the spans are the same.
fn has_no_less(kind: HistogramKind, tracks: &[Track], words: &[u64]) -> bool {
    match kind {
        HistogramKind::Integer => {
            // How much more each bucket has than before is the running sum of the deltas' differences.
            let (mut more, mut signs) = (0_i64, 0_i64);
            for (track, word) in tracks.iter().zip(words) {
                more = more.wrapping_add(word.wrapping_sub(track.last) as i64);
                signs |= more;
            }
            signs >= 0
        }
        HistogramKind::Float => {
            tracks.iter().zip(words).all(|(track, word)| !is_less(kind, *word, track.last))
        }
    }
}

fn missing_of_gauge(chunk: &[Span], histogram: &[Span]) -> Missing {
    if chunk == histogram {
        return Missing::default();
    }
    let all = union(chunk, histogram).count() as u64;
    Missing { in_chunk: all > bucket_count(chunk), in_histogram: all > bucket_count(histogram) }
}

fn widened(
    layout: &ChunkLayout,
    histogram: &Histogram,
    missing: [Missing; 2],
    otherwise: ResetHeader,
) -> Fit {
    let [positive, negative] = missing;
    if !positive.in_chunk && !negative.in_chunk {
        let is_fewer = positive.in_histogram || negative.in_histogram;
        return if is_fewer { Fit::Fewer } else { Fit::Same };
    }
    let positive = widened_side(&layout.positive, &histogram.positive.spans, positive);
    let negative = widened_side(&layout.negative, &histogram.negative.spans, negative);
    match (positive, negative) {
        (Some(positive), Some(negative)) if is_small(&positive, &negative) => {
            Fit::More(Box::new([positive, negative]))
        }
        // What is wider than a chunk may be is written to the next.
        _ => Fit::Another(otherwise),
    }
}

fn widened_side(chunk: &[Span], histogram: &[Span], missing: Missing) -> Option<Vec<Span>> {
    if missing.in_histogram { spans_of(union(chunk, histogram)) } else { Some(histogram.to_vec()) }
}

fn is_small(positive: &[Span], negative: &[Span]) -> bool {
    bucket_count(positive) + bucket_count(negative) <= HISTOGRAM_BUCKETS_MAX as u64
}

/// Whether a histogram's count, or that of its zero bucket, is less than another.
fn is_less(kind: HistogramKind, a: u64, b: u64) -> bool {
    match kind {
        HistogramKind::Integer => a < b,
        HistogramKind::Float => f64::from_bits(a) < f64::from_bits(b),
    }
}

/// Whether a bucket's count is less than another.
fn is_count_less(kind: HistogramKind, a: u64, b: u64) -> bool {
    match kind {
        HistogramKind::Integer => (a as i64) < b as i64,
        HistogramKind::Float => is_less(kind, a, b),
    }
}
