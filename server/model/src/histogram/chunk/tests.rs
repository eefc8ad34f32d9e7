//! What becomes of histograms in chunks: when one begins, widens, and what is read of it. That the bytes are those of
//! Prometheus is shown in `tests/histogram_chunks.rs`.
use proptest::prelude::*;

use super::*;
use crate::gorilla::ChunkError;
use crate::histogram::{Buckets, Histogram, Span};

const AT_MS: i64 = 1_700_000_000_000;

/// Of these buckets above zero, as absolute counts.
fn counting(first: i32, counts: &[u64]) -> Histogram {
    let mut before = 0;
    let deltas = counts.iter().map(|count| count.wrapping_sub(std::mem::replace(&mut before, *count)));
    let spans = vec![Span { offset: first, length: counts.len() as u32 }];
    let positive = Buckets { spans, words: deltas.collect() };
    Histogram { count: counts.iter().sum(), positive, ..Histogram::default() }
}

fn gauge(first: i32, counts: &[u64]) -> Histogram {
    Histogram { hint: ResetHint::Gauge, ..counting(first, counts) }
}

/// As floats.
fn float(histogram: Histogram) -> Histogram {
    let words = histogram.positive.counts(HistogramKind::Integer).map(|(_, count)| (count as f64).to_bits());
    let positive = Buckets { spans: histogram.positive.spans.clone(), words: words.collect() };
    let count = (histogram.count as f64).to_bits();
    Histogram { kind: HistogramKind::Float, count, positive, ..histogram }
}

/// The chunks of these, one a second.
fn chunks(histograms: &[Histogram]) -> Vec<SealedHistogram> {
    let mut sealed = Vec::new();
    let mut open: Option<OpenHistogram> = None;
    for (timestamp_ms, histogram) in (AT_MS..).step_by(1000).zip(histograms) {
        match &mut open {
            Some(open) => sealed.extend(open.append(timestamp_ms, histogram)),
            None => open = Some(OpenHistogram::start(timestamp_ms, histogram, None)),
        }
    }
    sealed.extend(open.map(OpenHistogram::seal));
    sealed
}

/// What chunks hold.
fn read(chunks: &[SealedHistogram]) -> Vec<Histogram> {
    let mut all = Vec::new();
    for chunk in chunks {
        let mut iter = chunk.histograms();
        while iter.samples_left() > 0 {
            let mut histogram = Histogram::default();
            iter.next_into(&mut histogram).unwrap();
            all.push(histogram);
        }
    }
    all
}

/// What these become: how many each chunk has, and what its header says.
#[track_caller]
fn check(histograms: &[Histogram], expect: &[(usize, ResetHeader)]) {
    for histograms in [histograms.to_vec(), histograms.iter().cloned().map(float).collect()] {
        let chunks = chunks(&histograms);
        let made: Vec<_> =
            chunks.iter().map(|chunk| (chunk.count(), ResetHeader::of_byte(chunk.bytes()[2]))).collect();
        let mut expect = expect.to_vec();
        if histograms[0].kind == HistogramKind::Float {
            // Prometheus reports only resets and gauges of float ones.
            expect
                .iter_mut()
                .filter(|(_, known)| *known == ResetHeader::NotReset)
                .for_each(|it| it.1 = ResetHeader::Unknown);
        }
        assert_eq!(made, expect);
        assert!(read(&chunks).iter().zip(&histograms).all(|(read, put)| read.is_same(put)));
    }
}

use ResetHeader::{Gauge, NotReset, Reset, Unknown};

#[test]
fn counters_that_grow_share_a_chunk() {
    check(&[counting(0, &[1, 2]), counting(0, &[1, 5]), counting(0, &[3, 5])], &[(3, Unknown)]);
}

#[test]
fn new_buckets_widen_the_chunk_and_empty_ones_that_are_gone_are_filled_in() {
    let grown =
        [counting(3, &[1]), counting(1, &[2, 0, 1]), counting(3, &[1, 4]), counting(0, &[1, 2, 0, 1, 4])];
    check(&grown[..2], &[(2, Unknown)]);
    check(&grown[2..], &[(2, Unknown)]);
    let chunks = chunks(&[counting(0, &[0, 2, 0]), counting(1, &[3]), counting(1, &[3, 1, 1])]);
    assert_eq!(chunks.len(), 1);
    let read = read(&chunks);
    assert!(read.iter().all(|histogram| histogram.positive.spans == [Span { offset: 0, length: 4 }]));
}

