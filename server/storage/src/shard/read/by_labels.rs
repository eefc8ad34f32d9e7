//! Sorts series by their labels: in groups of the same first label, which is mostly the metric's name, and then each group
//! by the labels after it. Far fewer texts are compared so, and what a comparison looks at is near the core.

use std::cmp::Ordering;

use hashbrown::HashMap;

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::shard::read::job::ReadJob;
use crate::shard::read::order::Order;
use crate::shard::read::ranks::ranked;
use crate::shard::read::sort::{TEXTS_STEP, numbers_step, sort_by_steps, sort_in_slices};
use crate::shard::{Host, Shard};

/// Series that are looked at between two looks at the slice: some µs.
const STEP: usize = 32;

/// Up to so many series are sorted by a copy of their label refs: some MiB.
const FLAT_SERIES_MAX: usize = 64 << 10;

/// The labels of groups are copied together up to so many series: they then lie near the core.
const RUN_SERIES_MAX: usize = 4096;

/// Groups of fewer series than this are not worth it.
const GROUP_SERIES_MEAN_MIN: usize = 16;

/// More groups than this aren't looked for: their table is made at one go.
const GROUPS_MAX: usize = 64 << 10;

/// Refs that are copied between two looks at the slice: some µs where they go to many groups.
const REFS_STEP: usize = 1024;

/// Sorts series by those of their labels that count. The caller has reserved three refs more for each; what is taken beside
/// that is reserved here.
pub(super) async fn sort_by_labels<H: Host>(
    job: &ReadJob<H>,
    mut refs: Vec<SeriesRef>,
    order: &Order<'_>,
) -> OrEnds<Vec<SeriesRef>> {
    let groups_max = (refs.len() / GROUP_SERIES_MEAN_MIN).min(GROUPS_MAX);
    let mut reserved = job.reserve(groups_max * Groups::BYTES_OF_ONE).await?;
    let Some(Groups { series, groups }) = groups_of(job, &refs, order, groups_max).await? else {
        drop(reserved);
        let all = [refs.len()];
        sort_run(job, &mut refs, &all, 0, order).await?;
        return Ok(refs);
    };
    let moment = job.shard.borrow().index.now();
    let compare = |a: &Group, b: &Group| job.shard.borrow().index.compare(&[a.first], &[b.first], moment);
    let groups = sort_in_slices(groups, job, compare).await?;
    let (mut sorted, lens) = in_order(job, refs, &series, &groups).await?;
    drop((series, groups));
    reserved.shrink_to(lens.capacity() * size_of::<usize>());
    let (mut rest, mut lens) = (&mut sorted[..], &lens[..]);
    while !lens.is_empty() {
        let (run, after) = lens.split_at(groups_of_run(lens));
        let (series, others) = rest.split_at_mut(run.iter().sum());
        sort_run(job, series, run, 1, order).await?;
        (rest, lens) = (others, after);
    }
    Ok(sorted)
}

/// A series, and the number of its group.
#[derive(Debug, Clone, Copy)]
struct Grouped {
    group: u32,
    series: SeriesRef,
}

/// The series of one first label.
#[derive(Debug, Clone, Copy)]
struct Group {
    first: LabelRef,
    number: u32,
    series: u32,
}

/// Series by the first of their labels that count.
#[derive(Debug)]
struct Groups {
    series: Vec<Grouped>,
    /// By their numbers.
    groups: Vec<Group>,
}

impl Groups {
    /// What a group takes, in bytes: itself and once more where it is sorted, in a table of which less than half may be used,
    /// where its series begin, and how many they are.
    const BYTES_OF_ONE: usize =
        2 * size_of::<Group>() + 3 * size_of::<(LabelRef, u32)>() + size_of::<u32>() + size_of::<usize>();
}

/// Series by the first of their labels that count. `None`: there are more than `groups_max` groups, or a series has labels
/// and none that counts, so that its place may be between any groups.
async fn groups_of<H: Host>(
    job: &ReadJob<H>,
    refs: &[SeriesRef],
    order: &Order<'_>,
    groups_max: usize,
) -> OrEnds<Option<Groups>> {
    let mut numbers: HashMap<LabelRef, u32> = HashMap::with_capacity(groups_max);
    let mut groups: Vec<Group> = Vec::with_capacity(groups_max);
    let mut grouped = Vec::with_capacity(refs.len());
    for step in refs.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            shard.prefetch_labels(step);
            for series in step {
                let labels = shard.store.labels(*series);
                let Some(first) = order.kept(&shard.index, labels).next() else {
                    match labels.is_empty() {
                        // It went meanwhile: else it would have labels.
                        true => continue,
                        false => return Ok(None),
                    }
                };
                let number = match numbers.get(&first) {
                    Some(number) => *number,
                    // Before it is in the table: that would be made larger.
                    None if groups.len() == groups_max => return Ok(None),
                    None => {
                        let number = groups.len() as u32;
                        numbers.insert(first, number);
                        groups.push(Group { first, number, series: 0 });
                        number
                    }
                };
                groups[number as usize].series += 1;
                grouped.push(Grouped { group: number, series: *series });
            }
        }
        job.yield_if_needed().await?;
    }
    Ok(Some(Groups { series: grouped, groups }))
}

