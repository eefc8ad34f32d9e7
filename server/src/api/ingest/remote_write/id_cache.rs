//! Remembers the series id of label sets that were seen before, so that their labels needn't be checked, sorted and
//! put together again. It knows fingerprints and ids, no labels.
//!
//! A fingerprint is the tenant's own hash of all that distinguishes a label set from others: in remote write 1 the
//! bytes of its labels as they came, in remote write 2 sums over its symbols. It has 128 bits, and a key that nobody
//! outside knows, as the series id itself has: two sets that are taken for one here would as well be taken for one
//! series without the cache.

use super::labels::LabelArrangement;
use crate::api::ingest::known_metadata::Period;
use silverback_model::{
    SeriesId,
    gorilla::prefetch,
    limits::{ID_CACHE_ENTRIES_MAX, ID_CACHE_ENTRY_BYTES},
};

/// A bounded map from the fingerprint of a label set, as it came, to the series id. An entry says too that these
/// labels were checked, whether they are canonical as they came, and in which period their metadata was passed on last.
/// An entry may be pushed out by another at any time.
#[derive(Debug)]
pub struct IdCache {
    /// Entries, newest first: a key each and then the id, where that isn't the fingerprint itself. As many as there may
    /// be, zeroed by the kernel as they are touched: so it grows in place, and no page is taken twice.
    buckets: Vec<Bucket>,
    /// How many of these are used.
    used: usize,
    /// Looked for since it grew last, or since as many were as it has slots.
    looked_for: usize,
    /// Pushed out in that time.
    displaced: usize,
    /// That found their bucket full when it could grow no more.
    crowded: usize,
}

/// Two cache lines.
type Bucket = [u128; SLOTS];

/// What is known of a label set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownLabels {
    /// Of its series.
    pub id: SeriesId,
    /// Of its labels.
    pub arrangement: LabelArrangement,
}

const SLOTS: usize = 8;
const EMPTY: Bucket = [0; SLOTS];
/// A key is the fingerprint but for its lowest bits, which follow from the bucket's place: these say what comes with
/// it, ...
const FLAGS: u128 = 3;
/// ... and the others of them when its metadata was passed on.
const PERIOD_SHIFT: u32 = FLAGS.trailing_ones();
const LOW: u128 = FLAGS | (Period::MAX as u128) << PERIOD_SHIFT;
/// Labels in order whose id is the fingerprint.
const ITSELF: u128 = 0;
/// The id is in the next slot.
const IN_ORDER: u128 = 1;
/// The same of labels that aren't in order.
const REARRANGED: u128 = 2;
const _: () = assert!(2 * size_of::<u128>() == ID_CACHE_ENTRY_BYTES);

const BUCKET_ENTRIES: usize = SLOTS / 2;
const BUCKETS_MIN: usize = 1 << 10;
const _: () = assert!(BUCKETS_MIN > LOW as usize, "the place tells the bits that a key leaves out");
const GROWTH: usize = 2;
/// It grows when more than one in so many of its slots had an entry pushed out, within as many look-ups as it has slots.
const DISPLACED_SHARE: usize = 32;
/// Of those that find their bucket full when it can't grow any more, one in so many is let in: where more come in turns
/// than there is room for, some stay known.
const CROWDED_SHARE: usize = 7;

impl Default for IdCache {
    fn default() -> Self {
        Self::with_entries_max(ID_CACHE_ENTRIES_MAX)
    }
}

impl IdCache {
    /// A cache of at most `entries_max` entries with an id of their own, rounded to a power of two.
    pub(crate) fn with_entries_max(entries_max: usize) -> Self {
        let buckets_max = (entries_max / BUCKET_ENTRIES).max(BUCKETS_MIN).next_power_of_two();
        Self { buckets: vec![EMPTY; buckets_max], used: BUCKETS_MIN, looked_for: 0, displaced: 0, crowded: 0 }
    }

    /// What was put in for this fingerprint.
    #[inline]
    pub(crate) fn get(&mut self, fingerprint: u128) -> Option<KnownLabels> {
        self.get_with_period(fingerprint).map(|(known, _period)| known)
    }

    /// The same, and the period in which its metadata was passed on last.
    #[inline]
    pub(crate) fn get_with_period(&mut self, fingerprint: u128) -> Option<(KnownLabels, Option<Period>)> {
        self.looked_for += 1;
        let bucket = &self.buckets[self.place(fingerprint)];
        let at = find(bucket, key(fingerprint))?;
        let known = known(bucket[at] & FLAGS, fingerprint, bucket.get(at + 1))?;
        Some((known, Period::of_bits((bucket[at] & LOW) >> PERIOD_SHIFT)))
    }

