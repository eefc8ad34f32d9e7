//! Native histograms as messages and as chunks.

use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, HistogramKind, OpenHistogram, ResetHint, Span};

use crate::{START_MS, Seeds};

/// Of `buckets` buckets above zero and one below.
fn integer(buckets: u32, growth: u64) -> Histogram {
    let spans = vec![Span { offset: -3, length: 5 }, Span { offset: 2, length: buckets - 5 }];
    let mut words = vec![0; buckets as usize];
    words[0] = growth;
    Histogram {
        schema: 3,
        zero_threshold: 1e-128,
        sum_bits: (growth as f64 / 3.0).to_bits(),
        zero_count: 1,
        count: growth * u64::from(buckets) + 1 + 2,
        positive: Buckets { spans, words },
        negative: Buckets { spans: vec![Span { offset: 0, length: 1 }], words: vec![2] },
        ..Histogram::default()
    }
}

fn float(growth: u64) -> Histogram {
    let bits = |count: f64| (count * growth as f64).to_bits();
    Histogram {
        kind: HistogramKind::Float,
        hint: ResetHint::Gauge,
        schema: -53,
        count: bits(1.75),
        positive: Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![bits(0.5), bits(1.25)] },
        bounds: vec![-1.0, 0.25, 1.0 / 3.0],
        ..Histogram::default()
    }
}

/// Messages as senders write them.
pub(crate) fn message() -> Seeds {
    let of = |histogram: Histogram| {
        let mut out = Vec::new();
        let times = HistogramTimes { timestamp_ms: START_MS, start_timestamp_ms: START_MS - 1000 };
        histogram.put_message(times, &mut out);
        out
    };
    vec![
        ("custom", of(float(3))),
        ("fine", of(Histogram { schema: 11, ..integer(12, 4) })),
        ("integer", of(integer(20, 7))),
        ("stale", of(Histogram::stale(HistogramKind::Integer))),
    ]
}

/// Chunks as our appender writes them, their kind in front.
pub(crate) fn chunk() -> Seeds {
    let of = |kind: u8, histograms: &[Histogram]| {
        let mut open = OpenHistogram::start(START_MS, &histograms[0], None);
        for (n, histogram) in (1..).zip(&histograms[1..]) {
            assert_eq!(open.append(START_MS + n * 15_000, histogram), None);
        }
        [&[kind], open.seal().bytes()].concat()
    };
    let growing: Vec<_> = (1..9).map(|growth| integer(10 + growth as u32, growth)).collect();
    let mut ending: Vec<_> = (1..5).map(|growth| integer(10, growth)).collect();
    ending.push(Histogram::stale(HistogramKind::Integer));
    let floats: Vec<_> = (1..9).map(float).collect();
    vec![("ending", of(0, &ending)), ("floats", of(1, &floats)), ("growing", of(0, &growing))]
}
