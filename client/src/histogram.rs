//! Native histograms as Prometheus has them: what [`Series::histogram`](crate::Series::histogram) takes and a
//! [`Reader`](crate::Reader) gives. Counts and sums are kept bit for bit.
//!
//! ```
//! use silverback_client::Series;
//! use silverback_client::histogram::{Buckets, Histogram, Span};
//!
//! // Six observations: one from 0.5 to 1, three from 1 to 2, two from 2 to 4. Each bucket of an integer histogram
//! // is written as the difference from the one before.
//! let deltas = [1, 2, -1_i64].map(|delta| delta as u64);
//! let positive = Buckets { spans: vec![Span { offset: 0, length: 3 }], words: deltas.into() };
//! let took = Histogram { count: 6, sum_bits: 9.5_f64.to_bits(), positive, ..Histogram::default() };
//! let series = Series::new("request_seconds", [("job", "shop")]).histogram(1_700_000_000_000, took);
//! ```

use silverback_model::histogram::wire::HistogramTimes;

pub use silverback_model::histogram::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint, SCHEMA_MAX, SCHEMA_MIN, Span,
};

/// The message that stands for a histogram of a time in what is written.
pub(crate) fn message(timestamp_ms: i64, histogram: &Histogram) -> Vec<u8> {
    let mut message = Vec::new();
    histogram.put_message(HistogramTimes { timestamp_ms, ..HistogramTimes::default() }, &mut message);
    message
}
