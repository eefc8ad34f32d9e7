//! Native histograms in the place of floats: which series are some, and what they count. They go on from sample to sample,
//! as what a service's requests took; the same seed gives the same ones.

use silverback_client::histogram::{Buckets, Histogram, Span};
use silverback_load::random::SplitMix;

/// Buckets of each: those of a service whose requests take between one time and some sixteen of it, of schema 2.
const BUCKETS: usize = 16;
const SCHEMA: i32 = 2;
/// Observations between two samples, at most.
const OBSERVED_MAX: u64 = 8;

/// Which series are histograms.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistogramPart {
    /// Of all series.
    part: f64,
    seed: u64,
}

/// One series' histogram.
#[derive(Debug, Clone)]
pub(super) struct Counting {
    counts: [u64; BUCKETS],
    sum: f64,
    random: SplitMix,
    histogram: Histogram,
}

impl HistogramPart {
    /// That part of all series, from 0 to 1.
    pub(super) fn new(part: f64, seed: u64) -> Self {
        Self { part, seed }
    }

    /// What the series in a slot counts, if it is a histogram: they are spread evenly over all slots.
    pub(super) fn of_slot(&self, slot: usize) -> Option<Counting> {
        let until = |slot: usize| (slot as f64 * self.part).floor();
        (until(slot + 1) > until(slot)).then(|| Counting::new(SplitMix::new(self.seed, slot as u64)))
    }
}

impl Counting {
    fn new(random: SplitMix) -> Self {
        let positive = Buckets { spans: vec![Span { offset: 0, length: BUCKETS as u32 }], words: Vec::new() };
        let histogram = Histogram { schema: SCHEMA, positive, ..Histogram::default() };
        Self { counts: [0; BUCKETS], sum: 0.0, random, histogram }
    }

    /// The next sample.
    pub(super) fn advance(&mut self) -> &Histogram {
        for _ in 0..self.random.next_u64() % (OBSERVED_MAX + 1) {
            // Most of them are quick.
            let bucket = (self.random.unit() * self.random.unit() * BUCKETS as f64) as usize;
            self.counts[bucket] += 1;
            self.sum += (bucket as f64 / f64::from(1 << SCHEMA)).exp2();
        }
        let words = &mut self.histogram.positive.words;
        words.clear();
        let mut before = 0;
        words.extend(
            self.counts.iter().map(|count| count.wrapping_sub(std::mem::replace(&mut before, *count))),
        );
        self.histogram.count = self.counts.iter().sum();
        self.histogram.sum_bits = self.sum.to_bits();
        &self.histogram
    }

    /// The sample that came last.
    pub(super) fn histogram(&self) -> &Histogram {
        &self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_series_are_histograms_and_always_the_same() {
        for (part, of_thousand) in [(0.0, 0), (0.1, 100), (0.333, 333), (1.0, 1000)] {
            let histograms = HistogramPart::new(part, 1);
            let slots = || (0..1000).filter(|slot| histograms.of_slot(*slot).is_some());
            assert_eq!(slots().count(), of_thousand, "{part}");
            assert!(slots().eq(slots()));
        }
    }

    #[test]
    fn a_histogram_counts_on_and_adds_up() {
        let mut counting = HistogramPart::new(1.0, 7).of_slot(3).unwrap();
        let mut before = 0;
        for _ in 0..100 {
            let histogram = counting.advance();
            let mut bucket = 0_u64;
            let buckets = histogram.positive.words.iter().map(|delta| {
                bucket = bucket.wrapping_add(*delta);
                bucket
            });
            assert_eq!(buckets.sum::<u64>(), histogram.count);
            assert!(histogram.count >= before && histogram.count <= before + OBSERVED_MAX);
            before = histogram.count;
        }
        assert!(before > 100);
    }
}
