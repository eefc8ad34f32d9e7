//! Chunks of histograms that were looked into, for senders who send again: of each series the last one, as a hash of each
//! of its histograms and of those that came late since. A cache: what it forgot is decoded again. Knows neither where
//! chunks lie nor what is made of what is found.

use silverback_model::SeriesRef;
use silverback_model::histogram::{Histogram, HistogramIter};
use silverback_model::limits::{HISTOGRAM_CHUNK_BYTES, HISTOGRAM_LOOKUP_SERIES, HISTOGRAM_LOOKUPS_BYTES_MAX};

use crate::cell::heap::{heap_bytes, vec_bytes};

/// Histograms of one series at most: those of the fullest chunk.
const LOOKUP_MAX: usize = 2 * HISTOGRAM_CHUNK_BYTES * 8 / 4;

/// One chunk's histograms, oldest first.
#[derive(Debug)]
struct Decoded {
    series: SeriesRef,
    /// When each was, in ms, and its fingerprint.
    hashes: Vec<(i64, u64)>,
}

/// The chunks of some series: those whose refs end alike take each other's place.
#[derive(Debug, Default)]
pub(super) struct HistogramLookup {
    /// None, until one is needed.
    places: Vec<Option<Box<Decoded>>>,
    bytes: usize,
    /// The place that gives way next where all take too much.
    next_to_go: usize,
    /// Whether any was of use since [`Self::release_unused`].
    is_used: bool,
    /// Chunks that were decoded.
    #[cfg(test)]
    pub(super) decoded: usize,
}

impl Decoded {
    fn covers(&self, timestamp_ms: i64) -> bool {
        let ends = self.hashes.first().zip(self.hashes.last());
        ends.is_some_and(|((first, _), (last, _))| (*first..=*last).contains(&timestamp_ms))
    }

    fn bytes(&self) -> usize {
        heap_bytes(size_of::<Self>()) + vec_bytes(&self.hashes)
    }
}

impl HistogramLookup {
    /// Whether it knows what the series has at a time, in ms.
    pub(super) fn covers(&self, at: SeriesRef, timestamp_ms: i64) -> bool {
        self.of(at).is_some_and(|decoded| decoded.covers(timestamp_ms))
    }

    /// The fingerprint of the series' histogram at a time, in ms, of those that it knows.
    pub(super) fn hash_at(&mut self, at: SeriesRef, timestamp_ms: i64) -> Option<u64> {
        self.is_used = true;
        let hashes = &self.of(at)?.hashes;
        let place = hashes.binary_search_by_key(&timestamp_ms, |(at_ms, _)| *at_ms).ok()?;
        Some(hashes[place].1)
    }

    /// Takes a chunk's histograms in the place of what it had of the series.
    pub(super) fn decode(&mut self, at: SeriesRef, mut chunk: HistogramIter<'_>) {
        let mut hashes = Vec::with_capacity(chunk.samples_left());
        let mut histogram = Histogram::default();
        while chunk.samples_left() > 0 {
            let timestamp_ms = chunk.next_into(&mut histogram).expect("the node's own chunks decode");
            hashes.push((timestamp_ms, histogram.fingerprint()));
        }
        self.put(at, Some(Box::new(Decoded { series: at, hashes })));
        #[cfg(test)]
        {
            self.decoded += 1;
        }
    }

    /// The series has one more, which came late.
    pub(super) fn note_late(&mut self, at: SeriesRef, timestamp_ms: i64, hash: u64) {
        let Some(place) = self.places.get_mut(place(at)) else { return };
        let Some(mut decoded) = place.take_if(|decoded| decoded.series == at) else { return };
        self.bytes -= decoded.bytes();
        let covers = decoded.covers(timestamp_ms);
        if covers && decoded.hashes.len() >= LOOKUP_MAX {
            return;
        }
        if covers {
            let behind = decoded.hashes.partition_point(|(at_ms, _)| *at_ms < timestamp_ms);
            decoded.hashes.insert(behind, (timestamp_ms, hash));
        }
        self.put(at, Some(decoded));
    }

    /// Histograms of the series are gone, or the ref will name another one.
    pub(super) fn forget(&mut self, at: SeriesRef) {
        if self.of(at).is_some() {
            self.put(at, None);
        }
    }

    /// Gives the memory back where nobody sent anything again since the last call.
    pub(super) fn release_unused(&mut self) {
        if !std::mem::take(&mut self.is_used) {
            *self = Self::default();
        }
    }

