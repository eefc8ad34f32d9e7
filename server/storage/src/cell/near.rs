//! Brings what an append or a read is about to touch towards the core, ahead of it. Changes nothing.

use crate::cell::series::{SeriesHistory, SeriesStore};
use silverback_model::SeriesRef;
use silverback_model::gorilla::prefetch;

/// What a processor brings near at once, in bytes.
const CACHE_LINE: usize = 64;
/// Lines of a chunk that are brought near ahead: it has some hundred bytes, and what follows comes by itself.
const CHUNK_LINES: usize = 4;

impl SeriesStore {
    /// Brings the line of a series towards the core.
    #[inline]
    pub(crate) fn prefetch(&self, at: SeriesRef) {
        prefetch(self.series.get(at.0));
    }

    /// Whether a series may be at a ref that comes from elsewhere: the place is there, vacant or not.
    #[inline(always)]
    pub(crate) fn may_hold(&self, at: SeriesRef) -> bool {
        at.0 < self.series.end()
    }

    /// Brings the place of a series' next samples towards the core. Its line should be near.
    #[inline]
    pub(crate) fn prefetch_tail(&self, at: SeriesRef) {
        if let Some(tail) = self.series.get(at.0).words.tail(&self.blocks) {
            prefetch(tail);
        }
    }

    /// Brings what a read begins with towards the core: a series' line and its history.
    #[inline]
    pub(crate) fn prefetch_history(&self, at: SeriesRef) {
        self.prefetch(at);
        prefetch(self.histories.get(at.0));
    }

    /// Brings a series' histograms towards the core. Its history should be near.
    #[inline]
    pub(crate) fn prefetch_histograms(&self, at: SeriesRef) {
        if let Some(own) = &self.histories.get(at.0).histograms {
            own.open.prefetch();
        }
    }

    /// Brings what the next histogram of a series is written against towards the core. Its histograms should be near.
    #[inline]
    pub(crate) fn prefetch_last_histogram(&self, at: SeriesRef) {
        if let Some(own) = &self.histories.get(at.0).histograms {
            own.open.prefetch_last();
        }
    }

    /// Brings a series' labels towards the core. Its history should be near.
    #[inline]
    pub(crate) fn prefetch_labels(&self, at: SeriesRef) {
        self.labels(at).first().into_iter().for_each(prefetch);
    }

    /// Brings a series' labels and the lists of its chunks towards the core. Its history should be near.
    #[inline]
    pub(crate) fn prefetch_lists(&self, at: SeriesRef) {
        let SeriesHistory { labels, sealed, .. } = self.histories.get(at.0);
        let ends = [labels.first(), labels.last()];
        ends.into_iter().flatten().for_each(prefetch);
        sealed.last().into_iter().for_each(prefetch);
        self.series.get(at.0).words.head(&self.blocks).into_iter().for_each(prefetch);
    }

    /// Brings the first bytes of a range's first chunk towards the core, and more of the open one. The lists
    /// should be near.
    #[inline]
    pub(crate) fn prefetch_chunks(&self, at: SeriesRef, min_ms: i64, max_ms: i64) {
        self.series.get(at.0).words.second(&self.blocks).into_iter().for_each(prefetch);
        if let Some(chunk) = self.sealed_between(at, min_ms, max_ms).first() {
            chunk.bytes().chunks(CACHE_LINE).take(CHUNK_LINES).for_each(|line| prefetch(&line[0]));
        }
    }
}
