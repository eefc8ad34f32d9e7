//! Selects: the series that match, sorted by labels, fetched in batches.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::limits::{SELECT_IDLE_US_MAX, SELECTS_MAX};
use crate::message::{ReadError, Remaining, SelectContent, SelectId, SelectedSeries, Selection};
use crate::model::{Epoch, SeriesId};
use crate::shard::read::answered;
use crate::shard::{Host, Shard};

/// Series that are compared, or fetched, between two looks at the slice.
const STEP: usize = 128;

/// A found series. A half of its id tells whether the ref still means the same one.
#[derive(Debug, Clone, Copy)]
struct Found {
    series: SeriesRef,
    // In halves again: a select may find every series that there is, and alignment would add a third.
    id_half: [u32; 2],
}

const _: () = assert!(size_of::<Found>() == 12);

impl Found {
    fn new(series: SeriesRef, id: SeriesId) -> Self {
        Self { series, id_half: [id.0 as u32, (id.0 >> 32) as u32] }
    }

    fn is(self, id: SeriesId) -> bool {
        Self::new(self.series, id).id_half == self.id_half
    }
}

#[derive(Debug)]
struct Select {
    // Not an `Rc`: so that a whole shard can be handed to another thread. Not a slice: it would be a
    // copy, made in one step.
    sorted: Arc<Vec<Found>>,
    next: usize,
    selection: Selection,
    content: SelectContent,
    epoch: Epoch,
    touched_us: u64,
}

/// The selects that are open on a shard, a bounded number of bounded size.
#[derive(Debug)]
pub struct OpenSelects {
    places: Vec<(u32, Option<Select>)>,
    /// What those take that are being found and sorted.
    opening_bytes: usize,
    bytes_max: usize,
}

impl Default for OpenSelects {
    fn default() -> Self {
        Self { places: Vec::new(), opening_bytes: 0, bytes_max: usize::MAX }
    }
}

impl OpenSelects {
    /// How many are open.
    pub fn count(&self) -> usize {
        self.places.iter().filter(|(_, place)| place.is_some()).count()
    }

    /// What they take, and those that are being opened.
    fn bytes(&self) -> usize {
        let open = self.places.iter().filter_map(|(_, place)| place.as_ref());
        open.map(|select| select.sorted.capacity() * size_of::<Found>()).sum::<usize>() + self.opening_bytes
    }

    /// Makes room for one that is being opened, until [`Self::end_opening`].
    fn begin_opening(&mut self, bytes: usize) -> Result<(), ReadError> {
        let taken = self.bytes();
        // One always fits, so that none is refused for ever: it takes a fraction of the shard's series.
        if taken > 0 && taken + bytes > self.bytes_max {
            return Err(ReadError::SelectsTooLarge);
        }
        self.opening_bytes += bytes;
        Ok(())
    }

    fn end_opening(&mut self, bytes: usize) {
        self.opening_bytes -= bytes;
    }

    /// Closes those that nobody fetched from for too long.
    pub fn expire(&mut self, now_us: u64) {
        for (_, place) in &mut self.places {
            if place.as_ref().is_some_and(|s| now_us.saturating_sub(s.touched_us) > SELECT_IDLE_US_MAX) {
                *place = None;
            }
        }
    }

    /// Whether one is open that was opened by an earlier epoch.
    pub fn is_any_before(&self, epoch: Epoch) -> bool {
        self.places.iter().any(|(_, place)| place.as_ref().is_some_and(|select| select.epoch < epoch))
    }

    /// Closes those that were opened by an earlier epoch.
    pub fn close_before(&mut self, epoch: Epoch) {
        for (_, place) in &mut self.places {
            if place.as_ref().is_some_and(|select| select.epoch < epoch) {
                *place = None;
            }
        }
    }

    /// Closes one. One that is closed already is no error.
    pub fn close(&mut self, id: SelectId) {
        if let Some((generation, place)) = self.places.get_mut(id.slot as usize)
            && *generation == id.generation
        {
            *place = None;
        }
    }

    fn open(&mut self, select: Select) -> Result<SelectId, ReadError> {
        let free = self.places.iter().position(|(_, place)| place.is_none());
        let slot = match free {
            Some(slot) => slot,
            None if self.places.len() < SELECTS_MAX => {
                self.places.push((0, None));
                self.places.len() - 1
            }
            None => return Err(ReadError::TooManySelects),
        };
        let (generation, place) = &mut self.places[slot];
        *generation = generation.wrapping_add(1);
        *place = Some(select);
        Ok(SelectId { slot: slot as u32, generation: *generation })
    }

    fn get(&mut self, id: SelectId) -> Result<&mut Select, ReadError> {
        match self.places.get_mut(id.slot as usize) {
            Some((generation, Some(select))) if *generation == id.generation => Ok(select),
            Some(_) | None => Err(ReadError::UnknownSelect),
        }
    }
}

