//! Batches of series: labels and chunks are copied once, from where they lie into one piece of memory.
//!
//! A step looks ahead: what its series begin with is on its way from memory before the first of them is read.

use crate::message::{ReadError, Selection, SeriesBatch, SeriesBatchBuilder, Wanted};
use crate::shard::read::cursors::{Cursor, Found, Rows};
use crate::shard::read::job::Job;
use crate::shard::{Host, Shard};
use silverback_model::gorilla::SealedChunk;

/// A step between two looks at the slice adds so many series, ...
const STEP_SERIES: usize = 16;
/// ... so many chunks, ...
const STEP_CHUNKS: usize = 64;
/// ... and so many bytes at the most, but for the last one's: some 10 µs. A batch pays for them afterwards.
const STEP_BYTES: usize = 16 << 10;

/// What a series has, about, in bytes: a batch has room for so much before it is filled.
const SERIES_BYTES: usize = 512;
/// Its labels alone.
const LABELS_BYTES: usize = 256;

/// The next series of a cursor, about `bytes` of them.
pub(super) async fn next_batch<H: Host>(
    job: &Job<H>,
    cursor: &mut Cursor,
    bytes: usize,
) -> Result<SeriesBatch, ReadError> {
    let Cursor { rows, next, selection, wanted, .. } = cursor;
    let Rows::Series(found) = rows else { unreachable!("the cursor is one over series") };
    let usual_bytes = if *wanted == Wanted::Chunks { SERIES_BYTES } else { LABELS_BYTES };
    let room = bytes.min((found.len() - *next) * usual_bytes);
    let mut reserved = job.memory.nothing();
    // An eighth for where each lies.
    job.pay(&mut reserved, room + room / 8).await?;
    let mut filling = Filling {
        found,
        next,
        selection,
        with_chunks: *wanted == Wanted::Chunks,
        batch: SeriesBatchBuilder::with_room(room / usual_bytes, room),
        bytes,
        rest_from_ms: None,
    };
    while !filling.is_done() {
        filling.step(&job.shard.borrow());
        job.pay(&mut reserved, filling.batch.bytes()).await?;
        job.yield_if_needed().await?;
    }
    Ok(filling.batch.finish())
}

/// A batch and what goes into it.
struct Filling<'a> {
    found: &'a [Found],
    /// The first that isn't in it.
    next: &'a mut usize,
    selection: &'a Selection,
    with_chunks: bool,
    batch: SeriesBatchBuilder,
    bytes: usize,
    /// From when on the last one's chunks are still to be added.
    rest_from_ms: Option<i64>,
}

/// What a step may still add.
struct StepLeft {
    chunks: usize,
    /// Up to a batch of so many bytes.
    bytes: usize,
}

impl Filling<'_> {
    fn is_done(&self) -> bool {
        self.rest_from_ms.is_none() && (*self.next == self.found.len() || self.batch.bytes() >= self.bytes)
    }

    fn step(&mut self, shard: &Shard) {
        let bytes = self.bytes.min(self.batch.bytes() + STEP_BYTES);
        let mut left = StepLeft { chunks: STEP_CHUNKS, bytes };
        if let Some(from_ms) = self.rest_from_ms.take() {
            let one = self.found[*self.next - 1];
            self.add_chunks(shard, one, from_ms, &mut left);
        }
        let series = &self.found[*self.next..self.found.len().min(*self.next + STEP_SERIES)];
        if self.is_open(&left) {
            self.look_ahead(shard, series);
        }
        for one in series {
            if !self.is_open(&left) {
                break;
            }
            *self.next += 1;
            self.add_series(shard, *one, &mut left);
        }
    }

    fn is_open(&self, left: &StepLeft) -> bool {
        self.rest_from_ms.is_none() && left.chunks > 0 && self.batch.bytes() < left.bytes
    }

    fn look_ahead(&self, shard: &Shard, series: &[Found]) {
        let store = &shard.store;
        series.iter().for_each(|one| store.prefetch_history(one.series));
        series.iter().for_each(|one| store.prefetch_lists(one.series));
        if self.with_chunks {
            let Selection { min_ms, max_ms, .. } = *self.selection;
            series.iter().for_each(|one| store.prefetch_chunks(one.series, min_ms, max_ms));
        }
    }

    /// Adds a found series; not where it is gone or has nothing in the range.
    fn add_series(&mut self, shard: &Shard, one: Found, left: &mut StepLeft) {
        if !one.is(shard.store.id(one.series)) || !shard.overlaps(one.series, self.selection) {
            return;
        }
        let labels = shard.store.labels(one.series);
        self.batch.begin_series(|out| shard.index.put_canonical(labels, out));
        if self.with_chunks {
            self.add_chunks(shard, one, self.selection.min_ms, left);
        }
    }

    /// Adds the chunks from a time on to the series that was begun last, or as many as the step may.
    fn add_chunks(&mut self, shard: &Shard, one: Found, from_ms: i64, left: &mut StepLeft) {
        // It may have gone since it was begun.
        if one.is(shard.store.id(one.series)) {
            let max_ms = self.selection.max_ms;
            let added_to_ms = shard.add_chunks(one, (from_ms, max_ms), &mut self.batch, left);
            self.rest_from_ms = added_to_ms.filter(|to_ms| *to_ms < max_ms).map(|to_ms| to_ms + 1);
        }
        if self.rest_from_ms.is_none() && !self.batch.has_chunk() {
            self.batch.drop_series();
        }
    }
}

impl Shard {
    /// Adds some chunks of a range to a batch, oldest first, the open one as if it were sealed now. The
    /// newest sample's time where there may be more.
    fn add_chunks(
        &self,
        Found { series, .. }: Found,
        (min_ms, max_ms): (i64, i64),
        batch: &mut SeriesBatchBuilder,
        left: &mut StepLeft,
    ) -> Option<i64> {
        let sealed = self.store.sealed_between(series, min_ms, max_ms);
        let now = &sealed[..sealed.len().min(left.chunks)];
        for chunk in now {
            let (min_ms, max_ms) = (chunk.min_timestamp_ms(), chunk.max_timestamp_ms());
            batch.add_chunk(min_ms, max_ms, |out| out.extend_from_slice(chunk.bytes()));
        }
        left.chunks -= now.len();
        if now.len() < sealed.len() {
            return now.last().map(SealedChunk::max_timestamp_ms);
        }
        if let Some((min_ms, max_ms)) = self.store.open_between(series, min_ms, max_ms) {
            batch.add_chunk(min_ms, max_ms, |out| self.store.put_open_chunk(series, out));
        }
        None
    }
}
