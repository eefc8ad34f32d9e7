//! Native histograms that come late: each is written into the chunk that its time lies in, or, in a gap, to the end or
//! the begin of a chunk beside it. So a series has no late histogram that isn't in its chunks, and no read, copy or
//! deletion has to know of any. Knows one series at a time, and neither requests nor how late a histogram may be.

use crate::cell::heap::vec_bytes;
use crate::cell::histograms::{SeriesHistograms, sealed_bytes};
use crate::cell::series::{AppendError, Appended, SeriesStore};
use silverback_model::SeriesRef;
use silverback_model::histogram::{Histogram, OpenHistogram, SealedHistogram};
use silverback_model::limits::{CHUNK_RANGE_MS, HISTOGRAM_CHUNK_BYTES, HISTOGRAM_CHUNK_SAMPLES_MIN};

/// A chunk that is larger than this is cut in the middle where a late histogram is written into it, once both halves
/// have as many as a chunk should: so that each has room for others, and one that is large stays short.
const HALVED_BYTES: usize = HISTOGRAM_CHUNK_BYTES * 3 / 2;

/// One that comes late, at a time at which its series has none.
#[derive(Debug, Clone, Copy)]
struct Late<'a> {
    timestamp_ms: i64,
    histogram: &'a Histogram,
}

impl SeriesStore {
    /// Takes in a histogram that isn't newer than the newest, where it is at most `window_ms` older than what its series
    /// has; what is stored already is fine however old it is. A chunk's work.
    #[cold]
    #[inline(never)]
    pub(super) fn append_late_histogram(
        &mut self,
        at: SeriesRef,
        timestamp_ms: i64,
        histogram: &Histogram,
        window_ms: i64,
    ) -> Result<Appended, AppendError> {
        let hash = histogram.fingerprint();
        match self.histogram_hash_at(at, timestamp_ms) {
            Some(stored) if stored == hash => return Ok(Appended::Already),
            Some(_) => return Err(AppendError::Duplicate),
            None => {}
        }
        if window_ms == 0 || self.newest_ms(at).saturating_sub(timestamp_ms) > window_ms {
            return Err(AppendError::OutOfOrder);
        }
        if let Some(own) = &mut self.histories.get_mut(at.0).histograms {
            let (freed, taken) = own.put_late(Late { timestamp_ms, histogram });
            self.histogram_bytes = self.histogram_bytes + taken - freed;
            self.extra_work += freed + taken;
            self.histogram_lookup.note_late(at, timestamp_ms, hash);
        }
        Ok(Appended::StoredLate)
    }
}

impl SeriesHistograms {
    /// Writes a late histogram into the chunks. Returns what those that it looked at took of the allocator before, and
    /// what they take now.
    fn put_late(&mut self, late: Late<'_>) -> (usize, usize) {
        let place = self.sealed.partition_point(|chunk| chunk.max_timestamp_ms() < late.timestamp_ms);
        // No other chunk is rewritten.
        let (from, to) = (place.saturating_sub(1), self.sealed.len().min(place + 1));
        let chunks_before = self.sealed.len();
        let freed = self.bytes_among(from, to);
        match self.sealed.get(place) {
            Some(chunk) if chunk.min_timestamp_ms() < late.timestamp_ms => {
                let chunks = late.within(chunk);
                self.sealed.splice(place..=place, chunks);
            }
            None if self.open.first_timestamp_ms() < late.timestamp_ms => {
                self.reopen(late.within(&self.open.clone().seal()));
            }
            Some(_) | None => self.put_between(place, late),
        }
        (freed, self.bytes_among(from, to + self.sealed.len() - chunks_before))
    }

    /// What the open chunk, the list of the others and some of these take.
    fn bytes_among(&self, from: usize, to: usize) -> usize {
        let chunks: usize = self.sealed[from..to].iter().map(sealed_bytes).sum();
        self.open_bytes() + vec_bytes(&self.sealed) + chunks
    }

