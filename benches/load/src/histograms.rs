//! Native histograms in the place of floats: integer counts, which grow from scrape to scrape as those of request latencies do.
//! Knows the message, which is the same in both versions of remote write, and neither labels nor requests.

use crate::encode::{Sample, put_bytes, put_integer, put_varint};
use crate::random::SplitMix;

/// Each bucket's bound is 2^(1/8) times the one before.
const SCHEMA: i64 = 3;
/// What client libraries take for zero: 2^-128.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// The lowest bucket's index: its bound is a millisecond, about.
const FIRST_BUCKET: i64 = -80;

/// Histograms of an encoder's series, all of as many buckets.
#[derive(Debug)]
pub(crate) struct Histograms {
    buckets: usize,
    random: SplitMix,
    series: Vec<Counts>,
    // Kept for their memory.
    span: Vec<u8>,
    deltas: Vec<u8>,
}

/// What a series has counted so far.
#[derive(Debug, Default)]
struct Counts {
    buckets: Vec<u64>,
    sum: f64,
}

impl Histograms {
    /// Of so many buckets.
    pub(crate) fn new(buckets: usize, seed: u64) -> Self {
        let random = SplitMix::new(seed, buckets as u64);
        Self { buckets, random, series: Vec::new(), span: Vec::new(), deltas: Vec::new() }
    }

    /// From now on the slot is another series, which has counted nothing.
    pub(crate) fn define(&mut self, slot: usize) {
        let counts = Counts { buckets: vec![0; self.buckets], sum: 0.0 };
        match self.series.get_mut(slot) {
            Some(old) => *old = counts,
            None => self.series.push(counts),
        }
    }

    /// Puts what a series has counted by a sample's time. The sample's value is not used.
    pub(crate) fn put(&mut self, sample: &Sample, out: &mut Vec<u8>) {
        let Self { buckets, random, series, span, deltas } = self;
        let counts = &mut series[sample.series];
        counts.observe(random);
        out.clear();
        put_integer(out, 1, counts.buckets.iter().sum());
        put_double(out, 3, counts.sum);
        put_integer(out, 4, zigzag(SCHEMA));
        put_double(out, 5, ZERO_THRESHOLD);
        // A oneof's zero is sent.
        put_integer(out, 6, 0);
        span.clear();
        put_integer(span, 1, zigzag(FIRST_BUCKET));
        put_integer(span, 2, *buckets as u64);
        put_bytes(out, 11, span);
        deltas.clear();
        let mut before = 0;
        for count in &counts.buckets {
            put_varint(deltas, zigzag(count.wrapping_sub(before).cast_signed()));
            before = *count;
        }
        put_bytes(out, 12, deltas);
        put_integer(out, 15, sample.timestamp_ms.cast_unsigned());
    }
}

impl Counts {
    /// Counts what came since the scrape before: much in the middle, little at both ends.
    fn observe(&mut self, random: &mut SplitMix) {
        let buckets = self.buckets.len();
        for (index, count) in self.buckets.iter_mut().enumerate() {
            let from_the_end = index.min(buckets - 1 - index);
            let most = 1 + (from_the_end * 32 / buckets) as u64;
            let observed = random.next_u64() % (most + 1);
            *count += observed;
            let bound = ((FIRST_BUCKET + index as i64) as f64 / f64::from(1 << SCHEMA)).exp2();
            self.sum += observed as f64 * bound;
        }
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn put_double(out: &mut Vec<u8>, field: u8, value: f64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use silverback_proto::prometheus::{Histogram, histogram};

    use super::*;

    /// The counts of a histogram's buckets.
    fn counts_of(histogram: &Histogram) -> Vec<i64> {
        let deltas = histogram.positive_deltas.iter();
        deltas
            .scan(0, |count, delta| {
                *count += delta;
                Some(*count)
            })
            .collect()
    }

    #[test]
    fn histograms_read_back_and_only_grow() {
        let mut histograms = Histograms::new(40, 1);
        (0..2).for_each(|slot| histograms.define(slot));
        let mut before = [vec![0; 40], vec![0; 40]];
        for (time, series) in (1..30).flat_map(|time| [(time, 1), (time, 0)]) {
            let mut body = Vec::new();
            histograms.put(&Sample { series, timestamp_ms: time, value: 1.0 }, &mut body);
            let read = Histogram::decode(body.as_slice()).expect("a histogram");
            let counts = counts_of(&read);
            assert_eq!((read.timestamp, read.schema, counts.len()), (time, 3, 40));
            assert_eq!((read.positive_spans[0].offset, read.positive_spans[0].length), (-80, 40));
            let count = counts.iter().sum::<i64>().cast_unsigned();
            assert_eq!(read.count, Some(histogram::Count::CountInt(count)));
            assert_eq!(read.zero_count, Some(histogram::ZeroCount::ZeroCountInt(0)));
            assert!(counts.iter().zip(&before[series]).all(|(now, before)| now >= before), "{counts:?}");
            assert!(counts != before[series] && read.sum > 0.0);
            before[series] = counts;
        }
        assert!(before[0][1] > 0 && before[0][20] > 5 * before[0][1], "most in the middle: {:?}", before[0]);
        histograms.define(0);
        assert_eq!(histograms.series[0].buckets, [0; 40]);
    }
}
