//! From matchers to series: postings and matchers over label values, in slices.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::OrEnds;
use crate::cell::series::LabelRef;
use crate::shard::index::{IndexMoment, ListProgress, PairsListed};
use crate::shard::read::job::ReadJob;
use crate::shard::read::memory::ReadReservation;
use crate::shard::{Host, Shard};
use silverback_model::{CellId, Epoch, Matcher, Searching};

/// Slots of the index's tables that are looked through between two looks at the slice.
pub(super) const PLACES: usize = 1024;

/// Series that are looked at between two looks at the slice.
const STEP: usize = 64;

/// Values that are asked of memory together, before the first of them is searched.
const AHEAD: usize = 16;

/// Sets of series that are held at the same time while matchers are applied.
const SETS_AT_ONCE: usize = 3;

/// The series that match, of the cells that the shard answers for, and their memory.
pub(super) struct Answered {
    pub(super) bitmap: RoaringBitmap,
    _reserved: ReadReservation,
}

/// The series that match. Series that come or go meanwhile may be in it or not.
pub(super) async fn answered<H: Host>(job: &ReadJob<H>, matchers: &[Matcher]) -> OrEnds<Answered> {
    let set_bytes = job.shard.borrow().index.set_bytes_max();
    let mut reserved = job.reserve(SETS_AT_ONCE * set_bytes).await?;
    job.yield_if_needed().await?;
    let mut bitmap = matching(job, matchers).await?;
    drop_foreign(job, &mut bitmap).await?;
    reserved.shrink_to(set_bytes);
    Ok(Answered { bitmap, _reserved: reserved })
}

/// The series of all cells that match.
async fn matching<H: Host>(job: &ReadJob<H>, matchers: &[Matcher]) -> OrEnds<RoaringBitmap> {
    let (narrow, wide) = in_order(matchers);
    let mut found: Option<RoaringBitmap> = None;
    for matcher in narrow {
        {
            let shard = job.shard.borrow();
            let pair = shard.index.pair(&matcher.name, &matcher.value);
            let postings = pair.map(|pair| shard.index.postings(pair));
            found = Some(match (found, postings) {
                (_, None) => return Ok(RoaringBitmap::new()),
                (None, Some(postings)) => postings.clone(),
                (Some(so_far), Some(postings)) => so_far & postings,
            });
        }
        job.yield_if_needed().await?;
    }
    for matcher in wide {
        let so_far = found.unwrap_or_else(|| job.shard.borrow().index.all().clone());
        found = Some(narrow_by_values(job, matcher, so_far).await?);
    }
    Ok(found.unwrap_or_else(|| job.shard.borrow().index.all().clone()))
}

/// Matchers, each once: those that want one value, and all others, of which those come last that search values; what
/// matches is few by then.
fn in_order(matchers: &[Matcher]) -> (Vec<&Matcher>, Vec<&Matcher>) {
    let mut seen = HashSet::with_capacity(matchers.len());
    let once = matchers.iter().filter(|m| seen.insert((&*m.name, m.op.operator(), &*m.value)));
    let (narrow, mut wide): (Vec<_>, Vec<_>) = once.partition(|m| m.exact_value().is_some());
    wide.sort_by_key(|m| m.deciding_values().is_none());
    (narrow, wide)
}

/// Takes out the series of cells that another shard answers for.
async fn drop_foreign<H: Host>(job: &ReadJob<H>, series: &mut RoaringBitmap) -> OrEnds<()> {
    let cells = job.shard.borrow().cells.len();
    for cell in 0..cells {
        let foreign = job.shard.borrow().foreign_in(CellId(cell as u16), job.epoch);
        for step in foreign.chunks(STEP) {
            for held in step {
                series.remove(*held);
            }
            job.yield_if_needed().await?;
        }
    }
    Ok(())
}

impl Shard {
    /// The series of a cell that the shard doesn't answer for: few cells have any, and each few.
    fn foreign_in(&self, cell: CellId, epoch: Epoch) -> Vec<u32> {
        match self.ownership.answers(cell, epoch) {
            true => Vec::new(),
            false => self.cells[usize::from(cell.0)].table.iter().map(|held| held.0).collect(),
        }
    }
}

/// Looks at the values of the label that decide. Where the matcher takes a missing label, what doesn't
/// match is taken away from the series; otherwise only what matches stays.
async fn narrow_by_values<H: Host>(
    job: &ReadJob<H>,
    matcher: &Matcher,
    so_far: RoaringBitmap,
) -> OrEnds<RoaringBitmap> {
    let takes_missing = matcher.matches_empty();
    let marked = match matcher.deciding_values() {
        Some(values) => mark_named(job, matcher, values, &so_far).await?,
        None => mark_searched(job, matcher, takes_missing, &so_far).await?,
    };
    Ok(match takes_missing {
        true => so_far - marked,
        false => marked,
    })
}

