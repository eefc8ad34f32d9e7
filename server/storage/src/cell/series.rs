//! Series: the line that an append touches, what is kept beside it, and the store of both.

use std::ops::RangeInclusive;

use crate::cell::beside::RefSet;
use crate::cell::blocks::{Chain, ChunkBlocks};
use crate::cell::cursors::ChunkCursors;
use crate::cell::heap::{heap_bytes, vec_bytes};
use crate::cell::histogram_lookup::HistogramLookup;
use crate::cell::histograms::SeriesHistograms;
use crate::cell::late::{LATE_CHUNK_BYTES, LateChunk};
use crate::cell::lookup::Lookup;
use crate::cell::merge::MERGED_SAMPLES_MAX;
use crate::cell::open::OpenSeries;
use crate::cell::pages::Pages;
use crate::cell::rest::{self, Without};
use silverback_model::gorilla::{ChunkError, OpenXor, SealedChunk, XorIter};
use silverback_model::{Sample, SeriesId, SeriesRef};

/// A label pair as the shard's index numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelRef(pub u32);

/// What an append reads and writes: one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Series {
    id: SeriesId,
    pub(super) chunk: OpenXor,
    pub(super) words: Chain,
}
const _: () = assert!(size_of::<Series>() == 64);

/// The id in a line that no series has: no label set hashes to it but one in 2^128.
const VACANT: SeriesId = SeriesId(0);

impl Default for Series {
    fn default() -> Self {
        Self { id: VACANT, chunk: OpenXor::default(), words: Chain::default() }
    }
}

impl Series {
    /// Of an open chunk without words.
    pub(super) fn of(id: SeriesId, chunk: OpenXor) -> Self {
        Self { id, chunk, words: Chain::default() }
    }
}

/// What is read seldom: the labels, the chunks that are cut, oldest first, and samples that came late.
#[derive(Debug, Default)]
pub struct SeriesHistory {
    pub(super) labels: Box<[LabelRef]>,
    pub(super) sealed: Vec<SealedChunk>,
    /// Late samples that aren't folded into the chunks yet.
    pub(super) late: Option<Box<LateChunk>>,
    /// Native histograms of the series that have some.
    pub(super) histograms: Option<Box<SeriesHistograms>>,
}

impl SeriesHistory {
    /// Of a series that has nothing but its labels.
    pub(super) fn of_labels(labels: Box<[LabelRef]>) -> Self {
        Self { labels, ..Self::default() }
    }
}

/// A sample that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is new, and the newest.
    Stored,
    /// It is new, and older than the newest.
    StoredLate,
    /// The very same sample is stored already: a sender's retry.
    Already,
}

/// Why a sample was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// Older than the newest sample by more than may be, and not stored already.
    OutOfOrder,
    /// Its timestamp is stored with another value.
    Duplicate,
}

/// Whether a series outlived a retention pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retained {
    /// It has samples inside the retention.
    Kept,
    /// Its newest sample is older: it should go.
    Expired,
}

/// What a new series takes besides its labels, and what a cut chunk takes, see [`SeriesStore::extra_work`].
const CREATE_WORK: usize = 24;
const CUT_WORK: usize = 32;

/// All series of a shard.
#[derive(Debug, Default)]
pub struct SeriesStore {
    pub(super) series: Pages<Series>,
    pub(super) histories: Pages<SeriesHistory>,
    pub(super) blocks: ChunkBlocks,
    /// For samples that are sent again.
    pub(super) lookup: Lookup,
    /// For those of them that come scrape by scrape.
    pub(super) cursors: ChunkCursors,
    /// For the bytes of an open chunk.
    pub(super) scratch: Vec<u8>,
    /// Refs that were freed since the start.
    freed: u64,
    pub(super) sealed_chunks: usize,
    /// Sealed chunks' bytes and the lists of them.
    pub(super) sealed_bytes: usize,
    /// Series with late samples that aren't folded.
    pub(super) late_chunks: usize,
    /// See [`Self::extra_work`].
    pub(super) extra_work: usize,
    /// Series with native histograms.
    pub(super) histogram_series: usize,
    /// Which these are.
    pub(super) with_histograms: RefSet,
    /// What their histograms take.
    pub(super) histogram_bytes: usize,
    /// For histograms that are sent again.
    pub(super) histogram_lookup: HistogramLookup,
    pub(super) label_bytes: usize,
}

