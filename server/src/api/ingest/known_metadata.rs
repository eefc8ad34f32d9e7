//! The metadata that a core has passed on lately: senders say the same of every series, and once a minute is enough for
//! who keeps it. Knows fingerprints alone.

use std::time::{Duration, Instant};

use silverback_model::{MetricType, SeriesIdHasher};

/// What isn't passed on again for so long.
const PASSED_ON_AFTER: Duration = Duration::from_secs(60);

/// Fingerprints that are known: 64 KiB.
const SLOTS: usize = 4096;

/// Forgets all of it once a minute, and some where two have one place: both cost but a look at who keeps it.
#[derive(Debug, Default)]
pub struct KnownMetadata {
    slots: Vec<u128>,
    since: Option<Instant>,
}

impl KnownMetadata {
    /// Forgets what was passed on more than a minute ago.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= PASSED_ON_AFTER) {
            self.slots.clear();
            self.since = Some(now);
        }
    }

    /// Whether this was passed on lately.
    #[inline]
    pub(crate) fn knows(&self, fingerprint: u128) -> bool {
        self.slots.get(fingerprint as usize % SLOTS) == Some(&fingerprint)
    }

    /// This is passed on, and known from now on.
    pub(crate) fn note(&mut self, fingerprint: u128) {
        self.slots.resize(SLOTS, 0);
        self.slots[fingerprint as usize % SLOTS] = fingerprint;
    }
}

/// Of a name, a type, a help and a unit, by the fingerprints of the texts.
#[inline]
pub(crate) fn fingerprint(hasher: &SeriesIdHasher, kind: MetricType, texts: [u128; 3]) -> u128 {
    let mut bytes = [0; 3 * 16 + 1];
    bytes[..48].copy_from_slice(texts.map(u128::to_ne_bytes).as_flattened());
    bytes[48] = kind as u8;
    hasher.fingerprint(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_passed_on_is_known_for_a_minute() {
        let (mut known, now) = (KnownMetadata::default(), Instant::now());
        known.forget_old(now);
        let mut passes_on = |one| {
            let is_new = !known.knows(one);
            known.note(one);
            is_new
        };
        assert_eq!([7, 8, 7, 7 + SLOTS as u128, 7].map(&mut passes_on), [true, true, false, true, true]);
        known.forget_old(now + PASSED_ON_AFTER / 2);
        assert!(known.knows(8));
        known.forget_old(now + PASSED_ON_AFTER);
        assert!(!known.knows(8));
    }

    #[test]
    fn every_part_of_it_counts() {
        let hasher = SeriesIdHasher::new(7, "");
        let of = |kind, texts| fingerprint(&hasher, kind, texts);
        let all = [
            of(MetricType::Gauge, [1, 2, 3]),
            of(MetricType::Counter, [1, 2, 3]),
            of(MetricType::Gauge, [2, 1, 3]),
            of(MetricType::Gauge, [1, 2, 4]),
        ];
        assert!((0..4).all(|a| (0..a).all(|b| all[a] != all[b])));
    }
}
