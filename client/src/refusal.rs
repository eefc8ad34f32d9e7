//! What a node did with what it was sent: what an acknowledgement means, and what it refused and why.

use silverback_model::named;
use silverback_proto::v1;

use crate::labels::Labels;

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing was sent yet, or the node doesn't say.
    #[default]
    Unknown,
    /// On disk, synced.
    Disk,
    /// In memory; on disk within a second.
    Memory,
}

impl Durability {
    pub(crate) fn from_message(durability: v1::Durability) -> Self {
        match durability {
            v1::Durability::Unspecified => Self::Unknown,
            v1::Durability::Disk => Self::Disk,
            v1::Durability::Memory => Self::Memory,
        }
    }
}

/// Samples of one series that were not stored, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesRejected {
    /// The series' labels, names ascending.
    pub labels: Labels,
    /// Why.
    pub reason: RefusalReason,
    /// How many; 0 where the series itself was refused before it had a sample.
    pub samples: u64,
}

/// Makes the enum of the protocol's reasons, and reads them.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        named! {
            /// Why a sample or a series is refused.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub enum RefusalReason {
                /// One that this client doesn't know.
                Unknown = "unknown",
                $($(#[$doc])+ $variant = $name,)+
            }
        }

        impl RefusalReason {
            pub(crate) fn from_message(reason: v1::RefusalReason) -> Self {
                match reason {
                    v1::RefusalReason::Unspecified => Self::Unknown,
                    $(v1::RefusalReason::$variant => Self::$variant,)+
                }
            }
        }
    };
}

reasons! {
    /// Older than the newest sample of its series.
    OutOfOrder = "out_of_order",
    /// The timestamp is stored already, with another value.
    Duplicate = "duplicate",
    /// Older than what retention keeps.
    TooOld = "too_old",
    /// Too far ahead of the node's clock.
    TooFarInFuture = "too_far_in_future",
    /// The series has no `__name__`.
    MissingName = "missing_name",
    /// A label name is empty.
    EmptyLabelName = "empty_label_name",
    /// A label name occurs twice.
    DuplicateLabel = "duplicate_label",
    /// A label isn't UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// More labels than a series may have.
    TooManyLabels = "too_many_labels",
    /// A label name or value is too long.
    LabelTooLong = "label_too_long",
    /// The node has as many series as it may: no new ones. Worth another try later.
    SeriesLimit = "series_limit",
    /// Memory is short: no new series. Worth another try later.
    MemoryLimit = "memory_limit",
    /// A native histogram whose bytes are no message.
    MalformedHistogram = "malformed_histogram",
    /// A native histogram whose counts are negative, or don't add up.
    HistogramCounts = "histogram_counts",
    /// A native histogram whose spans don't ascend, or have other buckets than there are.
    HistogramSpans = "histogram_spans",
    /// A native histogram whose custom bounds don't ascend, are too few, or have no place in it.
    HistogramBounds = "histogram_bounds",
    /// A native histogram of a schema that isn't between -4 and 52, nor -53.
    HistogramSchema = "histogram_schema",
    /// A native histogram with more buckets, spans or custom bounds than it may have.
    HistogramTooLarge = "histogram_too_large",
}

impl std::fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_the_protocol_has_its_name() {
        let mut number = 1;
        while let Ok(message) = v1::RefusalReason::try_from(number) {
            let name = RefusalReason::from_message(message).to_string();
            let in_protocol = message.as_str_name().strip_prefix("REFUSAL_REASON_").unwrap();
            assert_eq!(name, in_protocol.to_lowercase());
            number += 1;
        }
        assert_eq!(number, 19, "a reason more than the enum has");
    }
}
