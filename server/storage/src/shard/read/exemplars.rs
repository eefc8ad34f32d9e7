//! Exemplars of found series: which of these have one in the range, and batches of them.

use roaring::RoaringBitmap;

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::message::{Selection, SeriesBatch, SeriesBatchBuilder};
use crate::shard::Host;
use crate::shard::Shard;
use crate::shard::exemplars::STEP;
use crate::shard::exemplars::ring::StoredExemplar;
use crate::shard::read::cursors::{CursorRows, FoundSeries, ReadCursor};
use crate::shard::read::job::ReadJob;

/// Those of some series that have an exemplar in the range: of the series that have any at all, for these are few.
pub(super) async fn in_range<H: Host>(
    job: &ReadJob<H>,
    series: &RoaringBitmap,
    selection: &Selection,
) -> OrEnds<Vec<SeriesRef>> {
    let (mut found, mut from) = (Vec::new(), Some(SeriesRef(0)));
    while let Some(begin) = from {
        from = job.shard.borrow().add_with_exemplars(begin, series, selection, &mut found);
        job.yield_if_needed().await?;
    }
    Ok(found)
}

/// The next series of a cursor with their exemplars, about `bytes` of them.
pub(super) async fn next_batch<H: Host>(
    job: &ReadJob<H>,
    cursor: &mut ReadCursor,
    bytes: usize,
) -> OrEnds<SeriesBatch> {
    let ReadCursor { rows, next, selection, .. } = cursor;
    let CursorRows::Series(found) = rows else { unreachable!("the cursor is one over series") };
    let (mut batch, mut reserved) = (SeriesBatchBuilder::default(), job.memory.nothing());
    while *next < found.len() && batch.bytes() < bytes {
        let one = found[*next];
        *next += 1;
        let mut rest = job.shard.borrow().begin_exemplars(one, selection, &mut batch);
        loop {
            job.pay(&mut reserved, batch.bytes()).await?;
            job.yield_if_needed().await?;
            let Some(passed) = rest else { break };
            rest = job.shard.borrow().add_exemplars(one, selection, Some(&passed), &mut batch);
        }
    }
    Ok(batch.finish())
}

impl Shard {
    /// Looks at some series with exemplars, from a ref on. Where to go on.
    fn add_with_exemplars(
        &self,
        mut from: SeriesRef,
        among: &RoaringBitmap,
        selection: &Selection,
        found: &mut Vec<SeriesRef>,
    ) -> Option<SeriesRef> {
        for _ in 0..STEP {
            let series = self.exemplars.series_from(from)?;
            if among.contains(series.0) && self.exemplars.has_any(series, range_of(selection)) {
                found.push(series);
            }
            from = SeriesRef(series.0.checked_add(1)?);
        }
        Some(from)
    }

    /// Adds a found series with the first of its exemplars; not where it is gone or has none in the range any more.
    /// The last one that was added, where there may be more.
    fn begin_exemplars(
        &self,
        one: FoundSeries,
        selection: &Selection,
        batch: &mut SeriesBatchBuilder,
    ) -> Option<StoredExemplar> {
        if !one.is(self.store.id(one.series)) || !self.exemplars.has_any(one.series, range_of(selection)) {
            return None;
        }
        batch.begin_series(|out| self.index.put_canonical(self.store.labels(one.series), out));
        self.add_exemplars(one, selection, None, batch)
    }

    fn add_exemplars(
        &self,
        one: FoundSeries,
        selection: &Selection,
        passed: Option<&StoredExemplar>,
        batch: &mut SeriesBatchBuilder,
    ) -> Option<StoredExemplar> {
        // It may have gone since it was begun.
        if !one.is(self.store.id(one.series)) {
            return None;
        }
        let mut last = None;
        for kept in self.exemplars.of_series(one.series, range_of(selection), passed).take(STEP) {
            batch.add_exemplar(&kept.exemplar());
            last = Some(kept);
        }
        last.cloned()
    }
}

fn range_of(selection: &Selection) -> (i64, i64) {
    (selection.min_ms, selection.max_ms)
}
