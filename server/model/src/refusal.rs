//! Why a sample is refused: the reasons, their names in metrics, and counts of them.

use crate::histogram::HistogramError;
use crate::limits::{HISTOGRAM_BUCKETS_MAX, LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use crate::named;
use crate::named::counted;

/// Makes the enum of the reasons, each with its name in metrics and its words for senders.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal: $text:literal,)+) => {
        named! {
            /// One reason. Nothing is dropped in silence: each refused sample is counted under one of these.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            #[repr(u8)]
            pub enum RefusedReason { $($(#[$doc])+ $variant = $name,)+ }
        }

        impl RefusedReason {
            /// The text for a sender, in words to act on.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

reasons! {
    /// Older than the newest sample of its series.
    OutOfOrder = "out_of_order": "out of order sample",
    /// The timestamp is stored already with another value.
    Duplicate = "duplicate": "duplicate sample for timestamp with another value",
    /// Older than what retention keeps.
    TooOld = "too_old": "sample is older than the retention",
    /// Too far ahead of the node's clock.
    TooFarInFuture = "too_far_in_future": "sample is too far in the future",
    /// The series has no `__name__`.
    MissingName = "missing_name": "series without a metric name (__name__)",
    /// A label name is empty.
    EmptyLabelName = "empty_label_name": "empty label name",
    /// A label name occurs twice.
    DuplicateLabel = "duplicate_label": "label name occurs twice",
    /// A label or a symbol isn't UTF-8.
    InvalidUtf8 = "invalid_utf8": "label is not valid UTF-8",
    /// More labels than a series may have.
    TooManyLabels = "too_many_labels": "series has too many labels",
    /// A label name or value is too long.
    LabelTooLong = "label_too_long": "label name or value is too long",
    /// A remote write 2 label refers to no symbol, or the references are odd in number.
    BadSymbolRef = "bad_symbol_ref": "label reference outside the symbol table",
    /// A remote write 2 series has neither sample nor histogram, or both.
    BadSeriesShape = "bad_series_shape": "series needs samples or histograms, and not both",
    /// A native histogram whose bytes are no message.
    MalformedHistogram = "malformed_histogram": "native histogram can't be read",
    /// A native histogram whose counts are negative, or don't add up.
    HistogramCounts = "histogram_counts": "native histogram's counts are negative or don't add up",
    /// A native histogram whose spans don't ascend, or have other buckets than there are.
    HistogramSpans = "histogram_spans": "native histogram's spans and buckets don't match",
    /// A native histogram whose custom bounds don't ascend, are too few, or have no place in it.
    HistogramBounds = "histogram_bounds": "native histogram's custom bounds contradict it or each other",
    /// A native histogram of a schema that nobody knows.
    HistogramSchema = "histogram_schema": "native histogram's schema must lie between -4 and 52, or be -53",
    /// A native histogram with more than it may have.
    HistogramTooLarge = "histogram_too_large": "native histogram has too many buckets, spans or bounds",
    /// OTLP: sums and histograms of what came since the last report.
    DeltaTemporality = "delta_temporality": "delta temporality is refused (--otlp-delta): use cumulative",
    /// OTLP: a sum or a histogram that doesn't say since when it counts.
    NoTemporality = "no_temporality": "aggregation temporality is missing: use cumulative",
    /// OTLP: a data point without a value.
    NoValue = "no_value": "data point without a value",
    /// OTLP: a histogram whose buckets and bounds contradict each other.
    BadBuckets = "bad_buckets": "bounds must ascend, with one bucket more than bounds",
    /// OTLP: a metric's name or an attribute's key of which nothing is left.
    BadName = "bad_name": "no letter or digit is left of the name",
    /// A line of text that can't be read: counted as one sample, whatever was meant.
    MalformedLine = "malformed_line": "line can't be read",
    /// The node has as many series as it may: no new ones.
    SeriesLimit = "series_limit": "no room for new series",
    /// Memory is short: no new series.
    MemoryLimit = "memory_limit": "new series, and memory is short; known series go on",
}

impl RefusedReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The limit that it goes by, to be appended to [`Self::text`]: `: 128 at most`. Empty where it goes
    /// by none, or where the limit is an option of the node's.
    pub fn bound(self) -> String {
        match self {
            Self::TooManyLabels => format!(": {LABELS_MAX} at most"),
            Self::LabelTooLong => format!(
                ": a name has {LABEL_NAME_BYTES_MAX} bytes at most, and a value {LABEL_VALUE_BYTES_MAX}"
            ),
            Self::HistogramTooLarge => format!(": {HISTOGRAM_BUCKETS_MAX} buckets at most"),
            _ => String::new(),
        }
    }
}

impl From<HistogramError> for RefusedReason {
    fn from(fault: HistogramError) -> Self {
        match fault {
            HistogramError::CountMismatch
            | HistogramError::CountTooSmall
            | HistogramError::NegativeCount
            | HistogramError::NegativeBucket => Self::HistogramCounts,
            HistogramError::NegativeOffset | HistogramError::SpansMismatch => Self::HistogramSpans,
            HistogramError::TooFewBounds
            | HistogramError::BoundsNotAscending
            | HistogramError::InfiniteBound
            | HistogramError::NanBound
            | HistogramError::CustomZeroBucket
            | HistogramError::CustomNegative
            | HistogramError::BoundsOfExponential => Self::HistogramBounds,
            HistogramError::UnknownSchema => Self::HistogramSchema,
            HistogramError::TooLarge => Self::HistogramTooLarge,
        }
    }
}

counted! {
    /// Refused samples by reason.
    pub struct RefusedCounts by RefusedReason;
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
