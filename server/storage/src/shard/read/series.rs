//! Series: those that match and have something in the range, sorted by their labels.

use roaring::RoaringBitmap;

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::message::{ExternalView, Selection, ShardReadError};
use crate::shard::read::cursors::{CursorRows, FoundSeries};
use crate::shard::read::exemplars;
use crate::shard::read::job::ReadJob;
use crate::shard::read::matching::{Answered, answered};
use crate::shard::read::memory::ReadReservation;
use crate::shard::read::order::Order;
use crate::shard::read::sort::{sort_bytes, sort_in_slices};
use crate::shard::{Host, Shard};
use silverback_model::Matcher;

/// Series that are looked at between two looks at the slice: some µs.
const STEP: usize = 32;

/// Up to so many series are sorted by a copy of their label refs: some MiB.
const FLAT_SERIES_MAX: usize = 64 << 10;

/// Groups are sorted together up to so many series: their labels then lie near the core.
const RUN_SERIES_MAX: usize = 4096;

/// Groups of fewer series than this are not worth it.
const GROUP_SERIES_MEAN_MIN: usize = 16;

/// Refs that are copied between two looks at the slice: a µs.
const REFS_STEP: usize = 1024;

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
    kept_rows(job, sort_flat(job, refs, &order).await?, reserved).await
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
    let refs = match refs.len() <= FLAT_SERIES_MAX {
        true => sort_flat(job, refs, &order).await?,
        false => sort_grouped(job, refs, &order).await?,
    };
    kept_rows(job, refs, reserved).await
}

/// So many series: as refs, which are sorted, and then as what is kept.
async fn reserve_rows<H: Host>(job: &ReadJob<H>, count: usize) -> OrEnds<ReadReservation> {
    let kept_bytes = count * size_of::<FoundSeries>();
    let refs_bytes = count * size_of::<SeriesRef>();
    job.reserve(refs_bytes + kept_bytes.max(sort_bytes::<SeriesRef>(count))).await
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

/// A series and where its labels are among those of all.
#[derive(Debug, Clone, Copy)]
struct Flat {
    series: SeriesRef,
    begin: u32,
    end: u32,
}

/// Sorts series by a copy of their label refs that is in one piece: else each comparison begins with
/// two loads from memory that nothing is near.
async fn sort_flat<H: Host>(
    job: &ReadJob<H>,
    refs: Vec<SeriesRef>,
    order: &Order<'_>,
) -> OrEnds<Vec<SeriesRef>> {
    let mut reserved = job.reserve(2 * refs.len() * size_of::<Flat>()).await?;
    let (mut rows, mut labels) = (Vec::with_capacity(refs.len()), Vec::new());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            for series in step {
                let begin = labels.len() as u32;
                order.add_kept(&shard.index, shard.store.labels(*series), &mut labels);
                rows.push(Flat { series: *series, begin, end: labels.len() as u32 });
            }
        }
        let owed = labels.capacity() * size_of::<LabelRef>() + 2 * refs.len() * size_of::<Flat>();
        job.pay(&mut reserved, owed).await?;
        job.yield_if_needed().await?;
    }
    // All of these labels were there by now.
    let moment = job.shard.borrow().index.now();
    let labels_of = |row: &Flat| labels[row.begin as usize..row.end as usize].iter().copied();
    let sorted = sort_in_slices(rows, job, |a, b| {
        order.compare(&job.shard.borrow().index, labels_of(a), labels_of(b), moment)
    });
    Ok(sorted.await?.into_iter().map(|row| row.series).collect())
}

/// A series and the first of its labels that count.
#[derive(Debug, Clone, Copy)]
struct Grouped {
    first: LabelRef,
    series: SeriesRef,
}

/// Where the series of one first label are.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: LabelRef,
    begin: u32,
    end: u32,
}

/// Sorts many series: by their first label, which is mostly the metric's name, and then those of each. Far
/// fewer texts are compared so, and what a comparison looks at is near the core.
async fn sort_grouped<H: Host>(
    job: &ReadJob<H>,
    refs: Vec<SeriesRef>,
    order: &Order<'_>,
) -> OrEnds<Vec<SeriesRef>> {
    let Some(grouped) = by_first_label(job, &refs, order).await? else {
        return sort_whole(job, refs, order).await;
    };
    drop(refs);
    let grouped = sort_in_slices(grouped, job, |a, b| a.first.cmp(&b.first)).await?;
    let groups_max = grouped.len() / GROUP_SERIES_MEAN_MIN;
    let mut reserved = job.reserve(2 * groups_max * size_of::<Group>()).await?;
    let Some(groups) = groups_of(job, &grouped, groups_max).await? else {
        let mut refs = Vec::with_capacity(grouped.len());
        add_refs(job, &grouped, &mut refs).await?;
        drop(grouped);
        return sort_whole(job, refs, order).await;
    };
    let moment = job.shard.borrow().index.now();
    let compare = |a: &Group, b: &Group| job.shard.borrow().index.compare(&[a.first], &[b.first], moment);
    let groups = sort_in_slices(groups, job, compare).await?;
    reserved.shrink_to(groups.capacity() * size_of::<Group>());
    let (mut sorted, mut rest) = (Vec::with_capacity(grouped.len()), &groups[..]);
    while !rest.is_empty() {
        let (run, after) = rest.split_at(groups_of_run(rest));
        rest = after;
        sorted.append(&mut sort_run(job, &grouped, run, order).await?);
    }
    Ok(sorted)
}

