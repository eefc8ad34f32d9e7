//! Names and values of the series that match, sorted, and batches of their texts.
//!
//! What is kept are refs, four bytes each; texts are copied into a batch when it is made. A question
//! about a range looks at chunks' times alone, and of a name or value only until one series has it.

use roaring::RoaringBitmap;

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::message::{Selection, TextBatch};
use crate::shard::index::{IndexMoment, ListProgress, NameRef, NamesListed, PairsListed};
use crate::shard::read::cursors::{CursorRows, ReadCursor};
use crate::shard::read::job::ReadJob;
use crate::shard::read::matching::{Answered, PLACES, Pairs, answered, pairs_of};
use crate::shard::read::memory::ReadReservation;
use crate::shard::read::sort::{sort_bytes, sort_in_slices};
use crate::shard::{Host, Shard};

/// Series that are looked at between two looks at the slice: some µs.
const STEP: usize = 32;

/// Texts that are copied between two looks at the slice: a value has 8 KiB at most.
const TEXTS_STEP: usize = 16;

/// The names of the labels that the series of a selection have.
pub(super) async fn find_names<H: Host>(
    job: &ReadJob<H>,
    selection: &Selection,
    moment: IndexMoment,
) -> OrEnds<(CursorRows, ReadReservation)> {
    let names_max = job.shard.borrow().index.name_count();
    let mut reserved = job.reserve(3 * names_max * size_of::<NameRef>()).await?;
    let mut names = all_names(job).await?;
    if !selection.is_everything() {
        let series = answered(job, &selection.matchers).await?;
        let pairs = job.shard.borrow().index.pair_count() as u64;
        names = match series.bitmap.len() <= pairs {
            true => names_of_series(job, &series, selection).await?,
            false => names_with_series(job, names, Sought::new(series, selection, moment)).await?,
        };
    }
    let names = sort_in_slices(names, job, |a, b| {
        let shard = job.shard.borrow();
        shard.index.name_since(*a, moment).cmp(&shard.index.name_since(*b, moment))
    });
    let names = names.await?;
    reserved.shrink_to(names.capacity() * size_of::<NameRef>());
    Ok((CursorRows::Names(names), reserved))
}

pub(super) async fn all_names<H: Host>(job: &ReadJob<H>) -> OrEnds<Vec<NameRef>> {
    let mut listed = NamesListed::default();
    while job.shard.borrow().index.list_names(PLACES, &mut listed) == ListProgress::Part {
        job.yield_if_needed().await?;
    }
    Ok(listed.into_names())
}

/// Few series: their own labels are looked at.
async fn names_of_series<H: Host>(
    job: &ReadJob<H>,
    series: &Answered,
    selection: &Selection,
) -> OrEnds<Vec<NameRef>> {
    let mut names = RoaringBitmap::new();
    for (i, series) in series.bitmap.iter().map(SeriesRef).enumerate() {
        {
            let shard = job.shard.borrow();
            if shard.overlaps(series, selection) {
                names.extend(shard.store.labels(series).iter().map(|label| shard.index.name_of(*label).0));
            }
        }
        if i % STEP == STEP - 1 {
            job.yield_if_needed().await?;
        }
    }
    Ok(names.iter().map(NameRef).collect())
}

/// Many series: one of each name is looked for.
async fn names_with_series<H: Host>(
    job: &ReadJob<H>,
    mut names: Vec<NameRef>,
    mut sought: Sought<'_>,
) -> OrEnds<Vec<NameRef>> {
    let mut kept = 0;
    for at in 0..names.len() {
        let text: Box<str> = job.shard.borrow().index.name(names[at]).into();
        if sought.has_series(job, &text).await? {
            names[kept] = names[at];
            kept += 1;
        }
    }
    names.truncate(kept);
    Ok(names)
}