/// What [`SeriesStore`] holds, in counts and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Series.
    pub series: usize,
    /// Sealed chunks; each series has an open one besides.
    pub sealed_chunks: usize,
    /// Series with late samples that aren't folded into these.
    pub late_chunks: usize,
    /// Bytes of the series' lines, histories and label references.
    pub series_bytes: usize,
    /// Bytes of open and sealed chunks.
    pub chunk_bytes: usize,
}

impl SeriesStore {
    /// Adds a series with its first sample. `None`: no ref is left.
    pub fn create(&mut self, id: SeriesId, labels: Box<[LabelRef]>, first: Sample) -> Option<SeriesRef> {
        let mut words = Chain::default();
        let chunk = OpenXor::start(first, &mut words.sink(&mut self.blocks, 0));
        let Some(index) = self.series.insert(Series { id, chunk, words }) else {
            words.release(&mut self.blocks);
            return None;
        };
        self.extra_work += CREATE_WORK;
        self.label_bytes += heap_bytes(size_of_val(&*labels));
        let history = self.histories.insert(SeriesHistory { labels, ..SeriesHistory::default() });
        assert_eq!(history, Some(index), "lines and histories grow together");
        Some(SeriesRef(index))
    }

    /// A vacant ref for a series that is put back. `None`: none is left.
    pub(crate) fn reserve(&mut self) -> Option<SeriesRef> {
        let index = self.series.insert(Series::default())?;
        let history = self.histories.insert(SeriesHistory::default());
        assert_eq!(history, Some(index), "lines and histories grow together");
        Some(SeriesRef(index))
    }

    /// Puts a series back at a vacant ref, with its chunks: the sealed ones oldest first, and the
    /// open one as bytes, of which there are none where it has no samples.
    pub(crate) fn restore(
        &mut self,
        at: SeriesRef,
        id: SeriesId,
        labels: Box<[LabelRef]>,
        sealed: Vec<SealedChunk>,
        open: &[u8],
    ) -> Result<(), ChunkError> {
        let (chunk, words) = self.reopen(open)?;
        self.label_bytes += heap_bytes(size_of_val(&*labels));
        self.sealed_chunks += sealed.len();
        self.sealed_bytes += vec_bytes(&sealed) + chunks_bytes(&sealed);
        self.series.insert_at(at.0, Series { id, chunk, words });
        self.histories.insert_at(at.0, SeriesHistory { sealed, ..SeriesHistory::of_labels(labels) });
        Ok(())
    }

    /// Puts other chunks in the place of a series' own.
    pub(crate) fn replace(
        &mut self,
        at: SeriesRef,
        sealed: Vec<SealedChunk>,
        open: &[u8],
    ) -> Result<(), ChunkError> {
        let (chunk, words) = self.reopen(open)?;
        self.forget_found(at);
        self.drop_late(at);
        let series = self.series.get_mut(at.0);
        series.chunk = chunk;
        std::mem::replace(&mut series.words, words).release(&mut self.blocks);
        self.sealed_chunks += sealed.len();
        self.sealed_bytes += vec_bytes(&sealed) + chunks_bytes(&sealed);
        let former = std::mem::replace(&mut self.histories.get_mut(at.0).sealed, sealed);
        self.sealed_chunks -= former.len();
        self.sealed_bytes -= vec_bytes(&former) + chunks_bytes(&former);
        Ok(())
    }

