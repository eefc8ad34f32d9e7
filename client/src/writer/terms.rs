//! What a stream must keep to, as the node sent it.

use silverback_proto::v1;

use crate::refusal::Durability;

/// Batches that this side has in flight at most, whatever the node allows.
pub(crate) const BATCHES_IN_FLIGHT_MAX: usize = 64;

/// The terms of a stream. What the node left out is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub durability: Durability,
    pub batches_in_flight_max: usize,
    pub message_bytes_max: usize,
    pub batch_samples_max: usize,
    pub refs_max: usize,
    pub definition_bytes_max: u64,
    pub native_histograms: bool,
}

impl Terms {
    pub(super) fn from_message(terms: &v1::Terms) -> Self {
        let told = |limit: u32| if limit == 0 { u32::MAX as usize } else { limit as usize };
        Self {
            durability: Durability::from_message(terms.durability()),
            batches_in_flight_max: told(terms.batches_in_flight_max).min(BATCHES_IN_FLIGHT_MAX),
            message_bytes_max: told(terms.message_bytes_max),
            batch_samples_max: told(terms.batch_samples_max),
            refs_max: told(terms.refs_max),
            definition_bytes_max: match terms.definition_bytes_max {
                0 => u64::MAX,
                bytes => bytes,
            },
            native_histograms: terms.native_histograms,
        }
    }
}
