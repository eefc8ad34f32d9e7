//! Batches of series: labels and chunks are copied once, from where they are into one piece of memory.
//!
//! A step looks ahead: what later ones begin with is on its way from memory before they come.

use super::OrEnds;
use crate::cell::rest;
use crate::message::{ChunkOf, ExternalView, Selection, SeriesBatch, SeriesBatchBuilder, Wanted};
use crate::shard::read::cursors::{CursorRows, FoundSeries, ReadCursor};
use crate::shard::read::job::ReadJob;
use crate::shard::read::label_sets::LabelSets;
use crate::shard::{Host, Shard};
use silverback_model::gorilla::SealedChunk;

/// A step between two looks at the slice adds so many series, ...
const STEP_SERIES: usize = 16;
/// ... so many chunks, ...
const STEP_CHUNKS: usize = 64;
/// ... and so many bytes at most, but for the last one's: some 10 µs. A batch pays for them afterwards.
const STEP_BYTES: usize = 16 << 10;

/// Late samples that are folded first take as long as so many chunks that are copied.
const FOLD_CHUNKS: usize = 16;

/// What a series has, about, in bytes: a batch has room for so much before it is filled.
const SERIES_BYTES: usize = 512;
/// Its labels alone.
const LABELS_BYTES: usize = 256;

/// The next series of a cursor, about `bytes` of them.
pub(super) async fn next_batch<H: Host>(
    job: &ReadJob<H>,
    cursor: &mut ReadCursor,
    bytes: usize,
) -> OrEnds<SeriesBatch> {
    let ReadCursor { rows, next, selection, wanted, .. } = cursor;
    let (CursorRows::Series(found), Wanted::Series(wanted)) = (rows, &*wanted) else {
        unreachable!("the cursor is one over series")
    };
    let with_chunks = wanted.has_chunks();
    let usual_bytes = if with_chunks { SERIES_BYTES } else { LABELS_BYTES };
    let room = bytes.min((found.len() - *next) * usual_bytes);
    let mut reserved = job.memory.nothing();
    // An eighth for where each is.
    job.pay(&mut reserved, room + room / 8).await?;
    let mut filling = Filling {
        found,
        next,
        selection,
        view: wanted.view(),
        with_chunks,
        label_sets: LabelSets::default(),
        batch: SeriesBatchBuilder::with_room(room / usual_bytes, room),
        bytes,
        added_to_ms: None,
        histograms_from_ms: None,
    };
    filling.begin_look_ahead(&job.shard.borrow());
    while !filling.is_done() {
        filling.step(&mut job.shard.borrow_mut());
        job.pay(&mut reserved, filling.batch.bytes()).await?;
        job.yield_if_needed().await?;
    }
    Ok(filling.batch.finish())
}

/// A batch and what goes into it.
struct Filling<'a> {
    found: &'a [FoundSeries],
    /// The first that isn't in it.
    next: &'a mut usize,
    selection: &'a Selection,
    view: Option<&'a ExternalView>,
    with_chunks: bool,
    label_sets: LabelSets,
    batch: SeriesBatchBuilder,
    bytes: usize,
    /// Up to when the last one's samples are in it, in ms, where the others are still to be added.
    added_to_ms: Option<i64>,
    /// From when on its native histograms are still to be added, in ms, where they are: they come after its floats.
    histograms_from_ms: Option<i64>,
}

/// What a step may still add.
struct StepLeft {
    chunks: usize,
    /// Up to a batch of so many bytes.
    bytes: usize,
}

impl<'a> Filling<'a> {
    fn is_done(&self) -> bool {
        self.is_between_series() && (*self.next == self.found.len() || self.batch.bytes() >= self.bytes)
    }

    fn step(&mut self, shard: &mut Shard) {
        self.label_sets.forget();
        let mut left = StepLeft { chunks: STEP_CHUNKS, bytes: self.batch.bytes() + STEP_BYTES };
        if let Some(to_ms) = self.added_to_ms.take() {
            let one = self.found[*self.next - 1];
            self.add_chunks(shard, one, Some(to_ms), &mut left);
        } else if let Some(from_ms) = self.histograms_from_ms.take() {
            let one = self.found[*self.next - 1];
            self.add_histograms(shard, one, from_ms, &mut left);
        }
        if self.is_open(&left) {
            self.look_ahead(shard);
        }
        for one in self.steps_ahead(0) {
            if !self.is_open(&left) {
                break;
            }
            *self.next += 1;
            self.add_series(shard, *one, &mut left);
        }
    }

