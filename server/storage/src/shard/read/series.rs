//! Series: those that match and have something in the range, sorted by their labels.

use roaring::RoaringBitmap;

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::message::{ExternalView, Selection, ShardReadError};
use crate::shard::read::by_labels::sort_by_labels;
use crate::shard::read::cursors::{CursorRows, FoundSeries};
use crate::shard::read::exemplars;
use crate::shard::read::job::ReadJob;
use crate::shard::read::matching::{Answered, answered};
use crate::shard::read::memory::ReadReservation;
use crate::shard::read::order::Order;
use crate::shard::{Host, Shard};
use silverback_model::Matcher;

/// Series that are looked at between two looks at the slice: some µs.
const STEP: usize = 32;

/// How often series are looked for again, at most, while refs are freed.
const TRIES: usize = 8;

/// Finds the series of a selection and sorts them by their labels, or by what is seen of these.
pub(super) async fn find<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
    view: Option<&ExternalView>,
) -> OrEnds<(CursorRows, ReadReservation)> {
    find_at_last(job, async || {
        let series = answered(job, &selection.matchers).await?;
        rows_of(job, selection, view, series).await
    })
    .await
}

/// The same of those that a cut of the range is of, which begins where the selection does.
pub(super) async fn find_uncut<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
) -> OrEnds<(CursorRows, ReadReservation)> {
    find_at_last(job, async || {
        let mut series = answered(job, &selection.matchers).await?;
        series.bitmap &= job.shard.borrow().late_marks.taken(selection.min_ms);
        rows_of(job, selection, None, series).await
    })
    .await
}

/// The same of those that have an exemplar in the range, whatever samples they have.
pub(super) async fn find_with_exemplars<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
) -> OrEnds<(CursorRows, ReadReservation)> {
    find_at_last(job, async || find_with_exemplars_once(job, selection).await).await
}

async fn find_with_exemplars_once<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
) -> OrEnds<(CursorRows, ReadReservation)> {
    let series = answered(job, &selection.matchers).await?;
    let count = job.shard.borrow().exemplars.series_count();
    let reserved = reserve_rows(job, count).await?;
    let refs = exemplars::in_range(job, &series.bitmap, selection).await?;
    drop(series);
    let order = Order::new(None, &job.shard.borrow().index);
    kept_rows(job, sort_by_labels(job, refs, &order).await?, reserved).await
}

/// Looks for series as [`unless_reused`] does, and where too many come and go, once more: series that come meanwhile may be
/// in it or not, and then are where those that went were.
async fn find_at_last<H: Host, T>(job: &ReadJob<H>, find: impl AsyncFn() -> OrEnds<T>) -> OrEnds<T> {
    match unless_reused(job, &find).await? {
        Some(found) => Ok(found),
        None => find().await,
    }
}