/// Series in the order of their groups, written over what `refs` held, and how many each group has.
async fn in_order<H: Host>(
    job: &ReadJob<H>,
    mut refs: Vec<SeriesRef>,
    series: &[Grouped],
    groups: &[Group],
) -> OrEnds<(Vec<SeriesRef>, Vec<usize>)> {
    let (mut next, mut lens, mut begin) = (vec![0; groups.len()], Vec::with_capacity(groups.len()), 0);
    for (at, group) in groups.iter().enumerate() {
        next[group.number as usize] = begin;
        begin += group.series;
        lens.push(group.series as usize);
        if at % REFS_STEP == REFS_STEP - 1 {
            job.yield_if_needed().await?;
        }
    }
    // Those that went are in no group.
    refs.truncate(series.len());
    for step in series.chunks(REFS_STEP) {
        for one in step {
            let next: &mut u32 = &mut next[one.group as usize];
            refs[*next as usize] = one.series;
            *next += 1;
        }
        job.yield_if_needed().await?;
    }
    Ok((refs, lens))
}

/// How many of the groups have their labels copied together: one at least.
fn groups_of_run(lens: &[usize]) -> usize {
    let mut series = 0;
    let fits = lens.iter().position(|len| {
        series += len;
        series > RUN_SERIES_MAX
    });
    fits.unwrap_or(lens.len()).max(1)
}

/// A series and where its labels are among those of all.
#[derive(Debug, Clone, Copy)]
struct Flat {
    series: SeriesRef,
    begin: u32,
    end: u32,
}

/// Sorts groups that follow each other, of so many series each, whose first `equal` labels are the same: by a copy of their
/// label refs that is in one piece, else each comparison begins with two loads from memory that nothing is near.
async fn sort_run<H: Host>(
    job: &ReadJob<H>,
    series: &mut [SeriesRef],
    lens: &[usize],
    equal: usize,
    order: &Order<'_>,
) -> OrEnds<()> {
    if series.len() > FLAT_SERIES_MAX {
        return sort_whole(job, series, order).await;
    }
    // Once more where they are sorted, and one of several groups at a time is sorted beside the others.
    let rows_bytes = (2 + usize::from(lens.len() > 1)) * series.len() * size_of::<Flat>();
    let mut reserved = job.reserve(rows_bytes).await?;
    let (mut rows, mut labels) = (Vec::with_capacity(series.len()), Vec::new());
    for step in series.chunks(STEP) {
        {
            let shard = job.shard.borrow();
            shard.prefetch_labels(step);
            for series in step {
                let begin = labels.len() + equal;
                order.add_kept(&shard.index, shard.store.labels(*series), &mut labels);
                let end = labels.len();
                // One that went has fewer.
                rows.push(Flat { series: *series, begin: begin.min(end) as u32, end: end as u32 });
            }
        }
        job.pay(&mut reserved, labels.capacity() * size_of::<LabelRef>() + rows_bytes).await?;
        job.yield_if_needed().await?;
    }
    // All of these labels were there by now.
    let moment = job.shard.borrow().index.now();
    // Where what is added to sets decides, ranks don't.
    let ranks =
        if order.is_of_labels_alone() { ranked(job, &labels, rows.len(), moment).await? } else { None };
    if let Some(ranks) = &ranks {
        let ranks_of = |row: &Flat| &ranks.of_labels[row.begin as usize..row.end as usize];
        let compare = |a: &Flat, b: &Flat| ranks_of(a).cmp(ranks_of(b));
        let step = numbers_step(labels.len() / rows.len().max(1));
        return sort_groups(job, rows, lens, series, (step, compare)).await;
    }
    let labels_of = |row: &Flat| labels[row.begin as usize..row.end as usize].iter().copied();
    let compare =
        |a: &Flat, b: &Flat| order.compare(&job.shard.borrow().index, labels_of(a), labels_of(b), moment);
    sort_groups(job, rows, lens, series, (TEXTS_STEP, compare)).await
}

/// Sorts the rows of groups that follow each other, each group by itself and so many rows between two looks at the slice, and
/// puts their series where they belong.
async fn sort_groups<H: Host>(
    job: &ReadJob<H>,
    mut rows: Vec<Flat>,
    lens: &[usize],
    series: &mut [SeriesRef],
    (step, compare): (usize, impl Fn(&Flat, &Flat) -> Ordering + Copy),
) -> OrEnds<()> {
    if let [_] = lens {
        return put_series(job, &sort_by_steps(rows, job, step, compare).await?, |row| row.series, series)
            .await;
    }
    let (mut rows, mut series) = (&mut rows[..], series);
    for len in lens {
        let (group, rows_after) = rows.split_at_mut(*len);
        let (to, series_after) = series.split_at_mut(*len);
        if group.len() <= step {
            group.sort_by(compare);
            put_series(job, group, |row| row.series, to).await?;
        } else {
            let sorted = sort_by_steps(group.to_vec(), job, step, compare).await?;
            put_series(job, &sorted, |row| row.series, to).await?;
        }
        (rows, series) = (rows_after, series_after);
    }
    Ok(())
}

