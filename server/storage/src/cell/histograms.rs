//! Native histograms of the series that have some: an open chunk, those that are cut, and what was looked into last.
//!
//! They lie beside a series' floats and know nothing of them: each of the two has its own order of time.

use std::ops::RangeInclusive;

use crate::cell::beside::RefSet;
use crate::cell::heap::{heap_bytes, vec_bytes};
use crate::cell::series::{AppendError, Appended, LabelRef, Series, SeriesHistory, SeriesStore};
use crate::wal::record::{LoggedHistogramChunks, OpenHistogramBytes, SealedHistogramBytes};
use silverback_model::gorilla::OpenXor;
use silverback_model::histogram::{
    EndPlan, Histogram, HistogramChunkError, HistogramIter, HistogramKind, OpenHistogram, SealedHistogram,
};
use silverback_model::{SeriesId, SeriesRef};

/// A series' histograms.
#[derive(Debug)]
pub(super) struct SeriesHistograms {
    pub(super) open: OpenHistogram,
    /// Oldest first.
    pub(super) sealed: Vec<SealedHistogram>,
}

/// All histograms of a series, as its chunks.
#[derive(Debug, Default)]
pub(crate) struct HistogramChunks {
    /// Those that are cut, oldest first.
    pub(crate) sealed: Vec<SealedHistogram>,
    /// The open one, as if it were sealed now; `None` where the series has no histograms.
    pub(crate) open: Option<OpenChunk>,
}

/// An open chunk as bytes, and until when it is to take histograms.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    pub(crate) kind: HistogramKind,
    pub(crate) plan: EndPlan,
    pub(crate) bytes: Vec<u8>,
}

/// What is left of a series' histograms without a range of time.
#[derive(Debug)]
pub(crate) struct HistogramsWithout {
    /// How many are gone.
    pub(crate) gone: usize,
    /// The others.
    pub(crate) rest: HistogramChunks,
}

impl SeriesHistograms {
    fn newest_ms(&self) -> i64 {
        self.open.last_timestamp_ms()
    }

    fn oldest_ms(&self) -> i64 {
        self.sealed.first().map_or(self.open.first_timestamp_ms(), SealedHistogram::min_timestamp_ms)
    }

    /// What they take of the allocator.
    pub(super) fn bytes(&self) -> usize {
        self.open_bytes() + vec_bytes(&self.sealed) + self.sealed.iter().map(sealed_bytes).sum::<usize>()
    }

    pub(super) fn open_bytes(&self) -> usize {
        heap_bytes(size_of::<Self>()) + heap_bytes(self.open.heap_bytes())
    }

    fn chunks(&self) -> HistogramChunks {
        HistogramChunks { sealed: self.sealed.clone(), open: Some(OpenChunk::of(&self.open)) }
    }
}

impl OpenChunk {
    fn of(open: &OpenHistogram) -> Self {
        Self { kind: open.kind(), plan: open.plan(), bytes: open.to_bytes() }
    }
}

impl HistogramChunks {
    /// Of chunks, oldest first, of which the last goes on.
    fn of_sealed(mut sealed: Vec<SealedHistogram>) -> Self {
        let open = sealed.pop().map(|last| OpenChunk {
            kind: last.kind(),
            plan: EndPlan::of_range(last.min_timestamp_ms()),
            bytes: last.bytes().to_vec(),
        });
        Self { sealed, open }
    }

    /// The open one as the log has it.
    pub(crate) fn open(&self) -> Option<OpenHistogramBytes<'_>> {
        self.open.as_ref().map(|open| OpenHistogramBytes {
            kind: open.kind,
            plan: open.plan,
            bytes: &open.bytes,
        })
    }

    /// Out of the log.
    pub(crate) fn of_log(chunks: &LoggedHistogramChunks<'_>) -> Self {
        let restored = |chunk: SealedHistogramBytes<'_>| {
            SealedHistogram::restored(chunk.kind, chunk.min_ms, chunk.max_ms, chunk.bytes.into())
        };
        let open = chunks.open.map(|open| OpenChunk {
            kind: open.kind,
            plan: open.plan,
            bytes: open.bytes.to_vec(),
        });
        Self { sealed: chunks.sealed.clone().map(restored).collect(), open }
    }

    /// All of them in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| open.bytes.len());
        open + self.sealed.iter().map(|chunk| chunk.bytes().len()).sum::<usize>()
    }
}