    /// An open chunk of the samples in a chunk's bytes, and its words.
    pub(super) fn reopen(&mut self, bytes: &[u8]) -> Result<(OpenXor, Chain), ChunkError> {
        let mut words = Chain::default();
        if bytes.is_empty() {
            return Ok((OpenXor::EMPTY, words));
        }
        match self.read_open(bytes, &mut words) {
            Ok(chunk) => Ok((chunk, words)),
            Err(error) => {
                words.release(&mut self.blocks);
                Err(error)
            }
        }
    }

    fn read_open(&mut self, bytes: &[u8], words: &mut Chain) -> Result<OpenXor, ChunkError> {
        let mut samples = XorIter::new(bytes);
        let first = samples.next().ok_or(ChunkError::Empty)??;
        let mut chunk = OpenXor::start(first, &mut words.sink(&mut self.blocks, 0));
        for sample in samples {
            let sample = sample?;
            // A chunk that late samples were merged into could be left as the open one, and may be so in a log.
            if sample.timestamp_ms <= chunk.last().timestamp_ms
                || chunk.is_full_at(sample.timestamp_ms, MERGED_SAMPLES_MAX)
            {
                return Err(ChunkError::NotOfAnOpenChunk);
            }
            let written = chunk.words();
            chunk.append(sample, &mut words.sink(&mut self.blocks, written));
        }
        Ok(chunk)
    }

    /// Puts a series back at a vacant ref, with its first sample.
    pub(crate) fn create_at(&mut self, at: SeriesRef, id: SeriesId, labels: Box<[LabelRef]>, first: Sample) {
        let mut words = Chain::default();
        let chunk = OpenXor::start(first, &mut words.sink(&mut self.blocks, 0));
        self.label_bytes += heap_bytes(size_of_val(&*labels));
        self.series.insert_at(at.0, Series { id, chunk, words });
        self.histories.insert_at(at.0, SeriesHistory { labels, ..SeriesHistory::default() });
    }

    /// Whether a series has this ref.
    #[inline]
    pub(crate) fn holds(&self, at: SeriesRef) -> bool {
        at.0 < self.series.end() && self.series.get(at.0).id != VACANT
    }

    /// Keeps all refs up to this one from new series, until they are freed.
    pub(crate) fn take_up_to(&mut self, last: SeriesRef) {
        self.series.take_up_to(last.0 + 1);
        self.histories.take_up_to(last.0 + 1);
    }

    /// Lets new series have the refs that were left out when series were put back, but for those
    /// that `is_kept` names.
    pub(crate) fn free_vacant(&mut self, mut is_kept: impl FnMut(SeriesRef) -> bool) {
        for at in (0..self.series.end()).map(SeriesRef) {
            if !self.holds(at) && !is_kept(at) {
                self.free(at);
            }
        }
    }

    /// Takes a sample in, or returns why not. One that is older than the newest may be so by `late_window_ms`.
    /// Allocates only when a chunk is cut, and for late ones.
    #[inline]
    pub(crate) fn append(
        &mut self,
        at: SeriesRef,
        sample: Sample,
        late_window_ms: i64,
    ) -> Result<Appended, AppendError> {
        let series = self.series.get_mut(at.0);
        if sample.timestamp_ms <= series.chunk.last().timestamp_ms {
            return self.append_late(at, sample, late_window_ms);
        }
        if !(OpenSeries { series, blocks: &mut self.blocks }).append_in_chunk(sample) {
            self.cut(at, sample);
        }
        Ok(Appended::Stored)
    }

