//! Hostile bytes as a message of a native histogram: reading never panics and takes no more than a histogram may; what
//! was read is written to the same message; and what is valid is stored and shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_model::histogram::{Histogram, OpenHistogram, json};
use silverback_model::limits::HISTOGRAM_BUCKETS_MAX;

fuzz_target!(|bytes: &[u8]| {
    let mut histogram = Histogram::default();
    let Ok(times) = histogram.read_message(bytes) else { return };
    assert!(histogram.positive.words.len() <= HISTOGRAM_BUCKETS_MAX);
    let (mut message, mut again) = (Vec::new(), Vec::new());
    histogram.put_message(times, &mut message);
    let mut read = Histogram::default();
    assert_eq!(read.read_message(&message), Ok(times));
    read.put_message(times, &mut again);
    assert_eq!(message, again);
    if histogram.accept().is_ok() {
        check_stored(times.timestamp_ms, &histogram);
        json::put_histogram(&mut Vec::new(), &histogram);
    }
});

fn check_stored(timestamp_ms: i64, histogram: &Histogram) {
    let sealed = OpenHistogram::start(timestamp_ms, histogram, None).seal();
    let mut read = Histogram::default();
    assert_eq!(sealed.histograms().next_into(&mut read), Ok(timestamp_ms));
    // No threshold that is NaN is equal to itself.
    assert!(read.is_same(histogram) || histogram.zero_threshold.is_nan());
}
