//! Hostile bytes as a chunk of native histograms, the first telling its kind: reading never panics and ends within
//! the histograms counted; and what was read, where it is in order, is written to chunks and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Histogram, HistogramIter, HistogramKind, OpenHistogram, SealedHistogram};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, chunk)) = bytes.split_first() else { return };
    let kind = if first & 1 == 0 { HistogramKind::Integer } else { HistogramKind::Float };
    let mut histograms = Vec::new();
    let mut iter = HistogramIter::new(kind, chunk);
    let counted = iter.samples_left();
    // Enough to see what becomes of them, and few enough to keep.
    while iter.samples_left() > 0 && histograms.len() < 200 {
        let mut histogram = Histogram::default();
        let Ok(timestamp_ms) = iter.next_into(&mut histogram) else { break };
        histograms.push((timestamp_ms, histogram));
    }
    assert!(histograms.len() <= counted);
    drop(SealedHistogram::from_bytes(kind, chunk.into()));
    if !histograms.is_empty() && histograms.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        check_written_again(&histograms);
    }
});

fn check_written_again(histograms: &[(i64, Histogram)]) {
    let (timestamp_ms, first) = &histograms[0];
    let mut open = OpenHistogram::start(*timestamp_ms, first, None);
    let mut sealed = Vec::new();
    for (timestamp_ms, histogram) in &histograms[1..] {
        sealed.extend(open.append(*timestamp_ms, histogram));
    }
    sealed.push(open.seal());
    let mut expect = histograms.iter();
    for chunk in &sealed {
        let mut iter = chunk.histograms();
        while iter.samples_left() > 0 {
            let mut histogram = Histogram::default();
            let read_ms = iter.next_into(&mut histogram).expect("a chunk of ours");
            let (timestamp_ms, put) = expect.next().expect("no more than were put");
            assert_eq!(read_ms, *timestamp_ms);
            assert!(histogram.is_same(put) || put.zero_threshold.is_nan() || has_nan_bound(put), "{put:?}");
            histogram.put_message(HistogramTimes::default(), &mut Vec::new());
        }
    }
    assert_eq!(expect.next(), None);
}

/// No such is equal to itself, and none is valid.
fn has_nan_bound(histogram: &Histogram) -> bool {
    histogram.bounds.iter().any(|bound| bound.is_nan())
}