    /// What it takes, the allocator's rounding included.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes + vec_bytes(&self.places)
    }

    /// Histograms that it knows of a series.
    #[cfg(test)]
    pub(super) fn len(&self, at: SeriesRef) -> usize {
        self.of(at).map_or(0, |decoded| decoded.hashes.len())
    }

    fn of(&self, at: SeriesRef) -> Option<&Decoded> {
        self.places.get(place(at))?.as_deref().filter(|decoded| decoded.series == at)
    }

    /// Puts this in the place of a series, and lets others go where all take too much.
    fn put(&mut self, at: SeriesRef, decoded: Option<Box<Decoded>>) {
        if self.places.is_empty() {
            self.places.resize_with(HISTOGRAM_LOOKUP_SERIES, || None);
        }
        self.bytes += decoded.as_ref().map_or(0, |decoded| decoded.bytes());
        let former = std::mem::replace(&mut self.places[place(at)], decoded);
        self.bytes -= former.map_or(0, |former| former.bytes());
        // One alone never takes too much: the loop ends.
        while self.bytes > HISTOGRAM_LOOKUPS_BYTES_MAX {
            if self.next_to_go != place(at) {
                let gone = self.places[self.next_to_go].take();
                self.bytes -= gone.map_or(0, |gone| gone.bytes());
            }
            self.next_to_go = (self.next_to_go + 1) % HISTOGRAM_LOOKUP_SERIES;
        }
    }
}

fn place(at: SeriesRef) -> usize {
    at.0 as usize % HISTOGRAM_LOOKUP_SERIES
}

#[cfg(test)]
mod tests {
    use silverback_model::histogram::{Buckets, HistogramKind, OpenHistogram, Span};

    use super::*;

    /// So many histograms, one a second, the first at 0.
    fn chunk(count: i64) -> Vec<u8> {
        let histogram = |n: i64| {
            let positive = Buckets { spans: vec![Span { offset: 0, length: 1 }], words: vec![n as u64] };
            Histogram { count: n as u64, positive, ..Histogram::default() }
        };
        let mut open = OpenHistogram::start(0, &histogram(1), None);
        for n in 1..count {
            assert!(open.append(n * 1000, &histogram(n + 1)).is_none(), "one chunk");
        }
        open.to_bytes()
    }

    fn decode(lookup: &mut HistogramLookup, at: u32, chunk: &[u8]) {
        lookup.decode(SeriesRef(at), HistogramIter::new(HistogramKind::Integer, chunk));
    }

    #[test]
    fn of_each_series_the_last_chunk_is_known_until_it_is_forgotten() {
        let (mut lookup, chunk) = (HistogramLookup::default(), chunk(5));
        (3..6).for_each(|at| decode(&mut lookup, at, &chunk));
        for (at, time_ms, expect) in [(3, 0, true), (5, 4000, true), (5, 4001, false), (2, 0, false)] {
            assert_eq!(lookup.covers(SeriesRef(at), time_ms), expect, "{at} {time_ms}");
        }
        assert_ne!(lookup.hash_at(SeriesRef(3), 1000), lookup.hash_at(SeriesRef(3), 2000));
        assert_eq!(lookup.hash_at(SeriesRef(3), 1500), None);
        lookup.note_late(SeriesRef(3), 1500, 77);
        assert_eq!(lookup.hash_at(SeriesRef(3), 1500), Some(77));
        lookup.forget(SeriesRef(3 + HISTOGRAM_LOOKUP_SERIES as u32));
        assert!(lookup.covers(SeriesRef(3), 0), "another series");
        lookup.forget(SeriesRef(3));
        assert!(!lookup.covers(SeriesRef(3), 0) && lookup.covers(SeriesRef(4), 0));
        decode(&mut lookup, 4 + HISTOGRAM_LOOKUP_SERIES as u32, &chunk);
        assert!(!lookup.covers(SeriesRef(4), 0), "its place is taken");
    }

    #[test]
    fn its_memory_is_bounded_and_comes_back() {
        let (mut lookup, chunk) = (HistogramLookup::default(), chunk(60));
        for at in 0..3 * HISTOGRAM_LOOKUP_SERIES as u32 {
            decode(&mut lookup, at, &chunk);
            lookup.note_late(SeriesRef(at), 500, u64::from(at));
            assert!(lookup.covers(SeriesRef(at), 500), "the last one always is");
        }
        let most = HISTOGRAM_LOOKUPS_BYTES_MAX + heap_bytes(HISTOGRAM_LOOKUP_SERIES * 8);
        assert!(lookup.bytes() <= most, "{} bytes", lookup.bytes());
        let held: usize = lookup.places.iter().flatten().map(|decoded| decoded.bytes()).sum();
        assert_eq!(lookup.bytes, held);
        assert!(lookup.hash_at(SeriesRef(0), 0).is_none());
        lookup.release_unused();
        lookup.release_unused();
        assert_eq!(lookup.bytes(), 0);
    }
}
