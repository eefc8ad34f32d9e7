//! What there is of a range of two hours, in short: by this it is seen whether a block that was written of the range has it
//! all. Two memories that say the same have the same number of samples of each series, and not only of all: a series
//! that went doesn't stand for samples that came to another one. Chunks don't matter, nor which shard has a series.

use silverback_model::SeriesId;

/// Series and how many samples each has, summed up: equal sums are equal series and numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldSamples(pub u64);

impl HeldSamples {
    /// Adds a series with so many samples; each series once.
    pub fn add(&mut self, series: SeriesId, samples: u64) {
        if samples > 0 {
            self.0 = self.0.wrapping_add(mixed(series, samples));
        }
    }

    /// Adds those of another shard.
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// SplitMix64's finalizer: an id is a hash, and a number of samples isn't.
fn mixed(SeriesId(id): SeriesId, samples: u64) -> u64 {
    let mut mixed = (id as u64) ^ ((id >> 64) as u64) ^ samples.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(series: &[(u128, u64)]) -> HeldSamples {
        let mut held = HeldSamples::default();
        series.iter().for_each(|(id, samples)| held.add(SeriesId(*id), *samples));
        held
    }

    #[test]
    fn what_came_to_one_series_is_told_from_what_went_of_another() {
        let all = held(&[(1, 10), (2, 20), (1 << 90, 1)]);
        assert_eq!(all, held(&[(1 << 90, 1), (2, 20), (1, 10)]));
        for other in [
            &[(1, 11), (2, 19), (1 << 90, 1)][..],
            &[(1, 10), (2, 20), (3 << 90, 1)],
            &[(1, 20), (2, 10), (1 << 90, 1)],
            &[(1, 10), (2, 20)],
            &[],
        ] {
            assert_ne!(all, held(other));
        }
        let mut parts = held(&[(2, 20)]);
        parts.merge(held(&[(1 << 90, 1), (1, 10), (7, 0)]));
        assert_eq!(parts, all);
    }
}