    /// Whether the step may begin a series. One that was begun is added to its end, full as the batch may be by then.
    fn is_open(&self, left: &StepLeft) -> bool {
        let bytes_max = left.bytes.min(self.bytes);
        self.is_between_series() && left.chunks > 0 && self.batch.bytes() < bytes_max
    }

    /// The series that come so many steps later, where steps end by their number.
    fn steps_ahead(&self, steps: usize) -> &'a [FoundSeries] {
        let left = &self.found[*self.next..];
        left.chunks(STEP_SERIES).nth(steps).unwrap_or_default()
    }

    /// Brings near what the first steps' looks ahead would have had to find there.
    fn begin_look_ahead(&self, shard: &Shard) {
        [0, 1].iter().for_each(|steps| self.look_at_histories(shard, *steps));
        self.look_at_lists(shard, 0);
    }

    /// A series' chunks are found by its lists and these by its history: so each is looked for one step later.
    fn look_ahead(&self, shard: &Shard) {
        self.look_at_histories(shard, 2);
        self.look_at_lists(shard, 1);
        if self.with_chunks {
            let Selection { min_ms, max_ms, .. } = *self.selection;
            let series = self.steps_ahead(0).iter();
            series.for_each(|one| shard.store.prefetch_chunks(one.series, min_ms, max_ms));
        }
    }

    fn look_at_histories(&self, shard: &Shard, steps: usize) {
        self.steps_ahead(steps).iter().for_each(|one| shard.store.prefetch_history(one.series));
    }

    fn look_at_lists(&self, shard: &Shard, steps: usize) {
        self.steps_ahead(steps).iter().for_each(|one| shard.store.prefetch_lists(one.series));
    }

    /// Adds a found series; not where it is gone or has nothing in the range.
    fn add_series(&mut self, shard: &mut Shard, one: FoundSeries, left: &mut StepLeft) {
        if !one.is(shard.store.id(one.series)) || !shard.overlaps(one.series, self.selection) {
            return;
        }
        self.begin_series(shard, one);
        if self.view.is_some_and(|view| !view.holds(self.batch.last_labels())) {
            self.drop_series();
            return;
        }
        if self.with_chunks {
            if shard.store.fold_late(one.series) {
                left.chunks = left.chunks.saturating_sub(FOLD_CHUNKS).max(1);
            }
            self.add_chunks(shard, one, None, left);
        }
    }

    fn begin_series(&mut self, shard: &Shard, one: FoundSeries) {
        let (index, labels) = (&shard.index, shard.store.labels(one.series));
        self.batch.begin_series(|out| match self.view {
            None => self.label_sets.put(index, labels, out),
            Some(view) => view.put_labels(labels.iter().map(|label| index.text(*label)), out),
        });
    }

    /// Adds the chunks after a time to the series that was begun last, or as many as the step may.
    fn add_chunks(&mut self, shard: &Shard, one: FoundSeries, added_to_ms: Option<i64>, left: &mut StepLeft) {
        // It may have gone since it was begun.
        if one.is(shard.store.id(one.series)) {
            let added_to_ms = shard.add_chunks(one, self.selection, added_to_ms, &mut self.batch, left);
            self.added_to_ms = added_to_ms.filter(|to_ms| *to_ms < self.selection.max_ms);
        }
        if self.added_to_ms.is_none() {
            self.add_histograms(shard, one, self.selection.min_ms, left);
        }
    }

    /// Adds chunks of native histograms from a time on to the series that was begun last, or as many as the step may.
    fn add_histograms(&mut self, shard: &Shard, one: FoundSeries, from_ms: i64, left: &mut StepLeft) {
        if one.is(shard.store.id(one.series)) && shard.store.has_histograms(one.series) {
            let range_ms = (from_ms, self.selection.max_ms);
            self.histograms_from_ms = shard.add_histograms(one, range_ms, &mut self.batch, left);
        }
        if self.histograms_from_ms.is_none() {
            self.end_series();
        }
    }

    fn end_series(&mut self) {
        if self.batch.has_chunk() {
            self.batch.sort_chunks();
        } else {
            self.drop_series();
        }
    }

    fn drop_series(&mut self) {
        self.batch.drop_series();
        self.label_sets.forget();
    }

    fn is_between_series(&self) -> bool {
        self.added_to_ms.is_none() && self.histograms_from_ms.is_none()
    }
}

