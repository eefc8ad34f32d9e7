//! The metadata that a core has passed on recently: senders say the same of every series, and once a minute is enough
//! for who keeps it. Knows fingerprints alone.

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
    period: Period,
}

/// The time between two moments at which all was forgotten: in it a series' metadata is looked at once. After so many
/// of them one has the name of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period(u8);

impl Default for Period {
    fn default() -> Self {
        Self(1)
    }
}

impl Period {
    /// The last one. Zero is none.
    pub(crate) const MAX: u8 = 63;

    /// As [`Self::bits`] gives it.
    #[inline]
    pub(crate) fn of_bits(bits: u128) -> Option<Self> {
        (bits > 0).then_some(Self(bits as u8))
    }

    /// 1 to [`Self::MAX`].
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        u128::from(self.0)
    }

    fn next(self) -> Self {
        Self(self.0 % Self::MAX + 1)
    }
}

impl KnownMetadata {
    /// Forgets what was passed on more than a minute ago.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= PASSED_ON_AFTER) {
            self.forget();
            self.since = Some(now);
        }
    }

    /// Forgets all of it.
    pub(crate) fn forget(&mut self) {
        self.slots.clear();
        self.period = self.period.next();
    }

    /// What is passed on now is passed on in this one.
    #[inline]
    pub(crate) fn period(&self) -> Period {
        self.period
    }

    /// Whether this was passed on recently.
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