/// Looks for series until no ref may have got another one meanwhile: that would be where the former one belongs, and
/// need not match. `None`: too many come and go.
async fn unless_reused<H: Host, T>(job: &ReadJob<H>, find: impl AsyncFn() -> OrEnds<T>) -> OrEnds<Option<T>> {
    for _ in 0..TRIES {
        let freed = job.shard.borrow().store.freed();
        let found = find().await?;
        if job.shard.borrow().store.freed() == freed {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn rows_of<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
    view: Option<&ExternalView>,
    series: Answered,
) -> OrEnds<(CursorRows, ReadReservation)> {
    let reserved = reserve_rows(job, series.bitmap.len() as usize).await?;
    let refs = in_range(job, &series.bitmap, selection).await?;
    drop(series);
    let order = Order::new(view, &job.shard.borrow().index);
    kept_rows(job, sort_by_labels(job, refs, &order).await?, reserved).await
}

/// Of so many series: a ref of each, and as much beside it as is kept of it, which its sorting takes before.
async fn reserve_rows<H: Host>(job: &ReadJob<H>, count: usize) -> OrEnds<ReadReservation> {
    job.reserve(count * (size_of::<SeriesRef>() + size_of::<FoundSeries>())).await
}

async fn kept_rows<H: Host>(
    job: &ReadJob<H>,
    refs: Vec<SeriesRef>,
    mut reserved: ReadReservation,
) -> OrEnds<(CursorRows, ReadReservation)> {
    let found = found(job, &refs).await?;
    drop(refs);
    reserved.shrink_to(found.capacity() * size_of::<FoundSeries>());
    Ok((CursorRows::Series(found), reserved))
}

/// The series that match, in no order that means something, and their memory.
#[derive(Debug)]
pub(in crate::shard) struct Matched {
    pub(in crate::shard) series: Vec<FoundSeries>,
    _reserved: ReadReservation,
}

/// Finds the series that match, for somebody who does to them what must be done to no other.
pub(super) async fn matched<H: Host>(job: &ReadJob<H>, matchers: &[Matcher]) -> OrEnds<Matched> {
    let matched = unless_reused(job, async || matched_once(job, matchers).await).await?;
    matched.ok_or(ShardReadError::Moved)
}

async fn matched_once<H: Host>(job: &ReadJob<H>, matchers: &[Matcher]) -> OrEnds<Matched> {
    let series = answered(job, matchers).await?;
    let count = series.bitmap.len() as usize;
    let mut reserved = job.reserve(count * (size_of::<SeriesRef>() + size_of::<FoundSeries>())).await?;
    let found = found(job, &present(job, &series.bitmap).await?).await?;
    reserved.shrink_to(count * size_of::<FoundSeries>());
    Ok(Matched { series: found, _reserved: reserved })
}

/// With what tells each from others that may have its ref later.
async fn found<H: Host>(job: &ReadJob<H>, refs: &[SeriesRef]) -> OrEnds<Vec<FoundSeries>> {
    let mut found = Vec::with_capacity(refs.len());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            let ids = step.iter().map(|series| (*series, shard.store.id(*series)));
            // A ref may have been given meanwhile to a series of a cell that another shard answers for.
            let own = ids.filter(|(_, id)| shard.ownership.answers(id.cell(), job.epoch));
            found.extend(own.map(|(series, id)| FoundSeries::new(series, id)));
        }
        job.yield_if_needed().await?;
    }
    Ok(found)
}

/// Those that are still there.
async fn present<H: Host>(job: &ReadJob<H>, series: &RoaringBitmap) -> OrEnds<Vec<SeriesRef>> {
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

/// Those that are still there and have something in the range: by their chunks' times alone.
async fn in_range<H: Host>(
    job: &ReadJob<H>,
    series: &RoaringBitmap,
    selection: &Selection,
) -> OrEnds<Vec<SeriesRef>> {
    let mut found = Vec::with_capacity(series.len() as usize);
    let (mut series, mut step) = (series.iter().map(SeriesRef), Vec::with_capacity(STEP));
    while series.len() > 0 {
        step.clear();
        step.extend(series.by_ref().take(STEP));
        {
            let shard = job.shard.borrow();
            shard.prefetch_times(&step, selection);
            found.extend(step.iter().filter(|one| shard.overlaps(**one, selection)));
        }
        job.yield_if_needed().await?;
    }
    Ok(found)
}

impl Shard {
    /// Has what a look at each of these series takes on its way from memory, before the first is looked at.
    pub(super) fn prefetch_times(&self, series: &[SeriesRef], selection: &Selection) {
        let store = &self.store;
        series.iter().for_each(|one| store.prefetch(*one));
        // Mostly the newest sample shows it, which the line has.
        let need_more = || series.iter().filter(|one| store.newest_ms(**one) > selection.max_ms);
        need_more().for_each(|one| store.prefetch_history(*one));
        need_more().for_each(|one| store.prefetch_lists(*one));
    }

    /// Whether a series has a chunk that overlaps the range: by the chunks' times alone.
    pub(super) fn overlaps(&self, series: SeriesRef, selection: &Selection) -> bool {
        // A range that ends before it begins has nothing in it, though a chunk may lie around it.
        let is_range = selection.min_ms <= selection.max_ms;
        is_range
            && self.store.holds(series)
            && self.store.overlaps(series, selection.min_ms, selection.max_ms)
    }
}
