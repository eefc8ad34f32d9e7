//! Series: those that match, sorted by their labels, and batches of them with their chunks.

use std::cmp::Ordering;

use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::message::{ReadError, Selection, SeriesBatch, SeriesBatchBuilder, Wanted};
use crate::model::Matcher;
use crate::shard::index::Moment;
use crate::shard::read::cursors::{Cursor, Found, Rows};
use crate::shard::read::job::Job;
use crate::shard::read::matching::answered;
use crate::shard::read::memory::Reservation;
use crate::shard::read::sort::{sort_bytes, sort_in_slices};
use crate::shard::{Host, Shard};

/// Series that are looked at between two looks at the slice: some µs.
const STEP: usize = 32;

/// Up to so many series are sorted by a copy of their label refs: some MiB.
const FLAT_SERIES_MAX: usize = 64 << 10;

/// Chunks that are copied between two looks at the slice: some 10 µs.
const CHUNKS_STEP: usize = 64;

/// How often series are looked for again, at the most, while refs are let go of.
const TRIES: usize = 8;

/// Finds the series of a selection and sorts them by their labels.
pub(super) async fn find<H: Host>(
    job: &Job<H>,
    selection: &Selection,
) -> Result<(Rows, Reservation), ReadError> {
    match unless_reused(job, async || find_once(job, selection).await).await? {
        Some(found) => Ok(found),
        // Series that come meanwhile may be in it or not, and then stand where those that went stood.
        None => find_once(job, selection).await,
    }
}

/// Looks for series until no ref may have got another one meanwhile: that would stand where the former one belongs, and
/// need not match. `None`: too many come and go.
async fn unless_reused<H: Host, T>(
    job: &Job<H>,
    find: impl AsyncFn() -> Result<T, ReadError>,
) -> Result<Option<T>, ReadError> {
    for _ in 0..TRIES {
        let freed = job.shard.borrow().store.freed();
        let found = find().await?;
        if job.shard.borrow().store.freed() == freed {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn find_once<H: Host>(job: &Job<H>, selection: &Selection) -> Result<(Rows, Reservation), ReadError> {
    let series = answered(job, &selection.matchers).await?;
    let count = series.bitmap.len() as usize;
    // As refs, which are sorted, and then as what is kept.
    let kept_bytes = count * size_of::<Found>();
    let refs_bytes = count * size_of::<SeriesRef>();
    let mut reserved = job.reserve(refs_bytes + kept_bytes.max(sort_bytes::<SeriesRef>(count))).await?;
    let refs = present(job, &series.bitmap).await?;
    drop(series);
    let refs = match refs.len() <= FLAT_SERIES_MAX {
        true => sort_flat(job, refs).await?,
        false => {
            let moment = job.shard.borrow().index.now();
            sort_in_slices(refs, job, |a, b| job.shard.borrow().compare(*a, *b, moment)).await?
        }
    };
    let found = found(job, &refs).await?;
    drop(refs);
    reserved.shrink_to(kept_bytes);
    Ok((Rows::Series(found), reserved))
}

/// The series that match, in no order that means something, and their memory.
#[derive(Debug)]
pub(in crate::shard) struct Matched {
    pub(in crate::shard) series: Vec<Found>,
    _reserved: Reservation,
}

/// Finds the series that match, for somebody who does to them what must be done to no other.
pub(super) async fn matched<H: Host>(job: &Job<H>, matchers: &[Matcher]) -> Result<Matched, ReadError> {
    let matched = unless_reused(job, async || matched_once(job, matchers).await).await?;
    matched.ok_or(ReadError::Moved)
}

async fn matched_once<H: Host>(job: &Job<H>, matchers: &[Matcher]) -> Result<Matched, ReadError> {
    let series = answered(job, matchers).await?;
    let count = series.bitmap.len() as usize;
    let mut reserved = job.reserve(count * (size_of::<SeriesRef>() + size_of::<Found>())).await?;
    let found = found(job, &present(job, &series.bitmap).await?).await?;
    reserved.shrink_to(count * size_of::<Found>());
    Ok(Matched { series: found, _reserved: reserved })
}

/// With what tells each from others that may have its ref later.
async fn found<H: Host>(job: &Job<H>, refs: &[SeriesRef]) -> Result<Vec<Found>, ReadError> {
    let mut found = Vec::with_capacity(refs.len());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            found.extend(step.iter().map(|series| Found::new(*series, shard.store.id(*series))));
        }
        job.yield_if_needed().await?;
    }
    Ok(found)
}

/// A series and where its labels lie among those of all.
#[derive(Debug, Clone, Copy)]
struct Flat {
    series: SeriesRef,
    begin: u32,
    end: u32,
}

/// Sorts series by a copy of their label refs that lies in one piece: else each comparison begins with
/// two loads from memory that nothing is near.
async fn sort_flat<H: Host>(job: &Job<H>, refs: Vec<SeriesRef>) -> Result<Vec<SeriesRef>, ReadError> {
    let mut reserved = job.reserve(2 * refs.len() * size_of::<Flat>()).await?;
    let (mut rows, mut labels) = (Vec::with_capacity(refs.len()), Vec::new());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            for series in step {
                let begin = labels.len() as u32;
                labels.extend_from_slice(shard.store.labels(*series));
                rows.push(Flat { series: *series, begin, end: labels.len() as u32 });
            }
        }
        let owed = labels.capacity() * size_of::<LabelRef>() + 2 * refs.len() * size_of::<Flat>();
        job.pay(&mut reserved, owed).await?;
        job.yield_if_needed().await?;
    }
    // All of these labels were there by now.
    let moment = job.shard.borrow().index.now();
    let labels_of = |row: &Flat| &labels[row.begin as usize..row.end as usize];
    let sorted = sort_in_slices(rows, job, |a, b| {
        job.shard.borrow().index.compare(labels_of(a), labels_of(b), moment)
    });
    Ok(sorted.await?.into_iter().map(|row| row.series).collect())
}