    /// The metadata of this label set was passed on, if it is still known.
    pub(crate) fn note_period(&mut self, fingerprint: u128, period: Period) {
        let place = self.place(fingerprint);
        let bucket = &mut self.buckets[place];
        if let Some(at) = find(bucket, key(fingerprint)) {
            bucket[at] = bucket[at] & !(LOW & !FLAGS) | period.bits() << PERIOD_SHIFT;
        }
    }

    /// Brings the place of a fingerprint towards the core.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: u128) {
        // The older half of a bucket, its second line, is seldom needed.
        prefetch(&self.buckets[self.place(fingerprint)][0]);
    }

    /// Puts a label set in; the oldest entry of a full bucket goes.
    pub(crate) fn insert(&mut self, fingerprint: u128, KnownLabels { id, arrangement }: KnownLabels) {
        self.grow_if_crowded();
        let flags = match arrangement {
            LabelArrangement::InOrder if id.0 == fingerprint => ITSELF,
            LabelArrangement::InOrder => IN_ORDER,
            LabelArrangement::Rearranged => REARRANGED,
        };
        let width = if flags == ITSELF { 1 } else { 2 };
        let place = self.place(fingerprint);
        if self.buckets[place][SLOTS - width..].iter().any(|slot| *slot > 0) {
            self.displaced += 1;
            self.crowded += usize::from(self.used == self.buckets.len());
            if !self.crowded.is_multiple_of(CROWDED_SHARE) {
                return;
            }
        }
        let bucket = &mut self.buckets[place];
        bucket.copy_within(..SLOTS - width, width);
        bucket[width - 1] = id.0;
        bucket[0] = key(fingerprint) | flags;
    }

    /// How many slots entries take, one that was put in twice both times.
    #[cfg(test)]
    pub(crate) fn slots_taken(&self) -> usize {
        self.buckets.iter().flatten().filter(|slot| **slot > 0).count()
    }

    /// The memory that it takes now, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.used * size_of::<Bucket>()
    }

    /// Uses more buckets where too many are pushed out. Half of the entries are in their place then, too. The others
    /// cost their series one slow look each, while to move them would cost one request all of it; they are nobody's
    /// until they are pushed out, because the bits that a key leaves out are as many as the least table's places tell.
    fn grow_if_crowded(&mut self) {
        let slots = self.used * SLOTS;
        if self.displaced * DISPLACED_SHARE > slots && self.used < self.buckets.len() {
            self.used *= GROWTH;
        } else if self.looked_for < slots {
            return;
        }
        (self.looked_for, self.displaced) = (0, 0);
    }

    /// By the lowest bits, so that none of them need be kept.
    #[inline]
    fn place(&self, fingerprint: u128) -> usize {
        fingerprint as usize & (self.used - 1)
    }
}

#[inline]
fn key(fingerprint: u128) -> u128 {
    fingerprint & !LOW
}

/// The slot with a key.
#[inline]
fn find(bucket: &Bucket, key: u128) -> Option<usize> {
    let mut at = 0;
    while let Some(&slot) = bucket.get(at) {
        if slot & !LOW == key && key > 0 {
            return Some(at);
        }
        at += if slot & FLAGS == ITSELF { 1 } else { 2 };
    }
    None
}