/// The values that a label has in the series of a selection.
pub(super) async fn find_values<H: Host>(
    job: &ReadJob<H>,
    name: &str,
    selection: &Selection,
    moment: IndexMoment,
) -> OrEnds<(CursorRows, ReadReservation)> {
    let Pairs { pairs: values, mut reserved } = match selection.is_everything() {
        true => pairs_of(job, name).await?,
        false => {
            let series = answered(job, &selection.matchers).await?;
            let held = job.shard.borrow().index.value_count(name) as u64;
            match series.bitmap.len() < held {
                true => values_of_series(job, name, &series, selection).await?,
                false => values_with_series(job, name, Sought::new(series, selection, moment)).await?,
            }
        }
    };
    job.grow(&mut reserved, sort_bytes::<LabelRef>(values.len())).await?;
    let values = sort_in_slices(values, job, |a, b| job.shard.borrow().index.compare(&[*a], &[*b], moment));
    let values = values.await?;
    reserved.shrink_to(values.capacity() * size_of::<LabelRef>());
    Ok((CursorRows::Values(values), reserved))
}

/// Few series: their own labels are looked at.
async fn values_of_series<H: Host>(
    job: &ReadJob<H>,
    name: &str,
    series: &Answered,
    selection: &Selection,
) -> OrEnds<Pairs> {
    // No series has a label twice.
    let values_max = series.bitmap.len() as usize;
    let reserved = job.reserve(2 * values_max * size_of::<LabelRef>()).await?;
    let mut values = RoaringBitmap::new();
    for (i, series) in series.bitmap.iter().map(SeriesRef).enumerate() {
        {
            let shard = job.shard.borrow();
            if shard.overlaps(series, selection) {
                let labels = shard.store.labels(series);
                let own = labels.iter().find(|label| shard.index.text(**label).0 == name);
                values.extend(own.map(|label| label.0));
            }
        }
        if i % STEP == STEP - 1 {
            job.yield_if_needed().await?;
        }
    }
    let mut pairs = Vec::with_capacity(values.len() as usize);
    for (i, value) in values.iter().enumerate() {
        pairs.push(LabelRef(value));
        if i % PLACES == PLACES - 1 {
            job.yield_if_needed().await?;
        }
    }
    Ok(Pairs { pairs, reserved })
}

/// Many series: one of each value is looked for.
async fn values_with_series<H: Host>(job: &ReadJob<H>, name: &str, mut sought: Sought<'_>) -> OrEnds<Pairs> {
    let Pairs { mut pairs, reserved } = pairs_of(job, name).await?;
    let mut kept = 0;
    for at in 0..pairs.len() {
        if sought.is_wanted(job, pairs[at]).await? {
            pairs[kept] = pairs[at];
            kept += 1;
        }
    }
    pairs.truncate(kept);
    Ok(Pairs { pairs, reserved })
}

/// The series of which one must have a name or value in the range for it to be given.
struct Sought<'a> {
    series: Answered,
    selection: &'a Selection,
    moment: IndexMoment,
    /// How many more are looked at in vain before those that have nothing in the range are taken out: then
    /// none of them is looked at for each of its labels. `None`: they are out.
    in_vain_left: Option<u64>,
    /// Those that are looked at.
    step: Vec<SeriesRef>,
}

impl<'a> Sought<'a> {
    fn new(series: Answered, selection: &'a Selection, moment: IndexMoment) -> Self {
        // Half as many as there are: to take them out is about as expensive for each.
        let in_vain_left = Some(series.bitmap.len() / 2);
        Self { series, selection, moment, in_vain_left, step: Vec::with_capacity(STEP) }
    }

    /// Whether one of the series has the label and a sample in the range. Mostly the first pair shows it.
    async fn has_series<H: Host>(&mut self, job: &ReadJob<H>, name: &str) -> OrEnds<bool> {
        let mut listed = PairsListed::default();
        loop {
            let step = job.shard.borrow().index.list_pairs(name, STEP, &mut listed);
            for pair in listed.take_pairs() {
                if self.is_wanted(job, pair).await? {
                    return Ok(true);
                }
            }
            if step == ListProgress::All {
                return Ok(false);
            }
            job.yield_if_needed().await?;
        }
    }