#[test]
fn a_count_that_falls_or_a_bucket_that_disappears_begins_a_chunk_after_a_reset() {
    check(&[counting(0, &[1, 2]), counting(0, &[1, 1])], &[(1, Unknown), (1, Reset)]);
    check(&[counting(0, &[1, 2]), counting(0, &[0, 9])], &[(1, Unknown), (1, Reset)]);
    check(&[counting(0, &[1, 2]), counting(1, &[9])], &[(1, Unknown), (1, Reset)]);
    check(&[counting(1, &[2]), counting(2, &[9])], &[(1, Unknown), (1, Reset)]);
    let hinted = Histogram { hint: ResetHint::Reset, ..counting(0, &[5]) };
    check(&[counting(0, &[1]), hinted], &[(1, Unknown), (1, Reset)]);
    let fewer_zeros = |zero_count| Histogram { zero_count, count: 5 + zero_count, ..counting(0, &[5]) };
    let chunks = chunks(&[fewer_zeros(3), Histogram { count: 9, ..fewer_zeros(2) }]);
    assert_eq!(ResetHeader::of_byte(chunks[1].bytes()[2]), Reset);
}

#[test]
fn another_schema_or_threshold_begins_a_chunk_of_which_nothing_is_known() {
    let other = Histogram { schema: 3, ..counting(0, &[5]) };
    check(&[counting(0, &[1]), other], &[(1, Unknown), (1, Unknown)]);
    let other = Histogram { zero_threshold: 0.5, ..counting(0, &[5]) };
    check(&[counting(0, &[1]), other], &[(1, Unknown), (1, Unknown)]);
    let custom = |bounds: &[f64]| Histogram { schema: -53, bounds: bounds.to_vec(), ..counting(0, &[5]) };
    check(&[custom(&[1.0]), custom(&[2.0])], &[(1, Unknown), (1, Reset)]);
    check(&[custom(&[1.0]), custom(&[1.0])], &[(2, Unknown)]);
}

#[test]
fn gauges_have_chunks_of_their_own_and_fall_as_they_like() {
    check(&[gauge(0, &[5, 5]), gauge(1, &[1]), gauge(0, &[0, 0, 7])], &[(3, Gauge)]);
    check(&[counting(0, &[1]), gauge(0, &[1])], &[(1, Unknown), (1, Gauge)]);
    check(&[gauge(0, &[1]), counting(0, &[1])], &[(1, Gauge), (1, NotReset)]);
}

#[test]
fn nothing_but_staleness_follows_a_staleness_marker_in_a_chunk() {
    let stale = || Histogram::stale(HistogramKind::Integer);
    let chunks = chunks(&[counting(0, &[3]), stale(), stale(), counting(0, &[9]), stale()]);
    assert_eq!(chunks.iter().map(SealedHistogram::count).collect::<Vec<_>>(), [3, 2]);
    let read = read(&chunks);
    assert_eq!(read.iter().map(Histogram::is_stale).collect::<Vec<_>>(), [false, true, true, false, true]);
    let alone = self::chunks(&[stale(), counting(0, &[1])]);
    assert_eq!(alone.len(), 2);
}

#[test]
fn a_series_that_turns_to_floats_begins_another_chunk() {
    let chunks = chunks(&[counting(0, &[1]), float(counting(0, &[2])), counting(0, &[3])]);
    let kinds = chunks.iter().map(SealedHistogram::kind).collect::<Vec<_>>();
    assert_eq!(kinds, [HistogramKind::Integer, HistogramKind::Float, HistogramKind::Integer]);
}

