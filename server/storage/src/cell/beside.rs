//! Floats and native histograms of one series: at a time it has one or the other. A staleness marker alone may come as
//! a float beside a histogram, for whoever sends it doesn't know what the series holds. Knows one series at a time.

use crate::cell::series::{AppendError, Appended, SeriesStore};
use silverback_model::histogram::Histogram;
use silverback_model::{Sample, SeriesRef};

/// Bits of one word.
const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each ref: so that an append learns what its series' line doesn't say without touching more of the series.
#[derive(Debug, Default)]
pub(super) struct RefSet(Vec<u64>);

impl RefSet {
    #[inline]
    pub(super) fn contains(&self, at: SeriesRef) -> bool {
        let at = at.0 as usize;
        self.0.get(at / WORD_BITS).is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
    }

    pub(super) fn insert(&mut self, at: SeriesRef) {
        let at = at.0 as usize;
        if self.0.len() <= at / WORD_BITS {
            self.0.resize(at / WORD_BITS + 1, 0);
        }
        self.0[at / WORD_BITS] |= 1 << (at % WORD_BITS);
    }

    pub(super) fn remove(&mut self, at: SeriesRef) {
        let at = at.0 as usize;
        if let Some(word) = self.0.get_mut(at / WORD_BITS) {
            *word &= !(1 << (at % WORD_BITS));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

impl SeriesStore {
    /// Takes a float of a series that has histograms in, as [`Self::append`] does, where no histogram has its time.
    pub(crate) fn append_beside_histograms(
        &mut self,
        at: SeriesRef,
        sample: Sample,
        late_window_ms: i64,
    ) -> Result<Appended, AppendError> {
        let time_ms = sample.timestamp_ms;
        if sample.is_stale() || self.histogram_hash_at(at, time_ms).is_none() {
            return self.append(at, sample, late_window_ms);
        }
        // Older versions kept both.
        match self.sample_at(at, time_ms) == Some(sample) {
            true => Ok(Appended::Already),
            false => Err(AppendError::Duplicate),
        }
    }

    /// Takes a histogram in, as [`Self::append_histogram`] does, where no float has its time.
    pub(crate) fn append_histogram_beside_floats(
        &mut self,
        at: SeriesRef,
        timestamp_ms: i64,
        histogram: &Histogram,
        late_window_ms: i64,
    ) -> Result<Appended, AppendError> {
        if !self.has_float_at(at, timestamp_ms) {
            return self.append_histogram(at, timestamp_ms, histogram, late_window_ms);
        }
        match self.histogram_hash_at(at, timestamp_ms) == Some(histogram.fingerprint()) {
            true => Ok(Appended::Already),
            false => Err(AppendError::Duplicate),
        }
    }

    /// Whether a float that isn't a staleness marker lies at a time, in ms.
    fn has_float_at(&mut self, at: SeriesRef, timestamp_ms: i64) -> bool {
        self.has_samples(at)
            && timestamp_ms <= self.newest(at).timestamp_ms
            && self.sample_at(at, timestamp_ms).is_some_and(|sample| !sample.is_stale())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_in_the_set_from_its_insertion_to_its_removal_and_no_neighbour_is() {
        let mut set = RefSet::default();
        for at in [0, 63, 64, 200] {
            assert!(!set.contains(SeriesRef(at)));
            set.insert(SeriesRef(at));
            assert!(set.contains(SeriesRef(at)) && !set.contains(SeriesRef(at + 1)));
        }
        set.remove(SeriesRef(63));
        set.remove(SeriesRef(9000));
        let held: Vec<u32> = (0..1000).filter(|at| set.contains(SeriesRef(*at))).collect();
        assert_eq!(held, [0, 64, 200]);
        assert!(set.bytes() >= 32);
    }
}
