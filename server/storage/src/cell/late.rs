//! Samples that come late, which is what others call out of order: a second open chunk for the series that have
//! some, which is folded into the chunks before anyone looks at these. In memory alone: the log has each late sample
//! as it came. Knows one series at a time, and neither requests nor how late a sample may be.

use std::ops::Range;

use crate::cell::blocks::Chain;
use crate::cell::heap::{heap_bytes, vec_bytes};
use crate::cell::merge::{merge, merge_into_open};
use crate::cell::series::{AppendError, Appended, SeriesStore, chunks_bytes};
use silverback_model::gorilla::{OpenXor, SealedChunk};
use silverback_model::limits::{CHUNK_RANGE_MS, CHUNK_SAMPLES};
use silverback_model::{Sample, SeriesRef};

/// Late samples of a series since they were folded last, ascending. Others of its samples may lie between them.
#[derive(Debug)]
pub(super) struct LateChunk {
    chunk: OpenXor,
    pub(super) words: Chain,
    first_ms: i64,
    /// None of them is after this time, in ms: they lie within one of the other chunks, or between two, so that to fold
    /// them is no more work than a chunk is.
    reach_ms: i64,
    /// After the last of them the series has nothing before this time, in ms.
    free_until_ms: i64,
}

/// What the allocator takes for one.
pub(super) const LATE_CHUNK_BYTES: usize = heap_bytes(size_of::<LateChunk>());

impl LateChunk {
    pub(super) fn count(&self) -> usize {
        self.chunk.count()
    }

    pub(super) fn overlaps(&self, min_ms: i64, max_ms: i64) -> bool {
        self.first_ms <= max_ms && self.last().timestamp_ms >= min_ms
    }

    fn last(&self) -> Sample {
        self.chunk.last()
    }

    /// Whether nothing that the series has, these among it, is in the way of a sample after these.
    fn is_free_for(&self, timestamp_ms: i64) -> bool {
        timestamp_ms > self.last().timestamp_ms
            && timestamp_ms < self.free_until_ms
            && timestamp_ms <= self.reach_ms
            && !self.chunk.is_full_for(timestamp_ms)
    }

    /// Whether these must be folded before it is clear what is stored at a time, or before a sample can be accepted.
    fn is_in_the_way_of(&self, timestamp_ms: i64) -> bool {
        let last_ms = self.last().timestamp_ms;
        let is_beyond = timestamp_ms > self.reach_ms || self.chunk.is_full_for(timestamp_ms);
        timestamp_ms < last_ms || (timestamp_ms > last_ms && is_beyond)
    }
}

impl SeriesStore {
    /// Takes in a sample that isn't newer than the newest, where it is at most `window_ms` older; what is stored
    /// already is fine however old it is.
    #[cold]
    #[inline(never)]
    pub(super) fn append_late(
        &mut self,
        at: SeriesRef,
        sample: Sample,
        window_ms: i64,
    ) -> Result<Appended, AppendError> {
        let time_ms = sample.timestamp_ms;
        let is_in_window = self.newest_ms(at).saturating_sub(time_ms) <= window_ms;
        let late = self.histories.get(at.0).late.as_deref();
        if is_in_window && late.is_some_and(|late| late.is_free_for(time_ms)) {
            self.push_late(at, sample);
            return Ok(Appended::StoredLate);
        }
        if late.is_some_and(|late| late.is_in_the_way_of(time_ms)) {
            self.fold_late(at);
        }
        match self.sample_at(at, time_ms) {
            Some(stored) if stored == sample => Ok(Appended::Already),
            Some(_) => Err(AppendError::Duplicate),
            None if window_ms > 0 && is_in_window => {
                self.take_late(at, sample);
                Ok(Appended::StoredLate)
            }
            None => Err(AppendError::OutOfOrder),
        }
    }

    /// Takes a sample in at whose time there is none, and which is no older than the late ones.
    fn take_late(&mut self, at: SeriesRef, sample: Sample) {
        let free_until_ms = self.next_after(at, sample.timestamp_ms);
        if self.histories.get(at.0).late.is_none() {
            self.begin_late(at, sample, free_until_ms);
            return;
        }
        self.push_late(at, sample);
        if let Some(late) = &mut self.histories.get_mut(at.0).late {
            late.free_until_ms = free_until_ms;
        }
    }

    fn begin_late(&mut self, at: SeriesRef, first: Sample, free_until_ms: i64) {
        let mut words = Chain::default();
        let chunk = OpenXor::start(first, &mut words.sink(&mut self.blocks, 0));
        let (first_ms, reach_ms) = (first.timestamp_ms, self.reach_of(at, first.timestamp_ms));
        let late = LateChunk { chunk, words, first_ms, reach_ms, free_until_ms };
        self.late_chunks += 1;
        self.histories.get_mut(at.0).late = Some(Box::new(late));
    }

    /// The end of the chunk that a time lies in, or of the gap between two, in ms.
    fn reach_of(&self, at: SeriesRef, timestamp_ms: i64) -> i64 {
        let sealed = self.sealed(at);
        let place = sealed.partition_point(|chunk| chunk.max_timestamp_ms() < timestamp_ms);
        let ends = |chunk: &SealedChunk| (chunk.min_timestamp_ms(), chunk.max_timestamp_ms());
        let (oldest_ms, newest_ms) = sealed.get(place).map_or_else(|| self.open_times(at), ends);
        if oldest_ms <= timestamp_ms { newest_ms } else { oldest_ms - 1 }
    }

