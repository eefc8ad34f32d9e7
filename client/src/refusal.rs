//! What a node did with what it was sent: what an acknowledgement means, and what it refused and why.

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
pub struct SeriesRefusal {
    /// The series' labels, names ascending.
    pub labels: Labels,
    /// Why.
    pub reason: RefusalReason,
    /// How many; 0 where the series itself was refused before it had a sample.
    pub samples: u64,
}

/// Why a sample or a series is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalReason {
    /// One that this client doesn't know.
    Unknown,
    /// Older than the newest sample of its series.
    OutOfOrder,
    /// The timestamp is stored already, with another value.
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
    /// A label isn't UTF-8.
    InvalidUtf8,
    /// More labels than a series may have.
    TooManyLabels,
    /// A label name or value is too long.
    LabelTooLong,
    /// The node has as many series as it may: no new ones. Worth another try later.
    SeriesLimit,
    /// Memory is short: no new series. Worth another try later.
    MemoryLimit,
}

impl RefusalReason {
    /// As the node's metrics name it: `out_of_order`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
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
            Self::SeriesLimit => "series_limit",
            Self::MemoryLimit => "memory_limit",
        }
    }

    pub(crate) fn from_message(reason: v1::RefusalReason) -> Self {
        match reason {
            v1::RefusalReason::Unspecified => Self::Unknown,
            v1::RefusalReason::OutOfOrder => Self::OutOfOrder,
            v1::RefusalReason::Duplicate => Self::Duplicate,
            v1::RefusalReason::TooOld => Self::TooOld,
            v1::RefusalReason::TooFarInFuture => Self::TooFarInFuture,
            v1::RefusalReason::MissingName => Self::MissingName,
            v1::RefusalReason::EmptyLabelName => Self::EmptyLabelName,
            v1::RefusalReason::DuplicateLabel => Self::DuplicateLabel,
            v1::RefusalReason::InvalidUtf8 => Self::InvalidUtf8,
            v1::RefusalReason::TooManyLabels => Self::TooManyLabels,
            v1::RefusalReason::LabelTooLong => Self::LabelTooLong,
            v1::RefusalReason::SeriesLimit => Self::SeriesLimit,
            v1::RefusalReason::MemoryLimit => Self::MemoryLimit,
        }
    }
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
        assert_eq!(number, 13, "a reason more than the enum has");
    }
}