pub(super) fn sealed_bytes(chunk: &SealedHistogram) -> usize {
    heap_bytes(chunk.bytes().len())
}

/// Bytes of an open chunk that may take as long as a sample's work, see [`SeriesStore::extra_work`], where it is appended to, ...
const OPEN_BYTES_OF_WORK: usize = 4;
/// ... and what it takes to decode one, in which there may be eight buckets.
const DECODED_WORK_OF_BYTE: usize = 3;

impl SeriesStore {
    /// Adds a series with its first histogram. `None`: no ref is left.
    pub(crate) fn create_with_histogram(
        &mut self,
        id: SeriesId,
        labels: Box<[LabelRef]>,
        timestamp_ms: i64,
        histogram: &Histogram,
    ) -> Option<SeriesRef> {
        let at = self.reserve()?;
        self.put_empty(at, id, labels);
        self.begin_histograms(at, timestamp_ms, histogram);
        Some(at)
    }

    /// Puts a series at a vacant ref that has nothing yet.
    pub(crate) fn put_empty(&mut self, at: SeriesRef, id: SeriesId, labels: Box<[LabelRef]>) {
        self.label_bytes += heap_bytes(size_of_val(&*labels));
        self.series.insert_at(at.0, Series::without_samples(id));
        self.histories.insert_at(at.0, SeriesHistory::of_labels(labels));
    }

    fn begin_histograms(&mut self, at: SeriesRef, timestamp_ms: i64, histogram: &Histogram) {
        let open = OpenHistogram::start(timestamp_ms, histogram, None);
        self.set_histograms(at, Some(SeriesHistograms { open, sealed: Vec::new() }));
    }

    /// Takes a valid histogram in, or returns why not. One that is older than the newest may be so by `late_window_ms`.
    /// Allocates where a chunk grows, widens or is cut, and for late ones.
    pub(crate) fn append_histogram(
        &mut self,
        at: SeriesRef,
        timestamp_ms: i64,
        histogram: &Histogram,
        late_window_ms: i64,
    ) -> Result<Appended, AppendError> {
        let Some(own) = &mut self.histories.get_mut(at.0).histograms else {
            self.begin_histograms(at, timestamp_ms, histogram);
            return Ok(Appended::Stored);
        };
        if timestamp_ms <= own.newest_ms() {
            return self.append_late_histogram(at, timestamp_ms, histogram, late_window_ms);
        }
        let before = own.open.heap_bytes();
        let sealed = own.open.append(timestamp_ms, histogram);
        let now = own.open.heap_bytes();
        // Mostly the chunk has room.
        if now != before {
            self.histogram_bytes += heap_bytes(now);
            self.histogram_bytes -= heap_bytes(before);
        }
        // A chunk of many buckets may have been written again, for one more.
        self.extra_work += now / OPEN_BYTES_OF_WORK;
        if let Some(sealed) = sealed {
            let before = vec_bytes(&own.sealed);
            self.histogram_bytes += sealed_bytes(&sealed);
            own.sealed.push(sealed);
            self.histogram_bytes += vec_bytes(&own.sealed);
            self.histogram_bytes -= before;
        }
        Ok(Appended::Stored)
    }

    /// The fingerprint of a series' histogram at a time, in ms.
    pub(super) fn histogram_hash_at(&mut self, at: SeriesRef, timestamp_ms: i64) -> Option<u64> {
        let (oldest_ms, newest_ms) = self.histogram_times(at)?;
        if !(oldest_ms..=newest_ms).contains(&timestamp_ms) {
            return None;
        }
        if !self.histogram_lookup.covers(at, timestamp_ms) {
            self.look_into_histograms(at, timestamp_ms);
        }
        self.histogram_lookup.hash_at(at, timestamp_ms)
    }

    /// Decodes the chunk that a time lies in, in ms, if there is one.
    fn look_into_histograms(&mut self, at: SeriesRef, timestamp_ms: i64) {
        let Some(own) = &self.histories.get(at.0).histograms else { return };
        let place = own.sealed.partition_point(|chunk| chunk.max_timestamp_ms() < timestamp_ms);
        match own.sealed.get(place) {
            Some(chunk) if chunk.overlaps(timestamp_ms, timestamp_ms) => {
                self.histogram_lookup.decode(at, chunk.histograms());
                self.extra_work += chunk.count() + DECODED_WORK_OF_BYTE * chunk.bytes().len();
            }
            None if own.open.first_timestamp_ms() <= timestamp_ms => {
                let bytes = own.open.to_bytes();
                self.histogram_lookup.decode(at, HistogramIter::new(own.open.kind(), &bytes));
                self.extra_work += own.open.count() + DECODED_WORK_OF_BYTE * bytes.len();
            }
            Some(_) | None => {}
        }
    }

