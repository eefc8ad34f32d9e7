//! A native histogram: integer or float, of exponential or custom buckets.
//!
//! Knows what its fields mean, not which values are valid.
use xxhash_rust::xxh3::Xxh3Default;

use super::spans;
use crate::STALE_NAN_BITS;

/// The coarsest exponential schema.
pub const SCHEMA_MIN: i32 = -4;
/// The finest exponential schema.
pub const SCHEMA_MAX: i32 = 8;
/// Finer ones up to this are taken, and reduced to [`SCHEMA_MAX`].
pub const SCHEMA_REDUCED_MAX: i32 = 52;
/// The schema that stands for bounds of the histogram's own.
pub const CUSTOM_BUCKETS_SCHEMA: i32 = -53;

/// What the counts of a histogram are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistogramKind {
    /// Whole numbers; buckets are deltas to the bucket before.
    #[default]
    Integer,
    /// Floats; buckets are absolute.
    Float,
}

/// What a sender says of counter resets. The numbers are remote write's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ResetHint {
    /// Nothing: it has to be found out.
    #[default]
    Unknown = 0,
    /// The counts start over with this histogram.
    Reset = 1,
    /// They go on.
    NotReset = 2,
    /// They are a gauge's, and may fall.
    Gauge = 3,
}

/// Buckets without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The first span's: the index of its first bucket. A later one's: buckets left out since the span before.
    pub offset: i32,
    /// How many buckets.
    pub length: u32,
}

/// One side of a histogram: positive or negative observations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buckets {
    /// Which buckets there are.
    pub spans: Vec<Span>,
    /// One for each bucket. Of an integer histogram an i64, the delta to the bucket before; of a float one the bits
    /// of an f64, the bucket's count.
    pub words: Vec<u64>,
}

/// A native histogram. Counts and sum are bits, so that NaNs stay what they were.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// What the words below are.
    pub kind: HistogramKind,
    /// What its sender says of resets.
    pub hint: ResetHint,
    /// The buckets' resolution, or [`CUSTOM_BUCKETS_SCHEMA`].
    pub schema: i32,
    /// Observations up to this far from zero are in the zero bucket.
    pub zero_threshold: f64,
    /// Bits of the sum of observations; a staleness marker's are [`STALE_NAN_BITS`].
    pub sum_bits: u64,
    /// Observations: a u64, or the bits of an f64.
    pub count: u64,
    /// Those in the zero bucket, likewise.
    pub zero_count: u64,
    /// Buckets above zero, or all of those with custom bounds.
    pub positive: Buckets,
    /// Buckets below zero, from zero on.
    pub negative: Buckets,
    /// Upper bounds of custom buckets; the last bucket's, +Inf, isn't among them.
    pub bounds: Vec<f64>,
}

impl HistogramKind {
    /// A count as a number.
    pub(crate) fn number(self, word: u64) -> f64 {
        match self {
            Self::Integer => word as f64,
            Self::Float => f64::from_bits(word),
        }
    }

    /// Whether a count is zero. A float's may be either zero.
    pub(crate) fn is_zero(self, word: u64) -> bool {
        match self {
            Self::Integer => word == 0,
            Self::Float => f64::from_bits(word) == 0.0,
        }
    }
}

impl Buckets {
    /// No buckets; the memory is kept.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.words.clear();
    }

    /// Each bucket's index and count, as absolute as a float histogram's words are. An integer's may be negative,
    /// where nobody validated it: the word is an i64 then.
    pub fn counts(&self, kind: HistogramKind) -> impl Iterator<Item = (i64, u64)> + '_ {
        spans::counts(kind, &self.spans, self.words.iter().copied())
    }

    /// Copies another's, into the memory that is there.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.spans.clone_from(&other.spans);
        self.words.clone_from(&other.words);
    }
}

impl Histogram {
    /// A staleness marker: where a series ends.
    pub fn stale(kind: HistogramKind) -> Self {
        Self { kind, sum_bits: STALE_NAN_BITS, ..Self::default() }
    }

    /// Nothing of it is left but its memory.
    pub fn clear(&mut self) {
        self.positive.clear();
        self.negative.clear();
        self.bounds.clear();
        self.hint = ResetHint::Unknown;
        (self.kind, self.schema, self.zero_threshold) = (HistogramKind::Integer, 0, 0.0);
        (self.sum_bits, self.count, self.zero_count) = (0, 0, 0);
    }

    /// Becomes a copy of another, in the memory that is there.
    pub fn copy_from(&mut self, other: &Self) {
        self.positive.copy_from(&other.positive);
        self.negative.copy_from(&other.negative);
        self.bounds.clone_from(&other.bounds);
        self.hint = other.hint;
        (self.kind, self.schema, self.zero_threshold) = (other.kind, other.schema, other.zero_threshold);
        (self.sum_bits, self.count, self.zero_count) = (other.sum_bits, other.count, other.zero_count);
    }

    /// The sum of observations.
    pub const fn sum(&self) -> f64 {
        f64::from_bits(self.sum_bits)
    }

    /// Whether this is a staleness marker. Its other fields say nothing then.
    pub const fn is_stale(&self) -> bool {
        self.sum_bits == STALE_NAN_BITS
    }