/// What the slots of an entry say. An entry that was pushed out by half has no id any more.
#[inline]
fn known(flags: u128, fingerprint: u128, next: Option<&u128>) -> Option<KnownLabels> {
    let arrangement =
        if flags == REARRANGED { LabelArrangement::Rearranged } else { LabelArrangement::InOrder };
    let id = if flags == ITSELF { fingerprint } else { *next? };
    Some(KnownLabels { id: SeriesId(id), arrangement })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ingest::known_metadata::KnownMetadata;

    fn fingerprint(i: u128) -> u128 {
        (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ i << 64
    }

    fn in_order(id: u128) -> KnownLabels {
        KnownLabels { id: SeriesId(id), arrangement: LabelArrangement::InOrder }
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_pushed_out() {
        let same_bucket = |i: u128| 0x800 + (i << 64);
        // With an id of its own an entry takes twice as much.
        for (room, id) in [(8, same_bucket as fn(u128) -> u128), (4, |i| i)] {
            let mut cache = IdCache::default();
            let known = |i| Some(in_order(id(i)));
            for i in 0..room {
                cache.insert(same_bucket(i), in_order(id(i)));
            }
            assert!((0..room).all(|i| cache.get(same_bucket(i)) == known(i)));
            cache.insert(same_bucket(room), in_order(id(room)));
            assert_eq!(cache.get(same_bucket(0)), None);
            assert!((1..=room).all(|i| cache.get(same_bucket(i)) == known(i)));
        }
    }

    #[test]
    fn an_entry_that_is_pushed_out_by_half_is_not_known() {
        let mut cache = IdCache::default();
        let same_bucket = |i: u128| 0x800 + (i << 64);
        cache.insert(same_bucket(0), in_order(1));
        (1..8).for_each(|i| cache.insert(same_bucket(i), in_order(same_bucket(i))));
        assert_eq!(cache.get(same_bucket(0)), None);
        assert!((1..8).all(|i| cache.get(same_bucket(i)) == Some(in_order(same_bucket(i)))));
    }

    #[test]
    fn all_bits_of_a_fingerprint_count_and_how_the_labels_come_is_kept_beside_them() {
        let one = fingerprint(7);
        for (id, arrangement) in [
            (7, LabelArrangement::InOrder),
            (7, LabelArrangement::Rearranged),
            (one, LabelArrangement::InOrder),
        ] {
            let (mut cache, known) = (IdCache::default(), KnownLabels { id: SeriesId(id), arrangement });
            cache.insert(one, known);
            assert_eq!(cache.get(one), Some(known));
            for bit in 0..128 {
                assert_eq!(cache.get(one ^ 1 << bit), None, "bit {bit}");
            }
            cache.insert(one ^ 1, in_order(8));
            assert_eq!((cache.get(one ^ 1), cache.get(one)), (Some(in_order(8)), Some(known)));
        }
    }

    #[test]
    fn the_period_of_metadata_is_kept_beside_the_labels() {
        let (one, mut known) = (fingerprint(7), KnownMetadata::default());
        for (id, arrangement) in [
            (7, LabelArrangement::InOrder),
            (7, LabelArrangement::Rearranged),
            (one, LabelArrangement::InOrder),
        ] {
            let (mut cache, labels) = (IdCache::default(), KnownLabels { id: SeriesId(id), arrangement });
            cache.note_period(one, known.period());
            assert_eq!(cache.get_with_period(one), None, "it isn't known");
            cache.insert(one, labels);
            assert_eq!(cache.get_with_period(one), Some((labels, None)));
            for _again in 0..200 {
                known.forget();
                cache.note_period(one, known.period());
                assert_eq!(cache.get_with_period(one), Some((labels, Some(known.period()))));
            }
        }
    }

    #[test]
    fn what_it_knew_before_it_grew_is_known_by_its_own_fingerprint_alone() {
        let mut cache = IdCache::with_entries_max(1 << 16);
        let smallest = cache.bytes();
        let mut put_in = 0;
        while cache.bytes() == smallest {
            cache.insert(fingerprint(put_in), in_order(put_in));
            put_in += 1;
        }
        let found = |cache: &mut IdCache, i| cache.get(fingerprint(i)).map(|known| known.id.0 == i);
        let kept = (0..put_in).filter(|i| found(&mut cache, *i) == Some(true)).count();
        assert!(kept > put_in as usize / 3, "{kept} of {put_in} are known");
        assert!((0..put_in).all(|i| found(&mut cache, i) != Some(false)));
        // Of each place's entries those of the other half aren't taken for others'.
        for i in 0..put_in {
            for bit in 0..20 {
                assert_eq!(cache.get(fingerprint(i) ^ 1 << bit), None, "{i} but for bit {bit}");
            }
        }
    }

    #[test]
    fn no_entry_is_found_for_the_fingerprint_of_an_empty_place() {
        let mut cache = IdCache::default();
        for fingerprint in 0..4 {
            assert_eq!(cache.get(fingerprint), None);
            cache.insert(fingerprint, in_order(fingerprint));
            assert_eq!(cache.get(fingerprint), None);
        }
    }

    /// Puts in, round after round, what isn't found, and counts that in the last round.
    fn misses_when_seen_in_turns(cache: &mut IdCache, series: u128) -> usize {
        let mut misses = 0;
        for _round in 0..20 {
            misses = 0;
            for i in 0..series {
                if cache.get(fingerprint(i)).is_none() {
                    cache.insert(fingerprint(i), in_order(i));
                    misses += 1;
                }
            }
        }
        misses
    }

    #[test]
    fn it_grows_until_all_that_comes_again_is_known_but_not_beyond_its_limit() {
        const ENTRIES_MAX: usize = 1 << 16;
        let mut cache = IdCache::with_entries_max(ENTRIES_MAX);
        assert!(misses_when_seen_in_turns(&mut cache, 6_000) < 60);
        assert!(cache.bytes() <= 6_000 * 4 * ID_CACHE_ENTRY_BYTES, "{}", cache.bytes());
        let misses = misses_when_seen_in_turns(&mut cache, 200_000);
        assert_eq!(cache.bytes(), ENTRIES_MAX * ID_CACHE_ENTRY_BYTES);
        assert!(misses < 200_000 - ENTRIES_MAX / 2, "some stay known: {misses} are not");
    }
}