    /// Whether a series has histograms.
    #[inline]
    pub(crate) fn has_histograms(&self, at: SeriesRef) -> bool {
        self.histogram_series > 0 && self.with_histograms.contains(at)
    }

    /// The times of a series' oldest and newest histogram, in ms.
    pub(crate) fn histogram_times(&self, at: SeriesRef) -> Option<(i64, i64)> {
        if !self.has_histograms(at) {
            return None;
        }
        let own = self.histories.get(at.0).histograms.as_ref()?;
        Some((own.oldest_ms(), own.newest_ms()))
    }

    /// Whether a series' histograms overlap a range of ms, both ends inclusive. Looks at times alone.
    pub(super) fn histograms_overlap(&self, at: SeriesRef, min_ms: i64, max_ms: i64) -> bool {
        let Some((oldest_ms, newest_ms)) = self.histogram_times(at) else { return false };
        if min_ms > newest_ms || max_ms < oldest_ms {
            return false;
        }
        min_ms <= oldest_ms
            || max_ms >= newest_ms
            || self.histogram_chunks(at, min_ms, max_ms).next().is_some()
    }

    /// The chunks that overlap a range of ms, both ends inclusive, oldest first; the open one as `None`, last.
    pub(crate) fn histogram_chunks(
        &self,
        at: SeriesRef,
        min_ms: i64,
        max_ms: i64,
    ) -> impl Iterator<Item = HistogramChunk<'_>> {
        let own = self.histories.get(at.0).histograms.as_deref();
        own.into_iter().flat_map(move |own| {
            let from = own.sealed.partition_point(|chunk| chunk.max_timestamp_ms() < min_ms);
            let sealed =
                own.sealed[from..].iter().take_while(move |chunk| chunk.min_timestamp_ms() <= max_ms);
            let open =
                (own.newest_ms() >= min_ms && own.open.first_timestamp_ms() <= max_ms).then_some(&own.open);
            sealed.map(HistogramChunk::Sealed).chain(open.map(HistogramChunk::Open))
        })
    }

    /// How many histograms a series has.
    pub(super) fn histograms(&self, at: SeriesRef) -> usize {
        let Some(own) = &self.histories.get(at.0).histograms else { return 0 };
        own.sealed.iter().map(SealedHistogram::count).sum::<usize>() + own.open.count()
    }

    /// All of a series' histograms, as the log has them.
    pub(crate) fn all_histograms(&self, at: SeriesRef) -> Option<HistogramChunks> {
        if !self.has_histograms(at) {
            return None;
        }
        self.histories.get(at.0).histograms.as_ref().map(|own| own.chunks())
    }

    /// Puts histograms in the place of those that a series has.
    pub(crate) fn replace_histograms(
        &mut self,
        at: SeriesRef,
        chunks: HistogramChunks,
    ) -> Result<(), HistogramChunkError> {
        let HistogramChunks { sealed, open } = chunks;
        let open = open.map(|open| OpenHistogram::resume(open.kind, &open.bytes, open.plan)).transpose()?;
        self.set_histograms(at, open.map(|open| SeriesHistograms { open, sealed }));
        Ok(())
    }

    /// Puts these in the place of what a series has.
    pub(super) fn set_histograms(&mut self, at: SeriesRef, histograms: Option<SeriesHistograms>) {
        self.histogram_lookup.forget(at);
        match histograms {
            Some(_) => self.with_histograms.insert(at),
            None => self.with_histograms.remove(at),
        }
        self.histogram_series += usize::from(histograms.is_some());
        self.histogram_bytes += histograms.as_ref().map_or(0, SeriesHistograms::bytes);
        let former =
            std::mem::replace(&mut self.histories.get_mut(at.0).histograms, histograms.map(Box::new));
        self.histogram_series -= usize::from(former.is_some());
        self.histogram_bytes -= former.as_ref().map_or(0, |former| former.bytes());
        if self.histogram_series == 0 {
            self.with_histograms = RefSet::default();
        }
    }

    /// What is left of a series' histograms without a range of ms; `None` where none is in it.
    pub(crate) fn without_histograms(
        &self,
        at: SeriesRef,
        range_ms: &RangeInclusive<i64>,
    ) -> Option<HistogramsWithout> {
        if !self.histograms_overlap(at, *range_ms.start(), *range_ms.end()) {
            return None;
        }
        let own = self.histories.get(at.0).histograms.as_ref()?;
        let (mut left, mut gone) = (Vec::new(), 0);
        for chunk in &own.sealed {
            gone += keep_outside(chunk, range_ms, &mut left);
        }
        let open = own.open.clone().seal();
        if !open.overlaps(*range_ms.start(), *range_ms.end()) {
            let rest = HistogramChunks { sealed: left, open: Some(OpenChunk::of(&own.open)) };
            return (gone > 0).then_some(HistogramsWithout { gone, rest });
        }
        gone += keep_outside(&open, range_ms, &mut left);
        (gone > 0).then(|| HistogramsWithout { gone, rest: HistogramChunks::of_sealed(left) })
    }

    /// Drops chunks of histograms that lie wholly before `horizon_ms`, and all where the newest does.
    pub(super) fn drop_histograms_before(&mut self, at: SeriesRef, horizon_ms: i64) {
        let Some((oldest_ms, newest_ms)) = self.histogram_times(at) else { return };
        if newest_ms < horizon_ms {
            self.set_histograms(at, None);
        } else if oldest_ms < horizon_ms
            && let Some(own) = &mut self.histories.get_mut(at.0).histograms
        {
            self.histogram_lookup.forget(at);
            self.histogram_bytes -= own.bytes();
            let expired = own.sealed.partition_point(|chunk| chunk.max_timestamp_ms() < horizon_ms);
            own.sealed.drain(..expired);
            own.sealed.shrink_to_fit();
            self.histogram_bytes += own.bytes();
        }
    }
}