    /// Whether its buckets have bounds of its own.
    pub const fn has_custom_buckets(&self) -> bool {
        self.schema == CUSTOM_BUCKETS_SCHEMA
    }

    /// How many buckets it has.
    pub const fn buckets(&self) -> usize {
        self.positive.words.len() + self.negative.words.len()
    }

    /// What its lists take of memory, in bytes.
    pub const fn heap_bytes(&self) -> usize {
        let spans = self.positive.spans.capacity() + self.negative.spans.capacity();
        let words = self.positive.words.capacity() + self.negative.words.capacity();
        spans * size_of::<Span>() + (words + self.bounds.capacity()) * size_of::<u64>()
    }

    /// Whether both say the same of the same observations: empty buckets, how spans are cut and hints don't count.
    /// A chunk may have given a histogram empty buckets.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.is_stale() || other.is_stale() {
            return self.sum_bits == other.sum_bits && self.kind == other.kind;
        }
        self.is_of_one_layout(other)
            && (self.sum_bits, self.count, self.zero_count) == (other.sum_bits, other.count, other.zero_count)
            && self.has_same_counts(other, |histogram| &histogram.positive)
            && self.has_same_counts(other, |histogram| &histogram.negative)
    }

    /// A hash of what [`Self::is_same`] compares. Not kept anywhere: it may be another in another version.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = Xxh3Default::new();
        let mut put = |word: u64| hasher.update(&word.to_le_bytes());
        put(self.kind as u64);
        put(self.sum_bits);
        if self.is_stale() {
            return hasher.digest();
        }
        // Zeros of both signs are one threshold.
        [self.schema as u64, (self.zero_threshold + 0.0).to_bits(), self.count, self.zero_count]
            .into_iter()
            .for_each(&mut put);
        for side in [&self.positive, &self.negative] {
            let in_use = side.counts(self.kind).filter(|(_, word)| !self.kind.is_zero(*word));
            in_use.for_each(|(index, word)| [index as u64, word].into_iter().for_each(&mut put));
            // No index: one side ends.
            put(u64::MAX);
        }
        self.bounds.iter().for_each(|bound| put((bound + 0.0).to_bits()));
        hasher.digest()
    }

    /// Kind, schema, threshold and bounds are the same.
    fn is_of_one_layout(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.schema == other.schema
            && self.zero_threshold == other.zero_threshold
            && self.bounds == other.bounds
    }

    fn has_same_counts(&self, other: &Self, side: fn(&Self) -> &Buckets) -> bool {
        let kind = self.kind;
        let in_use = |&(_, word): &(i64, u64)| !kind.is_zero(word);
        side(self).counts(kind).filter(in_use).eq(side(other).counts(kind).filter(in_use))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(spans: &[(i32, u32)], words: &[i64]) -> Histogram {
        let spans = spans.iter().map(|&(offset, length)| Span { offset, length }).collect();
        let words = words.iter().map(|word| *word as u64).collect();
        Histogram { positive: Buckets { spans, words }, ..Histogram::default() }
    }

    #[test]
    fn counts_of_deltas_add_up_over_spans() {
        let histogram = one(&[(-2, 2), (3, 1)], &[5, -2, 4]);
        let counts: Vec<_> = histogram.positive.counts(HistogramKind::Integer).collect();
        assert_eq!(counts, [(-2, 5), (-1, 3), (3, 7)]);
    }

    #[test]
    fn empty_buckets_and_hints_make_no_other_histogram() {
        let plain = one(&[(0, 1), (1, 1)], &[2, 1]);
        let mut padded = one(&[(-1, 4)], &[0, 2, -2, 3]);
        padded.hint = ResetHint::NotReset;
        assert!(plain.is_same(&padded));
        assert!(!plain.is_same(&one(&[(0, 2)], &[2, 1])));
        assert_eq!(plain.fingerprint(), padded.fingerprint());
        assert_ne!(plain.fingerprint(), one(&[(0, 2)], &[2, 1]).fingerprint());
        assert!(!plain.is_same(&Histogram { count: 1, ..plain.clone() }));
        assert!(!plain.is_same(&Histogram { sum_bits: 1, ..plain.clone() }));
        assert!(!plain.is_same(&Histogram { kind: HistogramKind::Float, ..plain.clone() }));
    }

    #[test]
    fn a_staleness_marker_is_one_whatever_else_it_carries() {
        let stale = Histogram::stale(HistogramKind::Integer);
        assert!(stale.is_stale());
        assert!(stale.is_same(&Histogram { count: 7, ..stale.clone() }));
        assert!(!stale.is_same(&Histogram::stale(HistogramKind::Float)));
        assert!(!stale.is_same(&Histogram::default()));
        assert_eq!(stale.fingerprint(), Histogram { count: 7, ..stale.clone() }.fingerprint());
    }

    #[test]
    fn a_copy_and_a_cleared_one_are_what_they_are_made_of() {
        let mut scratch = one(&[(0, 3)], &[1, 1, 1]);
        let other = Histogram { bounds: vec![1.0], ..one(&[(4, 1)], &[2]) };
        scratch.copy_from(&other);
        assert_eq!(scratch, other);
        scratch.clear();
        assert_eq!(scratch, Histogram::default());
    }
}
