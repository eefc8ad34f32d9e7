//! In which order a series' labels are sent. Receivers meet all of them, though the protocol allows one alone.

use serde::{Deserialize, Serialize};

use crate::catalogue::Label;

/// How a series' labels follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LabelOrder {
    /// By name, as the protocol has it
    #[default]
    Sorted,
    /// As vmagent sends them by default, unsorted: the name, the metric's own labels, the target's, the sender's
    AsScraped,
    /// Another order for each series
    Shuffled,
}

impl LabelOrder {
    /// Brings the sorted labels of series number `series` into this order.
    pub fn arrange(self, labels: &mut [Label], series: usize) {
        match self {
            Self::Sorted => {}
            Self::AsScraped => labels.sort_by_key(|(name, _)| match &**name {
                "__name__" => 0,
                "instance" | "job" => 2,
                "cluster" | "env" | "region" | "zone" => 3,
                _own => 1,
            }),
            Self::Shuffled => {
                let mut random = series as u64 + 1;
                for end in (2..=labels.len()).rev() {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    labels.swap(end - 1, (random >> 33) as usize % end);
                }
            }
        }
    }
}
