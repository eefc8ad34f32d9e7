//! Spans as the bucket indexes that they stand for, and as sets of these.
use super::value::{HistogramKind, Span};

/// The indexes of the buckets of spans, in order.
#[derive(Debug, Clone)]
pub(crate) struct BucketIndexes<'a> {
    spans: std::slice::Iter<'a, Span>,
    /// Of the span that is read.
    left: u32,
    next: i64,
}

impl<'a> BucketIndexes<'a> {
    pub(crate) fn new(spans: &'a [Span]) -> Self {
        Self { spans: spans.iter(), left: 0, next: 0 }
    }
}

impl Iterator for BucketIndexes<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        while self.left == 0 {
            let span = self.spans.next()?;
            self.next += i64::from(span.offset);
            self.left = span.length;
        }
        self.left -= 1;
        self.next += 1;
        Some(self.next - 1)
    }
}

/// How many buckets spans have.
pub(crate) fn bucket_count(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.length)).sum()
}

/// The spans of ascending indexes, none longer than it must be. `None` where a gap is too wide for a span.
pub(crate) fn spans_of(indexes: impl Iterator<Item = i64>) -> Option<Vec<Span>> {
    let mut spans: Vec<Span> = Vec::new();
    let mut next = 0;
    for index in indexes {
        match spans.last_mut() {
            Some(last) if index == next => last.length += 1,
            Some(_) | None => spans.push(Span { offset: i32::try_from(index - next).ok()?, length: 1 }),
        }
        next = index + 1;
    }
    Some(spans)
}

/// The indexes of both, each once, in order.
pub(crate) fn union<'a>(a: &'a [Span], b: &'a [Span]) -> impl Iterator<Item = i64> + 'a {
    let (mut a, mut b) = (BucketIndexes::new(a).peekable(), BucketIndexes::new(b).peekable());
    std::iter::from_fn(move || {
        let next = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (Some(index), None) | (None, Some(index)) => *index,
            (None, None) => return None,
        };
        a.next_if_eq(&next);
        b.next_if_eq(&next);
        Some(next)
    })
}

/// Each bucket's index and count, as absolute as a float histogram's words are.
pub(crate) fn counts<'a>(
    kind: HistogramKind,
    spans: &'a [Span],
    words: impl Iterator<Item = u64> + 'a,
) -> impl Iterator<Item = (i64, u64)> + 'a {
    let mut running = 0_u64;
    BucketIndexes::new(spans).zip(words).map(move |(index, word)| match kind {
        HistogramKind::Integer => {
            running = running.wrapping_add(word);
            (index, running)
        }
        HistogramKind::Float => (index, word),
    })
}

/// Absolute counts as a histogram of this kind writes them.
pub(crate) fn words(kind: HistogramKind, counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut before = 0_u64;
    let word = |count: u64| match kind {
        HistogramKind::Integer => count.wrapping_sub(std::mem::replace(&mut before, count)),
        HistogramKind::Float => count,
    };
    counts.map(word).collect()
}

/// Words for the buckets of `to`, which has all of those of `from`: what `from` lacks is empty.
pub(crate) fn spread(kind: HistogramKind, from: &[Span], from_words: &[u64], to: &[Span]) -> Vec<u64> {
    let mut have = counts(kind, from, from_words.iter().copied()).peekable();
    let count = |index| have.next_if(|(own, _)| *own == index).map_or(0, |(_, count)| count);
    words(kind, BucketIndexes::new(to).map(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &[(i32, u32)]) -> Vec<Span> {
        spans.iter().map(|&(offset, length)| Span { offset, length }).collect()
    }

    #[test]
    fn indexes_skip_gaps_and_empty_spans() {
        let of = |list: &[(i32, u32)]| BucketIndexes::new(&spans(list)).collect::<Vec<_>>();
        assert_eq!(of(&[(-2, 2), (1, 1), (0, 1)]), [-2, -1, 1, 2]);
        assert_eq!(of(&[(3, 0), (2, 1), (1, 0), (1, 1)]), [5, 8]);
        assert_eq!(of(&[]), [] as [i64; 0]);
    }

    #[test]
    fn a_union_has_each_index_once_in_as_few_spans_as_it_needs() {
        let (a, b) = (spans(&[(0, 2), (2, 1), (5, 1)]), spans(&[(1, 3), (3, 1)]));
        assert_eq!(union(&a, &b).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 7, 10]);
        assert_eq!(spans_of(union(&a, &b)), Some(spans(&[(0, 5), (2, 1), (2, 1)])));
    }

    #[test]
    fn a_gap_that_no_span_can_hold_is_none() {
        let far = [Span { offset: i32::MAX, length: 0 }, Span { offset: i32::MAX, length: 1 }];
        assert_eq!(spans_of(BucketIndexes::new(&far)), None);
    }

    #[test]
    fn buckets_spread_over_more_spans_keep_their_counts() {
        let (from, to) = (spans(&[(0, 2), (3, 1)]), spans(&[(-1, 4), (2, 2)]));
        let words = [4, 1, (-2_i64) as u64];
        let spread_deltas = spread(HistogramKind::Integer, &from, &words, &to);
        assert_eq!(spread_deltas.iter().map(|word| *word as i64).collect::<Vec<_>>(), [0, 4, 1, -5, 3, -3]);
        assert_eq!(spread(HistogramKind::Float, &from, &[7, 8, 9], &to), [0, 7, 8, 0, 9, 0]);
    }
}