impl Shard {
    /// Adds some chunks of native histograms of a range to a batch, oldest first. From when on there are more, in ms.
    fn add_histograms(
        &self,
        FoundSeries { series, .. }: FoundSeries,
        (from_ms, max_ms): (i64, i64),
        batch: &mut SeriesBatchBuilder,
        left: &mut StepLeft,
    ) -> Option<i64> {
        for chunk in self.store.histogram_chunks(series, from_ms, max_ms) {
            let (min_ms, max_ms) = chunk.times();
            if left.chunks == 0 || batch.bytes() >= left.bytes {
                return Some(min_ms);
            }
            left.chunks -= 1;
            batch.add_chunk_of(ChunkOf::Histograms(chunk.kind()), min_ms, max_ms, |out| chunk.put_bytes(out));
        }
        None
    }

    /// Adds some chunks of a range to a batch, oldest first, the open one as if it were sealed now; after a time
    /// where samples up to then are in the batch. The newest sample's time where there may be more.
    fn add_chunks(
        &self,
        FoundSeries { series, .. }: FoundSeries,
        selection: &Selection,
        added_to_ms: Option<i64>,
        batch: &mut SeriesBatchBuilder,
        left: &mut StepLeft,
    ) -> Option<i64> {
        let min_ms = added_to_ms.map_or(selection.min_ms, |to_ms| to_ms.saturating_add(1));
        let sealed = self.store.sealed_between(series, min_ms, selection.max_ms);
        let now = &sealed[..sealed.len().min(left.chunks)];
        now.iter().for_each(|chunk| add_after(added_to_ms, chunk, batch));
        left.chunks -= now.len();
        if now.len() < sealed.len() {
            return now.last().map(SealedChunk::max_timestamp_ms);
        }
        match self.store.open_between(series, min_ms, selection.max_ms) {
            Some((oldest_ms, newest_ms)) if added_to_ms.is_none_or(|to_ms| to_ms < oldest_ms) => {
                batch.add_chunk(oldest_ms, newest_ms, |out| self.store.put_open_chunk(series, out));
            }
            Some(_) => add_after(added_to_ms, &self.store.open_chunk(series), batch),
            None => {}
        }
        None
    }
}

/// Adds a chunk, or what of it is after a time: late samples that were folded meanwhile may have joined what is in the
/// batch already with what isn't.
fn add_after(added_to_ms: Option<i64>, chunk: &SealedChunk, batch: &mut SeriesBatchBuilder) {
    let rest = match added_to_ms {
        Some(to_ms) if to_ms >= chunk.min_timestamp_ms() => rest::from_time(chunk, to_ms.saturating_add(1)),
        Some(_) | None => None,
    };
    let chunk = rest.as_ref().unwrap_or(chunk);
    let (min_ms, max_ms) = (chunk.min_timestamp_ms(), chunk.max_timestamp_ms());
    batch.add_chunk(min_ms, max_ms, |out| out.extend_from_slice(chunk.bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::rest::write_anew;
    use silverback_model::Sample;

    #[test]
    fn of_a_chunk_that_is_in_the_batch_in_part_the_rest_is_added() {
        let mut chunks = Vec::new();
        write_anew((0..10).map(|at| Sample::new(at, at as f64)), &mut chunks);
        let check = |added_to_ms: Option<i64>, expect: &[i64]| {
            let mut batch = SeriesBatchBuilder::with_room(1, 100);
            batch.begin_series(|_| {});
            add_after(added_to_ms, &chunks[0], &mut batch);
            let batch = batch.finish();
            let chunk = batch.get(0).chunks().next().unwrap();
            let times: Vec<i64> = chunk.samples().map(|sample| sample.unwrap().timestamp_ms).collect();
            assert_eq!(times, expect);
        };
        check(None, &(0..10).collect::<Vec<_>>());
        check(Some(-1), &(0..10).collect::<Vec<_>>());
        check(Some(7), &[8, 9]);
    }
}