/// Those that are still there.
async fn present<H: Host>(job: &Job<H>, series: &RoaringBitmap) -> Result<Vec<SeriesRef>, ReadError> {
    let mut present = Vec::with_capacity(series.len() as usize);
    for (i, series) in series.iter().enumerate() {
        let series = SeriesRef(series);
        if job.shard.borrow().store.holds(series) {
            present.push(series);
        }
        if i % STEP == STEP - 1 {
            job.yield_if_needed().await?;
        }
    }
    Ok(present)
}

/// The next series of a cursor, about `bytes` of them.
pub(super) async fn next_batch<H: Host>(
    job: &Job<H>,
    cursor: &mut Cursor,
    bytes: usize,
) -> Result<SeriesBatch, ReadError> {
    let mut batch = SeriesBatchBuilder::default();
    let mut reserved = job.memory.nothing();
    while !cursor.is_at_end() && batch.bytes() < bytes {
        let Rows::Series(found) = &cursor.rows else { unreachable!("the cursor is one over series") };
        let one = found[cursor.next];
        cursor.next += 1;
        add_series(job, one, cursor, &mut batch, &mut reserved).await?;
        job.pay(&mut reserved, batch.bytes()).await?;
        job.yield_if_needed().await?;
    }
    Ok(batch.finish())
}

/// Adds a found series; not where it is gone or has nothing in the range. What it takes is paid as it grows.
async fn add_series<H: Host>(
    job: &Job<H>,
    one: Found,
    Cursor { selection, wanted, .. }: &Cursor,
    batch: &mut SeriesBatchBuilder,
    reserved: &mut Reservation,
) -> Result<(), ReadError> {
    let mut from_ms = selection.min_ms;
    {
        let shard = job.shard.borrow();
        if !one.is(shard.store.id(one.series)) || !shard.overlaps(one.series, selection) {
            return Ok(());
        }
        let labels = shard.store.labels(one.series);
        batch.begin_series(|out| shard.index.put_canonical(labels, out));
    }
    if *wanted != Wanted::Chunks {
        return Ok(());
    }
    loop {
        let added = {
            let shard = job.shard.borrow();
            let is_same = one.is(shard.store.id(one.series));
            if is_same { shard.add_chunks(one.series, from_ms, selection.max_ms, batch) } else { None }
        };
        match added {
            Some(last_ms) if last_ms < selection.max_ms => from_ms = last_ms + 1,
            Some(_) | None => break,
        }
        job.pay(reserved, batch.bytes()).await?;
        job.yield_if_needed().await?;
    }
    if !batch.has_chunk() {
        batch.drop_series();
    }
    Ok(())
}

impl Shard {
    fn compare(&self, a: SeriesRef, b: SeriesRef, moment: Moment) -> Ordering {
        self.index.compare(self.store.labels(a), self.store.labels(b), moment)
    }

    /// Whether a series has a chunk that overlaps the range: by the chunks' times alone.
    pub(super) fn overlaps(&self, series: SeriesRef, selection: &Selection) -> bool {
        // A range that ends before it begins has nothing in it, though a chunk may lie around it.
        let is_range = selection.min_ms <= selection.max_ms;
        is_range
            && self.store.holds(series)
            && self.store.overlaps(series, selection.min_ms, selection.max_ms)
    }

    /// Adds some chunks of a range to a batch, oldest first, the open one as if it were sealed now. The
    /// newest sample's time where there may be more.
    fn add_chunks(
        &self,
        series: SeriesRef,
        min_ms: i64,
        max_ms: i64,
        batch: &mut SeriesBatchBuilder,
    ) -> Option<i64> {
        let sealed = self.store.sealed_between(series, min_ms, max_ms);
        let now = &sealed[..sealed.len().min(CHUNKS_STEP)];
        for chunk in now {
            let (min_ms, max_ms) = (chunk.min_timestamp_ms(), chunk.max_timestamp_ms());
            batch.add_chunk(min_ms, max_ms, |out| out.extend_from_slice(chunk.bytes()));
        }
        if now.len() < sealed.len() {
            return now.last().map(crate::gorilla::SealedChunk::max_timestamp_ms);
        }
        if let Some((min_ms, max_ms)) = self.store.open_between(series, min_ms, max_ms) {
            batch.add_chunk(min_ms, max_ms, |out| self.store.put_open_chunk(series, out));
        }
        None
    }
}