/// Series with the first of their labels that count. `None`: one has labels, and none that counts, so that its place
/// may be between any groups.
async fn by_first_label<H: Host>(
    job: &ReadJob<H>,
    refs: &[SeriesRef],
    order: &Order<'_>,
) -> OrEnds<Option<Vec<Grouped>>> {
    let mut grouped = Vec::with_capacity(refs.len());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            for series in step {
                let labels = shard.store.labels(*series);
                match order.kept(&shard.index, labels).next() {
                    Some(first) => grouped.push(Grouped { first, series: *series }),
                    // It went meanwhile: else it would have its name.
                    None if labels.is_empty() => {}
                    None => return Ok(None),
                }
            }
        }
        job.yield_if_needed().await?;
    }
    Ok(Some(grouped))
}

/// Where the series of each first label are; `None` where these are more than `groups_max`.
async fn groups_of<H: Host>(
    job: &ReadJob<H>,
    grouped: &[Grouped],
    groups_max: usize,
) -> OrEnds<Option<Vec<Group>>> {
    let mut groups: Vec<Group> = Vec::with_capacity(groups_max);
    for (at, Grouped { first, .. }) in grouped.iter().enumerate() {
        let (begin, end, is_full) = (at as u32, at as u32 + 1, groups.len() == groups_max);
        match groups.last_mut() {
            Some(group) if group.first == *first => group.end = end,
            Some(_) | None if is_full => return Ok(None),
            Some(_) | None => groups.push(Group { first: *first, begin, end }),
        }
        if at % REFS_STEP == REFS_STEP - 1 {
            job.yield_if_needed().await?;
        }
    }
    Ok(Some(groups))
}

/// How many of the groups are sorted together: one at least.
fn groups_of_run(groups: &[Group]) -> usize {
    let mut series = 0;
    let fits = groups.iter().position(|group| {
        series += (group.end - group.begin) as usize;
        series > RUN_SERIES_MAX
    });
    fits.unwrap_or(groups.len()).max(1)
}

async fn sort_run<H: Host>(
    job: &ReadJob<H>,
    grouped: &[Grouped],
    run: &[Group],
    order: &Order<'_>,
) -> OrEnds<Vec<SeriesRef>> {
    let series = run.iter().map(|group| (group.end - group.begin) as usize).sum();
    let _reserved = job.reserve(size_of::<SeriesRef>() * series + sort_bytes::<SeriesRef>(series)).await?;
    let mut refs = Vec::with_capacity(series);
    for group in run {
        add_refs(job, &grouped[group.begin as usize..group.end as usize], &mut refs).await?;
    }
    match refs.len() <= FLAT_SERIES_MAX {
        true => sort_flat(job, refs, order).await,
        false => sort_whole(job, refs, order).await,
    }
}

async fn add_refs<H: Host>(job: &ReadJob<H>, grouped: &[Grouped], to: &mut Vec<SeriesRef>) -> OrEnds<()> {
    for step in grouped.chunks(REFS_STEP) {
        to.extend(step.iter().map(|one| one.series));
        job.yield_if_needed().await?;
    }
    Ok(())
}

/// Sorts series without another copy of anything.
async fn sort_whole<H: Host>(
    job: &ReadJob<H>,
    refs: Vec<SeriesRef>,
    order: &Order<'_>,
) -> OrEnds<Vec<SeriesRef>> {
    let moment = job.shard.borrow().index.now();
    sort_in_slices(refs, job, |a, b| order.compare_series(&job.shard.borrow(), *a, *b, moment)).await
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

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::shard::read::job::tests::job;
    use crate::shard::tests::{EVER, append};
    use silverback_model::{Labels, Sample};

    /// Series of these names, so many of each; `None`: too many groups.
    fn check(counts: &[usize], is_grouped: bool) {
        let job = job();
        let named = counts.iter().enumerate().flat_map(|(name, count)| (0..*count).map(move |i| (name, i)));
        let series = named.map(|(name, i)| {
            let (name, own) = (format!("m{:03}", name * 37 % 101), format!("{:05}", i * 7919 % 10_007));
            (Labels::from_pairs([("__name__", name), ("own", own)]), vec![Sample::new(1, 1.0)])
        });
        append(&job.shard, EVER, &series.collect::<Vec<_>>());
        let mut refs: Vec<_> = job.shard.borrow().index.all().iter().map(SeriesRef).collect();
        let order = Order::new(None, &job.shard.borrow().index);
        let grouped = block_on(by_first_label(&job, &refs, &order)).unwrap().unwrap();
        let grouped = block_on(sort_in_slices(grouped, &job, |a, b| a.first.cmp(&b.first))).unwrap();
        let groups = block_on(groups_of(&job, &grouped, grouped.len() / GROUP_SERIES_MEAN_MIN)).unwrap();
        assert_eq!(groups.is_some(), is_grouped, "{counts:?}");
        let sorted = block_on(sort_grouped(&job, refs.clone(), &order)).unwrap();
        refs = block_on(sort_whole(&job, refs, &order)).unwrap();
        assert_eq!(sorted.len(), counts.iter().sum::<usize>());
        assert!(sorted == refs, "{counts:?}");
    }

    #[test]
    fn series_in_groups_are_sorted_as_they_are_without() {
        check(&[], true);
        check(&[50], true);
        check(&[20, 1, 90, 16, 40, 3], true);
        check(&[1; 40], false);
        check(&[RUN_SERIES_MAX - 1, 1, 1, RUN_SERIES_MAX + 1, 30], true);
    }
}