    /// Takes one in whose time lies before a chunk and after the one before that: in one of the two, where that has room
    /// and goes on with it, or in a chunk of its own.
    fn put_between(&mut self, place: usize, late: Late<'_>) {
        if let Some(before) = place.checked_sub(1)
            && let Some(joined) = late.joined(&self.sealed[before])
        {
            self.sealed[before] = joined;
            return;
        }
        let joined = match self.sealed.get(place) {
            Some(next) => late.joined(next),
            None => late.joined(&self.open.clone().seal()),
        };
        match joined {
            Some(joined) if place < self.sealed.len() => self.sealed[place] = joined,
            Some(joined) => self.reopen(vec![joined]),
            None => {
                let alone = OpenHistogram::start(late.timestamp_ms, late.histogram, None);
                self.sealed.insert(place, alone.seal());
            }
        }
    }

    /// Puts chunks, oldest first, in the place of the open one: the last of them goes on until that would have.
    fn reopen(&mut self, mut chunks: Vec<SealedHistogram>) {
        let Some(last) = chunks.pop() else { return };
        self.sealed.append(&mut chunks);
        self.open = OpenHistogram::resume(last.kind(), last.bytes(), self.open.plan())
            .expect("a chunk that was written here can be read");
    }
}

impl Late<'_> {
    /// A chunk's histograms and this one, in chunks, oldest first: in several where it doesn't go with them, or where the
    /// chunk is large.
    fn within(&self, chunk: &SealedHistogram) -> Vec<SealedHistogram> {
        let count = chunk.count() + 1;
        let is_halved = chunk.bytes().len() > HALVED_BYTES && count >= 2 * HISTOGRAM_CHUNK_SAMPLES_MIN;
        let mut writer = Writer { cut_at: is_halved.then_some(count / 2), ..Writer::default() };
        let (mut iter, mut histogram, mut is_written) = (chunk.histograms(), Histogram::default(), false);
        while iter.samples_left() > 0 {
            let timestamp_ms = iter.next_into(&mut histogram).expect("the node's own chunks decode");
            if !is_written && timestamp_ms > self.timestamp_ms {
                writer.put(self.timestamp_ms, self.histogram);
                is_written = true;
            }
            writer.put(timestamp_ms, &histogram);
        }
        if !is_written {
            writer.put(self.timestamp_ms, self.histogram);
        }
        writer.finish()
    }

    /// A chunk beside it with this one, where that is one chunk still.
    fn joined(&self, chunk: &SealedHistogram) -> Option<SealedHistogram> {
        let range = |time_ms: i64| time_ms.div_euclid(CHUNK_RANGE_MS);
        let has_room =
            chunk.bytes().len() < HISTOGRAM_CHUNK_BYTES || chunk.count() < HISTOGRAM_CHUNK_SAMPLES_MIN;
        if !has_room
            || chunk.kind() != self.histogram.kind
            || range(chunk.min_timestamp_ms()) != range(self.timestamp_ms)
        {
            return None;
        }
        let mut chunks = self.within(chunk);
        chunks.pop().filter(|_| chunks.is_empty())
    }
}

/// Writes chunks again.
#[derive(Debug, Default)]
struct Writer {
    chunks: Vec<SealedHistogram>,
    open: Option<OpenHistogram>,
    written: usize,
    /// Another chunk begins after so many.
    cut_at: Option<usize>,
}

impl Writer {
    fn put(&mut self, timestamp_ms: i64, histogram: &Histogram) {
        let is_cut = self.cut_at == Some(self.written);
        match &mut self.open {
            Some(open) if is_cut => {
                let next = OpenHistogram::start(timestamp_ms, histogram, Some(open));
                self.chunks.push(std::mem::replace(open, next).seal());
            }
            Some(open) => self.chunks.extend(open.append_unplanned(timestamp_ms, histogram)),
            None => self.open = Some(OpenHistogram::start(timestamp_ms, histogram, None)),
        }
        self.written += 1;
    }

    fn finish(mut self) -> Vec<SealedHistogram> {
        self.chunks.extend(self.open.map(OpenHistogram::seal));
        self.chunks
    }
}

#[cfg(test)]
mod tests;
