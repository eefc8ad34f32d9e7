//! A histogram of a coarser schema: each of its buckets has those of 2ⁿ finer ones, whose counts add up.
use super::spans::{spans_of, words};
use super::validate::HistogramError;
use super::value::{Buckets, Histogram, HistogramKind};

impl Histogram {
    /// Makes the buckets those of a coarser schema. The histogram is valid and of exponential buckets.
    pub(crate) fn reduce_to(&mut self, schema: i32) -> Result<(), HistogramError> {
        let by = (self.schema - schema) as u32;
        let positive = reduced(&self.positive, self.kind, by)?;
        self.negative = reduced(&self.negative, self.kind, by)?;
        (self.positive, self.schema) = (positive, schema);
        Ok(())
    }
}

/// The coarser bucket of a finer one. Bucket `i` ends at the i-th bound, so the last of 2ⁿ names them all.
const fn coarser(index: i64, by: u32) -> i64 {
    ((index - 1) >> by) + 1
}

fn reduced(buckets: &Buckets, kind: HistogramKind, by: u32) -> Result<Buckets, HistogramError> {
    let mut counts: Vec<(i64, u64)> = Vec::new();
    for (index, word) in buckets.counts(kind) {
        let index = coarser(index, by);
        match counts.last_mut() {
            Some((last, sum)) if *last == index => *sum = added(kind, *sum, word),
            Some(_) | None => counts.push((index, word)),
        }
    }
    let spans = spans_of(counts.iter().map(|(index, _)| *index)).ok_or(HistogramError::TooLarge)?;
    Ok(Buckets { spans, words: words(kind, counts.into_iter().map(|(_, count)| count)) })
}

fn added(kind: HistogramKind, a: u64, b: u64) -> u64 {
    match kind {
        HistogramKind::Integer => a.wrapping_add(b),
        HistogramKind::Float => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Span;

    fn check(spans: &[(i32, u32)], deltas: &[i64], by: u32, expect_spans: &[(i32, u32)], expect: &[i64]) {
        let spans_of =
            |list: &[(i32, u32)]| list.iter().map(|&(offset, length)| Span { offset, length }).collect();
        let words_of = |list: &[i64]| list.iter().map(|delta| *delta as u64).collect();
        let buckets = Buckets { spans: spans_of(spans), words: words_of(deltas) };
        let expect = Buckets { spans: spans_of(expect_spans), words: words_of(expect) };
        assert_eq!(reduced(&buckets, HistogramKind::Integer, by), Ok(expect));
    }

    #[test]
    fn finer_buckets_add_up_in_coarser_ones() {
        // Of counts 1 2 | 5 3.
        check(&[(1, 4)], &[1, 1, 3, -2], 1, &[(1, 2)], &[3, 5]);
        check(&[(0, 1), (0, 2)], &[1, 1, 1], 1, &[(0, 2)], &[1, 4]);
        check(&[(-3, 2), (6, 1)], &[1, 1, 1], 2, &[(0, 1), (1, 1)], &[3, 0]);
        check(&[(i32::MIN, 1)], &[9], 44, &[(0, 1)], &[9]);
        check(&[], &[], 3, &[], &[]);
    }

    #[test]
    fn a_float_histogram_adds_floats() {
        let bits = |list: [f64; 3]| list.map(f64::to_bits).to_vec();
        let mut histogram = Histogram {
            kind: HistogramKind::Float,
            schema: 9,
            positive: Buckets { spans: vec![Span { offset: 1, length: 3 }], words: bits([0.5, 0.25, 1.0]) },
            ..Histogram::default()
        };
        assert_eq!(histogram.accept(), Ok(()));
        assert_eq!(histogram.schema, 8);
        assert_eq!(histogram.positive.spans, [Span { offset: 1, length: 2 }]);
        assert_eq!(histogram.positive.words, [0.75_f64.to_bits(), 1.0_f64.to_bits()]);
    }
}
