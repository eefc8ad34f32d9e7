//! Why a sample is refused: the reasons, their names in metrics, and counts of them.

use crate::limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

/// One reason. Nothing is dropped in silence: each refused sample is counted under one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefusedReason {
    /// Older than the newest sample of its series.
    OutOfOrder,
    /// The timestamp is stored already with another value.
    Duplicate,
    /// Older than what retention keeps.
    TooOld,
    /// Too far ahead of the node's clock.
    TooFarInFuture,
    /// The series has no `__name__`.
    MissingName,
    /// A label name is empty.
    EmptyLabelName,
    /// A label name stands twice.
    DuplicateLabel,
    /// A label or a symbol isn't UTF-8.
    InvalidUtf8,
    /// More labels than a series may have.
    TooManyLabels,
    /// A label name or value is too long.
    LabelTooLong,
    /// A remote write 2 label refers to no symbol, or the references are odd in number.
    BadSymbolRef,
    /// A remote write 2 series has neither sample nor histogram, or both.
    BadSeriesShape,
    /// A native histogram: not stored.
    NativeHistogram,
    /// OTLP: sums and histograms of what came since the last report.
    DeltaTemporality,
    /// OTLP: a sum or a histogram that doesn't say since when it counts.
    NoTemporality,
    /// OTLP: a data point without a value.
    NoValue,
    /// OTLP: a histogram whose buckets and bounds contradict each other.
    BadBuckets,
    /// OTLP: a metric's name or an attribute's key of which nothing is left.
    BadName,
    /// A line of text that can't be read: counted as one sample, whatever was meant.
    MalformedLine,
    /// The node has as many series as it may: no new ones.
    SeriesLimit,
    /// Memory is short: no new series.
    MemoryLimit,
}

impl RefusedReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of its number.
    pub const ALL: [Self; 21] = [
        Self::OutOfOrder,
        Self::Duplicate,
        Self::TooOld,
        Self::TooFarInFuture,
        Self::MissingName,
        Self::EmptyLabelName,
        Self::DuplicateLabel,
        Self::InvalidUtf8,
        Self::TooManyLabels,
        Self::LabelTooLong,
        Self::BadSymbolRef,
        Self::BadSeriesShape,
        Self::NativeHistogram,
        Self::DeltaTemporality,
        Self::NoTemporality,
        Self::NoValue,
        Self::BadBuckets,
        Self::BadName,
        Self::MalformedLine,
        Self::SeriesLimit,
        Self::MemoryLimit,
    ];

    /// The `reason` label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "out_of_order",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too_old",
            Self::TooFarInFuture => "too_far_in_future",
            Self::MissingName => "missing_name",
            Self::EmptyLabelName => "empty_label_name",
            Self::DuplicateLabel => "duplicate_label",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::TooManyLabels => "too_many_labels",
            Self::LabelTooLong => "label_too_long",
            Self::BadSymbolRef => "bad_symbol_ref",
            Self::BadSeriesShape => "bad_series_shape",
            Self::NativeHistogram => "native_histogram",
            Self::DeltaTemporality => "delta_temporality",
            Self::NoTemporality => "no_temporality",
            Self::NoValue => "no_value",
            Self::BadBuckets => "bad_buckets",
            Self::BadName => "bad_name",
            Self::MalformedLine => "malformed_line",
            Self::SeriesLimit => "series_limit",
            Self::MemoryLimit => "memory_limit",
        }
    }

    /// What a sender is told, in words that he can act on.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfOrder => "out of order sample",
            Self::Duplicate => "duplicate sample for timestamp with another value",
            Self::TooOld => "sample is older than the retention",
            Self::TooFarInFuture => "sample is too far in the future",
            Self::MissingName => "series without a metric name (__name__)",
            Self::EmptyLabelName => "empty label name",
            Self::DuplicateLabel => "label name stands twice",
            Self::InvalidUtf8 => "label is not valid UTF-8",
            Self::TooManyLabels => "series has too many labels",
            Self::LabelTooLong => "label name or value is too long",
            Self::BadSymbolRef => "label reference outside the symbol table",
            Self::BadSeriesShape => "series needs samples or histograms, and not both",
            Self::NativeHistogram => "native histograms are not stored",
            Self::DeltaTemporality => "delta temporality is refused (--otlp-delta): use cumulative",
            Self::NoTemporality => "aggregation temporality is missing: use cumulative",
            Self::NoValue => "data point without a value",
            Self::BadBuckets => "bounds must ascend, with one bucket more than bounds",
            Self::BadName => "no letter or digit is left of the name",
            Self::MalformedLine => "line can't be read",
            Self::SeriesLimit => "no room for new series",
            Self::MemoryLimit => "new series, and memory is short; known series go on",
        }
    }
}

impl RefusedReason {
    /// The limit that it goes by, to be told behind [`Self::text`]: `: 128 at the most`. Empty where it goes
    /// by none, or where the limit is an option of the node's.
    pub fn bound(self) -> String {
        match self {
            Self::TooManyLabels => format!(": {LABELS_MAX} at the most"),
            Self::LabelTooLong => format!(
                ": a name has {LABEL_NAME_BYTES_MAX} bytes at the most, and a value {LABEL_VALUE_BYTES_MAX}"
            ),
            _ => String::new(),
        }
    }
}

/// Refused samples by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusedCounts([u64; RefusedReason::COUNT]);

impl RefusedCounts {
    /// Counts `samples` more under `reason`.
    #[inline]
    pub fn add(&mut self, reason: RefusedReason, samples: u64) {
        self.0[reason as usize] += samples;
    }

    /// Adds what another count holds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The count of one reason.
    pub fn get(&self, reason: RefusedReason) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons that have a count.
    pub fn iter(&self) -> impl Iterator<Item = (RefusedReason, u64)> + '_ {
        RefusedReason::ALL.into_iter().zip(self.0).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_own_number() {
        for (i, reason) in RefusedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }

    #[test]
    fn counts_add_up_over_reasons() {
        let mut counts = RefusedCounts::default();
        counts.add(RefusedReason::OutOfOrder, 2);
        counts.add(RefusedReason::TooOld, 1);
        let mut all = counts;
        all.merge(&counts);
        assert_eq!(all.total(), 6);
        assert_eq!(
            all.iter().collect::<Vec<_>>(),
            [(RefusedReason::OutOfOrder, 4), (RefusedReason::TooOld, 2)]
        );
    }
}