/// Sorts series without a copy of their labels, in the memory that the caller of [`sort_by_labels`] has reserved.
async fn sort_whole<H: Host>(job: &ReadJob<H>, series: &mut [SeriesRef], order: &Order<'_>) -> OrEnds<()> {
    let mut sorted = Vec::with_capacity(series.len());
    for step in series.chunks(REFS_STEP) {
        sorted.extend_from_slice(step);
        job.yield_if_needed().await?;
    }
    let moment = job.shard.borrow().index.now();
    let sorted =
        sort_in_slices(sorted, job, |a, b| order.compare_series(&job.shard.borrow(), *a, *b, moment));
    put_series(job, &sorted.await?, |one| *one, series).await
}

async fn put_series<T, H: Host>(
    job: &ReadJob<H>,
    sorted: &[T],
    series_of: impl Fn(&T) -> SeriesRef,
    to: &mut [SeriesRef],
) -> OrEnds<()> {
    for (to, step) in to.chunks_mut(REFS_STEP).zip(sorted.chunks(REFS_STEP)) {
        to.iter_mut().zip(step).for_each(|(to, one)| *to = series_of(one));
        job.yield_if_needed().await?;
    }
    Ok(())
}

impl Shard {
    /// Has the labels of these series on their way from memory, before the first are looked at.
    fn prefetch_labels(&self, series: &[SeriesRef]) {
        series.iter().for_each(|one| self.store.prefetch_history(*one));
        series.iter().for_each(|one| self.store.prefetch_labels(*one));
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::shard::read::job::tests::job;
    use crate::shard::tests::{EVER, append};
    use silverback_model::{Labels, Sample};

    /// A series' labels beside its name.
    type Own = fn(usize) -> Vec<(&'static str, String)>;

    /// Series of these names, so many of each; not grouped: too many groups.
    fn check(counts: &[usize], is_grouped: bool) {
        let alone: Own = |i| vec![("own", format!("{:06}", i * 7919 % 100_003))];
        // Labels that many have, of which some sets are the beginnings of others.
        let shared: Own = |i| {
            let values = [i * 7919 % 50, i / 50 * 31 % 50, i / 2500];
            let labels = ["a", "b", "c"].into_iter().zip(values.map(|value| format!("{value}")));
            labels.take(if i < 2500 { 2 } else { 3 }).collect()
        };
        [alone, shared].iter().for_each(|own| check_of(counts, is_grouped, *own));
    }

    fn check_of(counts: &[usize], is_grouped: bool, own: Own) {
        let job = job();
        let named = counts.iter().enumerate().flat_map(|(name, count)| (0..*count).map(move |i| (name, i)));
        let series = named.map(|(name, i)| {
            let name = [("__name__", format!("m{:03}", name * 37 % 101))];
            (Labels::from_pairs(name.into_iter().chain(own(i))), vec![Sample::new(1, 1.0)])
        });
        append(&job.shard, EVER, &series.collect::<Vec<_>>());
        let mut refs: Vec<_> = job.shard.borrow().index.all().iter().map(SeriesRef).collect();
        let order = Order::new(None, &job.shard.borrow().index);
        let groups_max = refs.len() / GROUP_SERIES_MEAN_MIN;
        let groups = block_on(groups_of(&job, &refs, &order, groups_max)).unwrap();
        assert_eq!(groups.is_some(), is_grouped, "{counts:?}");
        let sorted = block_on(sort_by_labels(&job, refs.clone(), &order)).unwrap();
        block_on(sort_whole(&job, &mut refs, &order)).unwrap();
        assert_eq!(sorted.len(), counts.iter().sum::<usize>());
        assert!(sorted == refs, "{counts:?}");
        let shard = job.shard.borrow();
        let texts = |series| shard.store.labels(series).iter().map(|label| shard.index.text(*label));
        assert!(sorted.is_sorted_by(|a, b| texts(*a).lt(texts(*b))), "{counts:?}");
    }

    #[test]
    fn series_in_groups_are_sorted_as_they_are_without() {
        check(&[], true);
        check(&[50], true);
        check(&[20, 1, 90, 16, 40, 3], true);
        check(&[1; 40], false);
        check(&[RUN_SERIES_MAX - 1, 1, 1, RUN_SERIES_MAX + 1, 30], true);
        check(&[20, FLAT_SERIES_MAX + 1, 20], true);
        // Ranked, one run of groups that are sorted at one go and of others.
        check(&[300, 20, 400, 5, 1000], true);
    }
}
