//! A user's bcrypt hash, as the web configuration file has it.

use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer};

use super::shown::A_HASH;
use super::text::{Secret, read_text};

/// What bcrypt has: it checks nothing by another one.
const COSTS: RangeInclusive<u32> = 4..=31;

/// A hash that passwords can be checked by.
#[derive(Debug)]
pub(super) struct PasswordHash {
    pub(super) text: Secret,
    pub(super) cost: u32,
}

impl<'de> Deserialize<'de> for PasswordHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_text(from, A_HASH, |text| {
            let cost = text.parse::<bcrypt::HashParts>().ok()?.get_cost();
            COSTS.contains(&cost).then_some(Self { text: Secret(text), cost })
        })
    }
}