/// Finds and sorts the series of a selection and keeps them to be fetched.
pub async fn open<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    epoch: Epoch,
    selection: Selection,
    content: SelectContent,
) -> Result<(SelectId, usize), ReadError> {
    if shard.borrow().selects.count() >= SELECTS_MAX {
        return Err(ReadError::TooManySelects);
    }
    let series = answered(shard, host, epoch, &selection.matchers).await;
    // As found, and once more while it is sorted.
    let opening_bytes = 2 * series.len() as usize * size_of::<Found>();
    shard.borrow_mut().selects.begin_opening(opening_bytes)?;
    let sorted = sorted(shard, host, &series).await;
    let count = sorted.len();
    let touched_us = host.monotonic_us();
    let select = Select { sorted: Arc::new(sorted), next: 0, selection, content, epoch, touched_us };
    let selects = &mut shard.borrow_mut().selects;
    selects.end_opening(opening_bytes);
    Ok((selects.open(select)?, count))
}

/// The series in the order of their labels.
async fn sorted<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, series: &RoaringBitmap) -> Vec<Found> {
    let mut found = Vec::with_capacity(series.len() as usize);
    for (i, series) in series.iter().enumerate() {
        let series = SeriesRef(series);
        // It may have gone since it was found.
        if shard.borrow().store.holds(series) {
            found.push(Found::new(series, shard.borrow().store.id(series)));
        }
        if (i + 1) % STEP == 0 {
            host.breathe().await;
        }
    }
    sort_in_slices(found, host, |a, b| shard.borrow().compare(a.series, b.series)).await
}

/// The next series of a select, about `bytes` of them.
pub async fn fetch<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    id: SelectId,
    bytes: usize,
) -> Result<(Vec<SelectedSeries>, Remaining), ReadError> {
    let (sorted, mut next, selection, content) = {
        let mut shard = shard.borrow_mut();
        let select = shard.selects.get(id)?;
        (Arc::clone(&select.sorted), select.next, select.selection.clone(), select.content)
    };
    let (mut batch, mut room) = (Vec::new(), bytes);
    while next < sorted.len() && room > 0 {
        let read = shard.borrow().read_series(sorted[next], &selection, content);
        next += 1;
        if let Some((series, size)) = read {
            room = room.saturating_sub(size);
            batch.push(series);
        }
        host.breathe().await;
    }
    let mut shard = shard.borrow_mut();
    if next == sorted.len() {
        shard.selects.close(id);
        return Ok((batch, Remaining::Nothing));
    }
    let select = shard.selects.get(id)?;
    select.next = next;
    select.touched_us = host.monotonic_us();
    Ok((batch, Remaining::More))
}

impl Shard {
    /// Bounds what open selects take.
    pub fn set_select_bytes_max(&mut self, bytes_max: usize) {
        self.selects.bytes_max = bytes_max;
    }

    /// What open selects take.
    pub fn select_bytes(&self) -> usize {
        self.selects.bytes()
    }

    fn compare(&self, a: SeriesRef, b: SeriesRef) -> Ordering {
        self.index.compare(self.store.labels(a), self.store.labels(b))
    }

    /// A found series with its size in bytes; none where it is gone or has nothing in the range.
    fn read_series(
        &self,
        found: Found,
        selection: &Selection,
        content: SelectContent,
    ) -> Option<(SelectedSeries, usize)> {
        let Found { series, .. } = found;
        if !found.is(self.store.id(series)) {
            return None;
        }
        let mut chunks = self.store.chunks(series, selection.min_ms, selection.max_ms);
        if chunks.is_empty() {
            return None;
        }
        match content {
            SelectContent::Chunks => {}
            SelectContent::LabelsOnly => chunks.clear(),
        }
        let labels = self.labels(series);
        let label_bytes: usize = labels.0.iter().map(|(n, v)| n.len() + v.len()).sum();
        let chunk_bytes: usize = chunks.iter().map(|c| c.bytes().len()).sum();
        Some((SelectedSeries { labels, chunks }, label_bytes + chunk_bytes))
    }
}

/// A merge sort that gives way between steps. An order that changes meanwhile, because a series
/// went, costs the order of that series alone.
async fn sort_in_slices<T: Copy, H: Host>(
    mut items: Vec<T>,
    host: &H,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    for run in items.chunks_mut(STEP) {
        run.sort_by(&compare);
        host.breathe().await;
    }
    let mut merged = Vec::with_capacity(items.len());
    let mut width = STEP;
    while width < items.len() {
        merged.clear();
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while !(left.is_empty() && right.is_empty()) {
                merge_step(&mut left, &mut right, &mut merged, &compare);
                host.breathe().await;
            }
        }
        std::mem::swap(&mut items, &mut merged);
        width *= 2;
    }
    items
}

fn merge_step<'a, T: Copy>(
    left: &mut &'a [T],
    right: &mut &'a [T],
    merged: &mut Vec<T>,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    for _ in 0..STEP {
        let from_left = match (left.first(), right.first()) {
            (Some(l), Some(r)) => compare(l, r).is_le(),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return,
        };
        let from = if from_left { &mut *left } else { &mut *right };
        merged.extend(from.split_off_first().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Alone;

    #[test]
    fn sorting_in_slices_is_sorting() {
        let items: Vec<u32> = (0..5000u32).map(|i| i.wrapping_mul(2_654_435_761) % 1000).collect();
        let mut expect = items.clone();
        expect.sort_unstable();
        let sorted = futures::executor::block_on(sort_in_slices(items, &Alone, u32::cmp));
        assert_eq!(sorted, expect);
    }
}