#[test]
fn gauges_whose_buckets_together_are_more_than_a_chunk_may_have_get_another() {
    let wide = |first| gauge(first, &vec![1; 3000]);
    let chunks = chunks(&[wide(0), wide(10_000), wide(10_100)]);
    assert_eq!(chunks.iter().map(SealedHistogram::count).collect::<Vec<_>>(), [1, 2]);
    let far = |offset| {
        let spans = vec![Span { offset, length: 0 }, Span { offset: i32::MAX, length: 1 }];
        Histogram { positive: Buckets { spans, words: vec![1] }, ..gauge(0, &[1]) }
    };
    assert_eq!(self::chunks(&[gauge(i32::MIN, &[1]), far(i32::MAX)]).len(), 2, "the gap has no number");
}

#[test]
fn a_chunk_that_is_taken_up_again_goes_on_as_if_nothing_had_been() {
    let histograms: Vec<_> = (0..40_u64).map(|n| counting(0, &[n, n * n, 7 * n])).collect();
    for histograms in [histograms.clone(), histograms.into_iter().map(float).collect()] {
        let mut straight = OpenHistogram::start(AT_MS, &histograms[0], None);
        let mut resumed = straight.clone();
        for (n, histogram) in (1..).zip(&histograms[1..]) {
            let timestamp_ms = AT_MS + 1000 * n + n % 3;
            let sealed = straight.append(timestamp_ms, histogram);
            resumed = OpenHistogram::resume(resumed.kind(), &resumed.to_bytes(), resumed.plan()).unwrap();
            assert_eq!(resumed.append(timestamp_ms, histogram), sealed);
            assert_eq!((resumed.to_bytes(), resumed.plan()), (straight.to_bytes(), straight.plan()));
            let mut last = Histogram::default();
            resumed.put_last(&mut last);
            assert!(last.is_same(histogram));
        }
        assert_eq!(resumed.first_timestamp_ms(), straight.first_timestamp_ms());
    }
}

#[test]
fn hints_are_those_of_the_header_and_the_place() {
    let hints = |histograms: &[Histogram]| {
        read(&chunks(histograms)).iter().map(|histogram| histogram.hint).collect::<Vec<_>>()
    };
    let counters = [counting(0, &[1]), counting(0, &[2])];
    assert_eq!(hints(&counters), [ResetHint::Unknown, ResetHint::NotReset]);
    assert_eq!(hints(&[gauge(0, &[1]), gauge(0, &[2])]), [ResetHint::Gauge; 2]);
}

#[test]
fn a_finer_schema_than_is_kept_is_reduced_where_it_is_read() {
    let fine = Histogram { schema: 9, ..counting(1, &[1, 2, 3]) };
    let sealed = OpenHistogram::start(AT_MS, &fine, None).seal();
    let mut coarse = Histogram::default();
    sealed.histograms().next_into(&mut coarse).unwrap();
    assert!(coarse.is_same(&Histogram { schema: 8, count: 6, ..counting(1, &[3, 3]) }));
}

#[test]
fn bytes_that_are_no_chunk_are_refused() {
    let refused =
        |bytes: &[u8]| SealedHistogram::from_bytes(HistogramKind::Integer, bytes.into()).unwrap_err();
    assert_eq!(refused(&[]), ChunkError::Truncated.into());
    assert_eq!(refused(&[0, 0, 0]), ChunkError::Empty.into());
    assert_eq!(refused(&[0, 1, 0, 0]), ChunkError::Truncated.into());
    let whole = chunks(&[counting(0, &[1]), counting(0, &[2])]).remove(0);
    for end in 0..whole.bytes().len() {
        refused(&whole.bytes()[..end]);
    }
    let again = SealedHistogram::from_bytes(HistogramKind::Integer, whole.bytes().into());
    assert_eq!(again, Ok(whole));
}

proptest! {
    #[test]
    fn hostile_bytes_end_within_the_histograms_they_count(
        count in any::<u16>(),
        flags in any::<u8>(),
        stream in prop::collection::vec(any::<u8>(), 0..300),
        is_float in any::<bool>(),
    ) {
        let kind = if is_float { HistogramKind::Float } else { HistogramKind::Integer };
        let bytes = [&count.to_be_bytes()[..], &[flags], &stream].concat();
        let (mut iter, mut read) = (HistogramIter::new(kind, &bytes), 0);
        let mut histogram = Histogram::default();
        while iter.samples_left() > 0 {
            read += usize::from(iter.next_into(&mut histogram).is_ok());
        }
        prop_assert!(read <= usize::from(count));
    }
}