    fn push_late(&mut self, at: SeriesRef, sample: Sample) {
        if let Some(late) = &mut self.histories.get_mut(at.0).late {
            let words = late.chunk.words();
            late.chunk.append(sample, &mut late.words.sink(&mut self.blocks, words));
        }
    }

    /// When the first sample after a time is, in ms, but for late ones. There is one: the newest. What is stored at
    /// that time was looked for before.
    fn next_after(&mut self, at: SeriesRef, timestamp_ms: i64) -> i64 {
        let next_ms = match self.lookup.covers(at, timestamp_ms) {
            true => self.lookup.next_after(timestamp_ms),
            false => self.scan(at, timestamp_ms).next_ms,
        };
        if let Some(next_ms) = next_ms {
            return next_ms;
        }
        let sealed = self.sealed(at);
        let place = sealed.partition_point(|chunk| chunk.min_timestamp_ms() <= timestamp_ms);
        sealed.get(place).map_or_else(|| self.open_times(at).0, SealedChunk::min_timestamp_ms)
    }

    /// A late sample at this time, in ms, where one is known without looking into chunks: the last one.
    pub(super) fn last_late(&self, at: SeriesRef, timestamp_ms: i64) -> Option<Sample> {
        let late = self.histories.get(at.0).late.as_ref()?;
        (late.last().timestamp_ms == timestamp_ms).then(|| late.last())
    }

    /// Folds a series' late samples into its chunks: whoever looks at these does it before. Returns whether there were
    /// any. Two chunks' work.
    pub(crate) fn fold_late(&mut self, at: SeriesRef) -> bool {
        let Some(late) = self.histories.get_mut(at.0).late.take() else { return false };
        self.late_chunks -= 1;
        self.forget_found(at);
        let (first_ms, last_ms) = (late.first_ms, late.last().timestamp_ms);
        self.extra_work += 2 * (late.chunk.count() + CHUNK_SAMPLES);
        let folded = late.chunk.seal(late.words.words(&self.blocks, late.chunk.words()));
        late.words.release(&mut self.blocks);
        let sealed = self.sealed(at);
        let from = sealed.partition_point(|chunk| chunk.max_timestamp_ms() < first_ms);
        let to = sealed.partition_point(|chunk| chunk.min_timestamp_ms() <= last_ms);
        if self.open_times(at).0 < last_ms {
            let (chunks, open) = merge_into_open(&sealed[from..], &folded, &self.open_chunk(at));
            self.splice(at, from..sealed.len(), chunks);
            self.reopen_as(at, &open);
        } else if from < to {
            let merged = merge(&sealed[from..to], &folded);
            self.splice(at, from..to, merged);
        } else {
            let joined = self.joinable(at, from, &folded);
            let merged = merge(&self.sealed(at)[joined.clone()], &folded);
            self.splice(at, joined, merged);
        }
        true
    }

    /// What to merge samples with that lie in nobody's way: with the chunk before them or else the one after, where both fit
    /// into one, so that a few late samples at a time don't leave a chunk each, whether from old to new or from new to old.
    fn joinable(&self, at: SeriesRef, place: usize, folded: &SealedChunk) -> Range<usize> {
        let range = |time_ms: i64| time_ms.div_euclid(CHUNK_RANGE_MS);
        let joins = |chunk: &SealedChunk| {
            chunk.count() + folded.count() <= CHUNK_SAMPLES
                && range(chunk.min_timestamp_ms()) == range(folded.min_timestamp_ms())
        };
        let sealed = self.sealed(at);
        match place.checked_sub(1) {
            Some(before) if joins(&sealed[before]) => before..place,
            Some(_) | None if sealed.get(place).is_some_and(joins) => place..place + 1,
            Some(_) | None => place..place,
        }
    }

    /// Puts chunks in the place of some that are cut.
    fn splice(&mut self, at: SeriesRef, former: Range<usize>, chunks: Vec<SealedChunk>) {
        let list = &mut self.histories.get_mut(at.0).sealed;
        self.sealed_chunks = self.sealed_chunks + chunks.len() - former.len();
        self.sealed_bytes += chunks_bytes(&chunks);
        self.sealed_bytes -= vec_bytes(list) + chunks_bytes(&list[former.clone()]);
        list.splice(former, chunks);
        self.sealed_bytes += vec_bytes(list);
    }

    /// Puts another open chunk in the place of a series' own.
    fn reopen_as(&mut self, at: SeriesRef, open: &SealedChunk) {
        let (chunk, words) =
            self.reopen(open.bytes()).expect("a chunk that was cut as appends cut it is one");
        let series = self.series.get_mut(at.0);
        series.chunk = chunk;
        std::mem::replace(&mut series.words, words).release(&mut self.blocks);
    }

    /// Forgets the late samples of a series, for others take the place of all that it has.
    pub(super) fn drop_late(&mut self, at: SeriesRef) {
        if let Some(late) = self.histories.get_mut(at.0).late.take() {
            self.late_chunks -= 1;
            late.words.release(&mut self.blocks);
        }
    }
}

#[cfg(test)]
mod tests;