/// One chunk of a series' histograms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HistogramChunk<'a> {
    /// One that is cut.
    Sealed(&'a SealedHistogram),
    /// The one that grows.
    Open(&'a OpenHistogram),
}

impl HistogramChunk<'_> {
    pub(crate) fn kind(&self) -> HistogramKind {
        match self {
            Self::Sealed(chunk) => chunk.kind(),
            Self::Open(chunk) => chunk.kind(),
        }
    }

    /// How many it has.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Sealed(chunk) => chunk.count(),
            Self::Open(chunk) => chunk.count(),
        }
    }

    /// The oldest and the newest timestamp, in ms.
    pub(crate) fn times(&self) -> (i64, i64) {
        match self {
            Self::Sealed(chunk) => (chunk.min_timestamp_ms(), chunk.max_timestamp_ms()),
            Self::Open(chunk) => (chunk.first_timestamp_ms(), chunk.last_timestamp_ms()),
        }
    }

    /// Appends its bytes, as if it were sealed now.
    pub(crate) fn put_bytes(&self, out: &mut Vec<u8>) {
        match self {
            Self::Sealed(chunk) => out.extend_from_slice(chunk.bytes()),
            Self::Open(chunk) => chunk.put_bytes(out),
        }
    }
}

/// Adds what of a chunk lies outside of the range, and returns how many histograms don't.
fn keep_outside(
    chunk: &SealedHistogram,
    range_ms: &RangeInclusive<i64>,
    left: &mut Vec<SealedHistogram>,
) -> usize {
    if !chunk.overlaps(*range_ms.start(), *range_ms.end()) {
        left.push(chunk.clone());
        return 0;
    }
    let (mut iter, mut histogram, mut gone) = (chunk.histograms(), Histogram::default(), 0);
    let mut open: Option<OpenHistogram> = None;
    while iter.samples_left() > 0 {
        let timestamp_ms = iter.next_into(&mut histogram).expect("the node's own chunks decode");
        if range_ms.contains(&timestamp_ms) {
            gone += 1;
            continue;
        }
        match &mut open {
            Some(open) => left.extend(open.append(timestamp_ms, &histogram)),
            None => open = Some(OpenHistogram::start(timestamp_ms, &histogram, None)),
        }
    }
    left.extend(open.map(OpenHistogram::seal));
    gone
}

impl Series {
    /// A series without a float.
    fn without_samples(id: SeriesId) -> Self {
        Self::of(id, OpenXor::EMPTY)
    }
}