/// The values that decide are named: they are looked up.
async fn mark_named<H: Host>(
    job: &ReadJob<H>,
    matcher: &Matcher,
    values: impl Iterator<Item = &str>,
    so_far: &RoaringBitmap,
) -> OrEnds<RoaringBitmap> {
    let mut marked = RoaringBitmap::new();
    for value in values {
        {
            let shard = job.shard.borrow();
            if let Some(pair) = shard.index.pair(&matcher.name, value) {
                marked |= shard.index.postings(pair) & so_far;
            }
        }
        job.yield_if_needed().await?;
    }
    Ok(marked)
}

/// Any value may decide: each is searched.
async fn mark_searched<H: Host>(
    job: &ReadJob<H>,
    matcher: &Matcher,
    takes_missing: bool,
    so_far: &RoaringBitmap,
) -> OrEnds<RoaringBitmap> {
    if so_far.is_empty() {
        return Ok(RoaringBitmap::new());
    }
    let (moment, is_narrowed) = {
        let index = &job.shard.borrow().index;
        (index.now(), so_far.len() < index.all().len())
    };
    let Pairs { pairs, mut reserved } = pairs_of(job, &matcher.name).await?;
    job.grow(&mut reserved, matcher.search_bytes()).await?;
    let mut searching = matcher.searching();
    let mut marked = RoaringBitmap::new();
    for step in pairs.chunks(AHEAD) {
        job.shard.borrow().index.prefetch_values(step);
        for pair in step.iter().copied() {
            // A value that only series have that are out already decides nothing.
            if is_narrowed && job.shard.borrow().index.postings(pair).is_disjoint(so_far) {
                job.yield_if_needed().await?;
                continue;
            }
            let is_match = match search_pair(job, pair, moment, &mut searching) {
                Searched::Through(is_match) => is_match,
                Searched::OutOfTime(value) => search_on(job, &value, &mut searching).await?,
            };
            if is_match != takes_missing {
                let shard = job.shard.borrow();
                // It may have gone meanwhile, and its ref serve another one.
                if shard.index.value_since(pair, moment).is_some() {
                    marked |= shard.index.postings(pair) & so_far;
                }
            }
            job.yield_if_needed().await?;
        }
    }
    Ok(marked)
}

#[cfg(test)]
thread_local! {
    /// Values that were searched, by all matchers together.
    pub(super) static SEARCHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How far a pair's value was searched.
enum Searched {
    Through(bool),
    /// The value as it was: it may go while others have their turns.
    OutOfTime(Box<str>),
}

fn search_pair<H: Host>(
    job: &ReadJob<H>,
    pair: LabelRef,
    moment: IndexMoment,
    searching: &mut Searching<'_>,
) -> Searched {
    let shard = job.shard.borrow();
    let Some(value) = shard.index.value_since(pair, moment) else { return Searched::Through(false) };
    #[cfg(test)]
    SEARCHED.set(SEARCHED.get() + 1);
    match searching.matches(value, || job.host.is_slice_spent()) {
        Some(is_match) => Searched::Through(is_match),
        None => Searched::OutOfTime(value.into()),
    }
}

async fn search_on<H: Host>(job: &ReadJob<H>, value: &str, searching: &mut Searching<'_>) -> OrEnds<bool> {
    loop {
        job.yield_if_needed().await?;
        if let Some(is_match) = searching.matches(value, || job.host.is_slice_spent()) {
            return Ok(is_match);
        }
    }
}

/// The pairs of a name, and their memory.
pub(super) struct Pairs {
    pub(super) pairs: Vec<LabelRef>,
    pub(super) reserved: ReadReservation,
}

/// The pairs of a name. Pairs that come or go meanwhile may be in it or not.
pub(super) async fn pairs_of<H: Host>(job: &ReadJob<H>, name: &str) -> OrEnds<Pairs> {
    let values = job.shard.borrow().index.value_count(name);
    // Some more may come while they are listed.
    let room = values + values / 8;
    let reserved = job.reserve(room * size_of::<LabelRef>()).await?;
    let mut listed = PairsListed::with_room(room);
    while job.shard.borrow().index.list_pairs(name, PLACES, &mut listed) == ListProgress::Part {
        job.yield_if_needed().await?;
    }
    Ok(Pairs { pairs: listed.into_pairs(), reserved })
}
