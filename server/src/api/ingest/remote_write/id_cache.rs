//! Remembers the series id of label sets that were seen before in a remote write 2 request, so
//! that the labels needn't be put together again. It knows fingerprints and ids, no labels.

use silverback_model::{
    SeriesId,
    gorilla::prefetch,
    limits::{ID_CACHE_ENTRIES_MAX, ID_CACHE_ENTRY_BYTES},
};

/// A bounded map from the fingerprint of a label set, in the order of its references, to the
/// series id. An entry says too that these labels were checked and are canonical in this order.
/// An entry may be pushed out by another at any time.
#[derive(Debug)]
pub struct IdCache {
    /// Four neighbours are one bucket, newest first. A fingerprint of zero is no entry.
    entries: Vec<(u128, SeriesId)>,
    /// Entries pushed out since it grew last.
    displaced: usize,
    entries_max: usize,
}

const EMPTY: (u128, SeriesId) = (0, SeriesId(0));
const _: () = assert!(size_of::<(u128, SeriesId)>() == ID_CACHE_ENTRY_BYTES);
const BUCKET: usize = 4;
const ENTRIES_MIN: usize = 1 << 12;
const GROWTH: usize = 4;

impl Default for IdCache {
    fn default() -> Self {
        Self::with_entries_max(ID_CACHE_ENTRIES_MAX)
    }
}

impl IdCache {
    /// A cache of at most `entries_max` entries, rounded to a power of two.
    pub(crate) fn with_entries_max(entries_max: usize) -> Self {
        let entries_max = entries_max.max(ENTRIES_MIN).next_power_of_two();
        Self { entries: vec![EMPTY; ENTRIES_MIN], displaced: 0, entries_max }
    }

    /// The id that was put in for this fingerprint.
    #[inline]
    pub(crate) fn get(&self, fingerprint: u128) -> Option<SeriesId> {
        let bucket = self.bucket(fingerprint);
        let entry = self.entries[bucket..bucket + BUCKET].iter().find(|entry| entry.0 == fingerprint)?;
        (fingerprint != EMPTY.0).then_some(entry.1)
    }

    /// Brings the place of a fingerprint towards the core.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: u128) {
        let bucket = self.bucket(fingerprint);
        // A bucket is two cache lines; the older half is seldom needed.
        prefetch(&self.entries[bucket]);
    }

    /// Puts an id in; the oldest entry of a full bucket goes.
    pub(crate) fn insert(&mut self, fingerprint: u128, id: SeriesId) {
        if self.displaced > self.entries.len() / 16 && self.entries.len() < self.entries_max {
            self.grow();
        }
        let bucket = self.bucket(fingerprint);
        let bucket = &mut self.entries[bucket..bucket + BUCKET];
        self.displaced += usize::from(bucket[BUCKET - 1].0 != EMPTY.0);
        bucket.copy_within(..BUCKET - 1, 1);
        bucket[0] = (fingerprint, id);
    }

    /// Entries that it has room for now.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Starts anew, larger: to fill it again costs each series one slow look, while to move the
    /// entries would cost one request all of it.
    #[cold]
    fn grow(&mut self) {
        let len = (self.entries.len() * GROWTH).min(self.entries_max);
        self.entries = vec![EMPTY; len];
        self.displaced = 0;
    }

    #[inline]
    fn bucket(&self, fingerprint: u128) -> usize {
        fingerprint as usize & (self.entries.len() - 1) & !(BUCKET - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(i: u128) -> u128 {
        (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ i << 64
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_pushed_out() {
        let mut cache = IdCache::default();
        let same_bucket = |i: u128| 8 + (i << 64);
        for i in 0..4 {
            cache.insert(same_bucket(i), SeriesId(i));
        }
        assert!((0..4).all(|i| cache.get(same_bucket(i)) == Some(SeriesId(i))));
        cache.insert(same_bucket(4), SeriesId(4));
        assert_eq!(cache.get(same_bucket(0)), None);
        assert!((1..5).all(|i| cache.get(same_bucket(i)) == Some(SeriesId(i))));
        assert_eq!(cache.get(9), None);
    }

    #[test]
    fn no_entry_is_found_for_the_fingerprint_of_an_empty_place() {
        assert_eq!(IdCache::default().get(0), None);
    }

    /// Puts in, round after round, what isn't found, and counts that in the last round.
    fn misses_when_seen_in_turns(cache: &mut IdCache, series: u128) -> usize {
        let mut misses = 0;
        for _round in 0..20 {
            misses = 0;
            for i in 0..series {
                if cache.get(fingerprint(i)).is_none() {
                    cache.insert(fingerprint(i), SeriesId(i));
                    misses += 1;
                }
            }
        }
        misses
    }

    #[test]
    fn it_grows_until_all_that_comes_again_is_known_but_not_beyond_its_limit() {
        let mut cache = IdCache::with_entries_max(1 << 16);
        assert!(misses_when_seen_in_turns(&mut cache, 6_000) < 60);
        misses_when_seen_in_turns(&mut cache, 200_000);
        assert_eq!(cache.capacity(), 1 << 16);
    }
}