    /// Whether one of the series has the pair and a sample in the range.
    async fn is_wanted<H: Host>(&mut self, job: &ReadJob<H>, pair: LabelRef) -> OrEnds<bool> {
        let mut from = Some(0);
        while let Some(first) = from {
            let looked = self.look(&job.shard.borrow(), pair, first);
            // Also where the first look shows it: there is another pair after this one.
            job.yield_if_needed().await?;
            from = match looked {
                Looked::Found => return Ok(true),
                Looked::Through => None,
                Looked::UpTo(next) => Some(next),
            };
            if self.in_vain_left == Some(0) {
                self.narrow(job).await?;
            }
        }
        Ok(false)
    }

    /// Looks at some of a pair's series: at the first one alone, which mostly shows it, and then at more at a time.
    fn look(&mut self, shard: &Shard, pair: LabelRef, from: u32) -> Looked {
        if shard.index.value_since(pair, self.moment).is_none() {
            return Looked::Through;
        }
        let postings = shard.index.postings(pair);
        let bitmap = &self.series.bitmap;
        // Over the smaller of the two.
        let (few, many) = if postings.len() < bitmap.len() { (postings, bitmap) } else { (bitmap, postings) };
        let mut series = few.range(from..);
        let now = series.by_ref().take(if from == 0 { 1 } else { STEP });
        let mut now = now.filter(|one| many.contains(*one)).map(SeriesRef);
        let is_found = match &mut self.in_vain_left {
            None => now.next().is_some(),
            Some(left) => {
                self.step.clear();
                self.step.extend(now);
                shard.prefetch_times(&self.step, self.selection);
                let in_vain =
                    self.step.iter().take_while(|one| !shard.overlaps(**one, self.selection)).count();
                *left = left.saturating_sub(in_vain as u64);
                in_vain < self.step.len()
            }
        };
        if is_found { Looked::Found } else { series.next().map_or(Looked::Through, Looked::UpTo) }
    }

    /// Takes the series out that have nothing in the range.
    async fn narrow<H: Host>(&mut self, job: &ReadJob<H>) -> OrEnds<()> {
        let (mut from, step) = (Some(0), &mut self.step);
        while let Some(first) = from {
            let mut series = self.series.bitmap.range(first..);
            step.clear();
            step.extend(series.by_ref().take(STEP).map(SeriesRef));
            from = series.next();
            {
                let shard = job.shard.borrow();
                shard.prefetch_times(step, self.selection);
                step.retain(|one| !shard.overlaps(*one, self.selection));
            }
            for outside in step.drain(..) {
                self.series.bitmap.remove(outside.0);
            }
            job.yield_if_needed().await?;
        }
        self.in_vain_left = None;
        Ok(())
    }
}

/// How far a pair's series were looked at.
enum Looked {
    Found,
    /// Not up to this one, exclusive.
    UpTo(u32),
    Through,
}

impl Shard {
    /// The name or value of a cursor's next row; `None`: it went.
    fn next_text(&self, cursor: &ReadCursor) -> Option<&str> {
        let ReadCursor { rows, next, moment, .. } = cursor;
        match rows {
            CursorRows::Names(names) => self.index.name_since(names[*next], *moment),
            CursorRows::Values(pairs) => self.index.value_since(pairs[*next], *moment),
            CursorRows::Series(_) => unreachable!("the cursor is one over texts"),
        }
    }
}

/// The next texts of a cursor, about `bytes` of them.
pub(super) async fn next_batch<H: Host>(
    job: &ReadJob<H>,
    cursor: &mut ReadCursor,
    bytes: usize,
) -> OrEnds<TextBatch> {
    let mut batch = TextBatch::default();
    let mut reserved = job.memory.nothing();
    while !cursor.is_at_end() && batch.bytes() < bytes {
        {
            let shard = job.shard.borrow();
            for _ in 0..TEXTS_STEP {
                if cursor.is_at_end() || batch.bytes() >= bytes {
                    break;
                }
                if let Some(text) = shard.next_text(cursor) {
                    batch.push(text);
                }
                cursor.next += 1;
            }
        }
        job.pay(&mut reserved, batch.bytes()).await?;
        job.yield_if_needed().await?;
    }
    Ok(batch)
}