    /// The series of an id at a ref that it may have.
    #[inline(always)]
    pub(crate) fn open_series(&mut self, at: SeriesRef, id: SeriesId) -> Option<OpenSeries<'_>> {
        let series = self.series.find_mut(at.0)?;
        (series.id == id).then_some(OpenSeries { series, blocks: &mut self.blocks })
    }

    /// What more was done since [`Self::begin_piece`] than to take in the next samples of known series, in samples that
    /// are decoded or written again, each of which takes some 10 ns: for late ones, for such as were sent again, for
    /// chunks that were cut, for new series and for what was refused.
    #[inline]
    pub(crate) fn extra_work(&self) -> usize {
        self.extra_work
    }

    /// Counts what was done for samples outside of this.
    pub(crate) fn add_work(&mut self, samples: usize) {
        self.extra_work += samples;
    }

    /// A piece of a part begins: nothing was done in it.
    pub(crate) fn begin_piece(&mut self) {
        self.extra_work = 0;
    }

    /// Seals the open chunk and begins the next one with `first`.
    #[inline(never)]
    fn cut(&mut self, at: SeriesRef, first: Sample) {
        if !self.has_samples(at) {
            let series = self.series.get_mut(at.0);
            series.chunk = OpenXor::start(first, &mut series.words.sink(&mut self.blocks, 0));
            return;
        }
        self.extra_work += CUT_WORK;
        let sealed = self.open_chunk(at);
        let series = self.series.get_mut(at.0);
        std::mem::take(&mut series.words).release(&mut self.blocks);
        series.chunk = OpenXor::start(first, &mut series.words.sink(&mut self.blocks, 0));
        self.sealed_chunks += 1;
        self.sealed_bytes += heap_bytes(sealed.bytes().len());
        let list = &mut self.histories.get_mut(at.0).sealed;
        self.sealed_bytes -= vec_bytes(list);
        list.push(sealed);
        self.sealed_bytes += vec_bytes(list);
    }

    /// Whether a chunk overlaps a range of ms, both ends inclusive. Looks at times alone.
    pub(crate) fn overlaps(&self, at: SeriesRef, min_ms: i64, max_ms: i64) -> bool {
        self.samples_overlap(at, min_ms, max_ms) || self.histograms_overlap(at, min_ms, max_ms)
    }

    /// Whether a chunk of floats does.
    fn samples_overlap(&self, at: SeriesRef, min_ms: i64, max_ms: i64) -> bool {
        let newest_ms = self.newest(at).timestamp_ms;
        if newest_ms <= max_ms {
            return newest_ms >= min_ms && self.has_samples(at);
        }
        // The newest sample is after the range: what is before it decides.
        !self.sealed_between(at, min_ms, max_ms).is_empty()
            || self.open_between(at, min_ms, max_ms).is_some()
            || self.histories.get(at.0).late.as_ref().is_some_and(|late| late.overlaps(min_ms, max_ms))
    }

    /// The chunks that are cut and overlap a range of ms, both ends inclusive, oldest first.
    pub(crate) fn sealed_between(&self, at: SeriesRef, min_ms: i64, max_ms: i64) -> &[SealedChunk] {
        let sealed = &self.histories.get(at.0).sealed;
        let from = sealed.partition_point(|chunk| chunk.max_timestamp_ms() < min_ms);
        let to = sealed.partition_point(|chunk| chunk.min_timestamp_ms() <= max_ms);
        &sealed[from..to.max(from)]
    }

    /// The times of the open chunk's first and last sample, where it overlaps a range of ms, both ends
    /// inclusive.
    pub(crate) fn open_between(&self, at: SeriesRef, min_ms: i64, max_ms: i64) -> Option<(i64, i64)> {
        if self.newest(at).timestamp_ms < min_ms || !self.has_samples(at) {
            return None;
        }
        let (oldest_ms, newest_ms) = self.open_times(at);
        (oldest_ms <= max_ms).then_some((oldest_ms, newest_ms))
    }

    /// How many samples the open chunk has.
    pub(crate) fn open_count(&self, at: SeriesRef) -> usize {
        self.series.get(at.0).chunk.count()
    }

    /// The times of the open chunk's first and last sample, in ms.
    pub(super) fn open_times(&self, at: SeriesRef) -> (i64, i64) {
        let Series { chunk, words, .. } = self.series.get(at.0);
        let oldest_ms = chunk.first_timestamp_ms(words.words(&self.blocks, chunk.words()));
        (oldest_ms, chunk.last().timestamp_ms)
    }

    /// Appends the open chunk's bytes, as if it were sealed now.
    pub(crate) fn put_open_chunk(&self, at: SeriesRef, out: &mut Vec<u8>) {
        let Series { chunk, words, .. } = self.series.get(at.0);
        chunk.put_bytes(words.words(&self.blocks, chunk.words()), out);
    }

    /// The chunks that are cut, oldest first.
    pub(crate) fn sealed(&self, at: SeriesRef) -> &[SealedChunk] {
        &self.histories.get(at.0).sealed
    }

    /// Whether a series has samples that are floats.
    #[inline]
    pub(crate) fn has_samples(&self, at: SeriesRef) -> bool {
        self.series.get(at.0).chunk.count() > 0
    }

    /// The open chunk's bytes as the log has them: none where the series has no samples.
    pub(crate) fn open_bytes(&self, at: SeriesRef) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.has_samples(at) {
            self.put_open_chunk(at, &mut bytes);
        }
        bytes
    }

    /// A copy of the open chunk, sealed. The series has samples.
    pub(crate) fn open_chunk(&self, at: SeriesRef) -> SealedChunk {
        let series = self.series.get(at.0);
        series.chunk.seal(series.words.words(&self.blocks, series.chunk.words()))
    }

    /// How many samples a series has.
    pub(crate) fn samples(&self, at: SeriesRef) -> usize {
        self.float_samples(at) + self.histograms(at)
    }

    /// How many of them are floats.
    pub(crate) fn float_samples(&self, at: SeriesRef) -> usize {
        let sealed: usize = self.sealed(at).iter().map(SealedChunk::count).sum();
        let late = self.histories.get(at.0).late.as_ref().map_or(0, |late| late.count());
        sealed + late + self.series.get(at.0).chunk.count()
    }

    /// What is left of a series' floats without a range of ms.
    pub(crate) fn without(&mut self, at: SeriesRef, range_ms: &RangeInclusive<i64>) -> Without {
        self.fold_late(at);
        match self.samples_overlap(at, *range_ms.start(), *range_ms.end()) {
            true => rest::without(self.sealed(at), &self.open_chunk(at), range_ms),
            false => Without::AsBefore,
        }
    }

    /// Drops sealed chunks that lie wholly before `horizon_ms`. Late samples are in chunks then, too. A series that has
    /// nothing else keeps them: who removes it tells the log.
    pub(crate) fn drop_before(&mut self, at: SeriesRef, horizon_ms: i64) -> Retained {
        let has_floats = self.newest(at).timestamp_ms >= horizon_ms;
        if !has_floats && self.histogram_times(at).is_none_or(|(_, newest_ms)| newest_ms < horizon_ms) {
            return Retained::Expired;
        }
        self.drop_histograms_before(at, horizon_ms);
        if !has_floats {
            if self.has_samples(at) {
                self.replace(at, Vec::new(), &[]).expect("there is no chunk that could be a bad one");
            }
            return Retained::Kept;
        }
        self.fold_late(at);
        let expired = self.sealed(at).partition_point(|c| c.max_timestamp_ms() < horizon_ms);
        if expired > 0 {
            self.forget_found(at);
            let sealed = &mut self.histories.get_mut(at.0).sealed;
            self.sealed_chunks -= expired;
            self.sealed_bytes -= vec_bytes(sealed) + chunks_bytes(&sealed[..expired]);
            sealed.drain(..expired);
            sealed.shrink_to_fit();
            self.sealed_bytes += vec_bytes(sealed);
        }
        Retained::Kept
    }

    /// Takes a series out, gives its chunks' memory back, and returns its labels. Its ref stays taken
    /// until [`Self::free`].
    pub(crate) fn remove(&mut self, at: SeriesRef) -> Box<[LabelRef]> {
        self.forget_found(at);
        self.drop_late(at);
        self.set_histograms(at, None);
        let series = self.series.take(at.0);
        series.words.release(&mut self.blocks);
        let history = self.histories.take(at.0);
        self.label_bytes -= heap_bytes(size_of_val(&*history.labels));
        self.sealed_chunks -= history.sealed.len();
        self.sealed_bytes -= vec_bytes(&history.sealed) + chunks_bytes(&history.sealed);
        history.labels
    }

    /// Lets another series have the ref of one that was removed.
    pub(crate) fn free(&mut self, at: SeriesRef) {
        self.freed += 1;
        self.series.free(at.0);
        self.histories.free(at.0);
    }

    /// Returns whether refs were freed between two times that it is asked: only then one may name another series.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// The id of the series at a place; of a vacant one an id that no series has.
    #[inline]
    pub fn id(&self, at: SeriesRef) -> SeriesId {
        self.series.get(at.0).id
    }

    /// The timestamp of a series' newest sample, of either kind, in ms.
    pub(crate) fn newest_ms(&self, at: SeriesRef) -> i64 {
        let newest_ms = self.newest(at).timestamp_ms;
        self.histogram_times(at).map_or(newest_ms, |(_, histogram_ms)| histogram_ms.max(newest_ms))
    }

    /// The newest float of a series; of one that has none something at the earliest time.
    pub(crate) fn newest(&self, at: SeriesRef) -> Sample {
        self.series.get(at.0).chunk.last()
    }

    /// The labels of a series, in the order of their names.
    pub(crate) fn labels(&self, at: SeriesRef) -> &[LabelRef] {
        &self.histories.get(at.0).labels
    }

    /// Whether a series has one sample, and never had more that retention kept.
    pub(crate) fn is_single(&self, at: SeriesRef) -> bool {
        let SeriesHistory { sealed, late, histograms, .. } = self.histories.get(at.0);
        self.series.get(at.0).chunk.count() == 1
            && sealed.is_empty()
            && late.is_none()
            && histograms.is_none()
    }

    /// One past the highest ref ever given.
    pub(crate) fn end(&self) -> u32 {
        self.series.end()
    }

    /// Makes memory ready for open chunks, a piece of it: 64 KiB. Returns whether more is wanted, which is
    /// so until there are `pages` of them.
    pub(crate) fn make_ahead(&mut self, pages: usize) -> bool {
        self.blocks.keep_ahead(pages);
        if self.blocks.pages_ahead() < pages {
            self.blocks.make_page_ahead();
        }
        self.blocks.pages_ahead() < pages
    }

    /// Gives the memory of some refs, or of open chunks, back that series have left. Returns whether there were any.
    pub(crate) fn give_page_back(&mut self) -> bool {
        self.series.give_back_page() || self.histories.give_back_page() || self.blocks.give_back_page()
    }

    /// Gives back what was kept for samples that are sent again, where none were since the last call.
    pub(crate) fn release_unused(&mut self) {
        self.cursors.release_unused();
        self.histogram_lookup.release_unused();
    }

    /// How many such pieces there may be, if so many bytes more are spent on them.
    pub(crate) fn ahead_within(&self, bytes: usize) -> usize {
        self.blocks.pages_ahead_within(bytes)
    }

    /// How many such pieces to have before more samples come, if these come as they did since this was
    /// asked last.
    pub(crate) fn wanted_ahead(&mut self) -> usize {
        self.blocks.pages_wanted_ahead()
    }

    /// How many series are held.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.series.len()
    }

    /// How much is held, the allocator's rounding included.
    #[inline]
    pub(crate) fn size(&self) -> StoreSize {
        StoreSize {
            series: self.series.len(),
            sealed_chunks: self.sealed_chunks,
            late_chunks: self.late_chunks,
            series_bytes: self.series.bytes()
                + self.histories.bytes()
                + self.late_chunks * LATE_CHUNK_BYTES
                + self.cursors.bytes()
                + self.histogram_lookup.bytes()
                + self.label_bytes,
            chunk_bytes: self.blocks.bytes()
                + self.sealed_bytes
                + self.histogram_bytes
                + self.with_histograms.bytes(),
        }
    }
}

pub(super) fn chunks_bytes(chunks: &[SealedChunk]) -> usize {
    chunks.iter().map(|chunk| heap_bytes(chunk.bytes().len())).sum()
}

#[cfg(test)]
mod tests;
