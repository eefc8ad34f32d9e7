//! Cursors: what a read has found on a shard, in order, and how far it was fetched. A bounded number of
//! them is open, each with its memory reserved, until it was fetched to its end, closed, or its read has
//! ended.

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::message::{CursorId, ReadTicket, Selection, SeriesWanted, ShardReadError, TextsWanted, Wanted};
use crate::shard::Host;
use crate::shard::index::{IndexMoment, NameRef};
use crate::shard::read::job::ReadJob;
use crate::shard::read::memory::ReadReservation;
use crate::shard::read::{labels, series};
use silverback_model::limits::CURSORS_MAX;
use silverback_model::{Epoch, SeriesId};

/// A found series. A half of its id says whether the ref still means the same one.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct FoundSeries {
    pub(in crate::shard) series: SeriesRef,
    // In halves again: a read may find every series that there is, and alignment would add a third.
    id_half: [u32; 2],
}

const _: () = assert!(size_of::<FoundSeries>() == 12);

impl FoundSeries {
    pub(super) fn new(series: SeriesRef, id: SeriesId) -> Self {
        Self { series, id_half: [id.0 as u32, (id.0 >> 32) as u32] }
    }

    pub(in crate::shard) fn is(self, id: SeriesId) -> bool {
        Self::new(self.series, id).id_half == self.id_half
    }
}

/// What was found, in order.
#[derive(Debug)]
pub(super) enum CursorRows {
    Series(Vec<FoundSeries>),
    Names(Vec<NameRef>),
    /// Pairs of the label that the read is about.
    Values(Vec<LabelRef>),
}

impl CursorRows {
    fn len(&self) -> usize {
        match self {
            Self::Series(found) => found.len(),
            Self::Names(names) => names.len(),
            Self::Values(pairs) => pairs.len(),
        }
    }
}

/// A read's place in what it has found.
#[derive(Debug)]
pub(super) struct ReadCursor {
    pub(super) rows: CursorRows,
    pub(super) next: usize,
    pub(super) selection: Selection,
    pub(super) wanted: Wanted,
    /// When names and values were looked for: what their refs serve since then isn't one of them.
    pub(super) moment: IndexMoment,
    epoch: Epoch,
    ticket: ReadTicket,
    _reserved: ReadReservation,
}

impl ReadCursor {
    /// Finds and sorts what is wanted.
    pub(super) async fn open<H: Host>(
        job: &ReadJob<H>,
        selection: Selection,
        wanted: Wanted,
    ) -> OrEnds<Self> {
        let moment = job.shard.borrow().index.now();
        let (rows, reserved) = match &wanted {
            Wanted::Series(SeriesWanted::UncutChunks) => series::find_uncut(job, &selection).await?,
            Wanted::Series(SeriesWanted::Exemplars) => series::find_with_exemplars(job, &selection).await?,
            Wanted::Series(
                wanted @ (SeriesWanted::Chunks
                | SeriesWanted::LabelSets
                | SeriesWanted::ExternalChunks(_)
                | SeriesWanted::ExternalLabelSets(_)),
            ) => series::find(job, &selection, wanted.view()).await?,
            Wanted::Texts(TextsWanted::LabelNames) => labels::find_names(job, &selection, moment).await?,
            Wanted::Texts(TextsWanted::LabelValues(name)) => {
                labels::find_values(job, name, &selection, moment).await?
            }
        };
        Ok(Self {
            rows,
            next: 0,
            selection,
            wanted,
            moment,
            epoch: job.epoch,
            ticket: job.ticket.clone(),
            _reserved: reserved,
        })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.rows.len()
    }
}

/// The open cursors of a shard.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: CursorState,
}

#[derive(Debug)]
enum CursorState {
    Free,
    Idle(Box<ReadCursor>),
    /// A batch is made of it; it comes back.
    AtWork(Epoch),
}

impl CursorState {
    fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Free => None,
            Self::Idle(cursor) => Some(cursor.epoch),
            Self::AtWork(epoch) => Some(*epoch),
        }
    }
}

impl Cursors {
    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot.state, CursorState::Free)).count()
    }

    /// Refuses one more where there are as many as may be: before work is done for it.
    pub(super) fn check_room(&self) -> OrEnds<()> {
        if self.count() < CURSORS_MAX { Ok(()) } else { Err(ShardReadError::TooManyCursors) }
    }

    /// Takes one out, to fetch from it.
    pub(super) fn take(&mut self, id: CursorId) -> OrEnds<ReadCursor> {
        let slot = self.slot(id).ok_or(ShardReadError::UnknownCursor)?;
        match std::mem::replace(&mut slot.state, CursorState::Free) {
            CursorState::Idle(cursor) => {
                slot.state = CursorState::AtWork(cursor.epoch);
                Ok(*cursor)
            }
            other => {
                slot.state = other;
                Err(ShardReadError::UnknownCursor)
            }
        }
    }

    /// Keeps one for the next fetch: where it was taken from, or, a new one, in a slot of its own.
    pub(super) fn keep(&mut self, id: Option<CursorId>, cursor: ReadCursor) -> OrEnds<CursorId> {
        match id {
            Some(id) => {
                // It may have been closed while it was at work.
                let slot = self.slot(id).ok_or(ShardReadError::UnknownCursor)?;
                slot.state = CursorState::Idle(Box::new(cursor));
                Ok(id)
            }
            None => self.keep_new(cursor),
        }
    }

    fn keep_new(&mut self, cursor: ReadCursor) -> OrEnds<CursorId> {
        let free = self.slots.iter().position(|slot| matches!(slot.state, CursorState::Free));
        let at = match free {
            Some(at) => at,
            None if self.slots.len() < CURSORS_MAX => {
                self.slots.push(Slot { generation: 0, state: CursorState::Free });
                self.slots.len() - 1
            }
            None => return Err(ShardReadError::TooManyCursors),
        };
        let slot = &mut self.slots[at];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = CursorState::Idle(Box::new(cursor));
        Ok(CursorId { slot: at as u32, generation: slot.generation })
    }

    /// Frees the slot of one that was taken out and not kept again.
    pub(super) fn end_work(&mut self, id: CursorId) {
        if let Some(slot) = self.slot(id)
            && let CursorState::AtWork(_) = slot.state
        {
            slot.free();
        }
    }

    /// Closes one. One that is closed already is no error.
    pub(super) fn close(&mut self, id: CursorId) {
        if let Some(slot) = self.slot(id) {
            slot.free();
        }
    }

    /// Closes those that nobody waits for.
    pub(super) fn prune(&mut self) {
        for slot in &mut self.slots {
            if let CursorState::Idle(cursor) = &slot.state
                && cursor.ticket.is_cancelled()
            {
                slot.free();
            }
        }
    }

    /// Tells the reads of all that are kept that others wait for them.
    pub(super) fn tell_waited_for(&self) {
        for slot in &self.slots {
            if let CursorState::Idle(cursor) = &slot.state {
                cursor.ticket.tell_waited_for();
            }
        }
    }

    /// Whether one is open that was opened by an earlier epoch.
    pub(super) fn is_any_before(&self, epoch: Epoch) -> bool {
        self.slots.iter().any(|slot| slot.state.epoch().is_some_and(|opened| opened < epoch))
    }

    /// Closes those that were opened by an earlier epoch.
    pub(super) fn close_before(&mut self, epoch: Epoch) {
        let earlier = |slot: &&mut Slot| slot.state.epoch().is_some_and(|opened| opened < epoch);
        self.slots.iter_mut().filter(earlier).for_each(Slot::free);
    }

    fn slot(&mut self, id: CursorId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        (slot.generation == id.generation && !matches!(slot.state, CursorState::Free)).then_some(slot)
    }
}

impl Slot {
    /// A later user is distinguished from this one, which may be at work still.
    fn free(&mut self) {
        self.state = CursorState::Free;
        self.generation = self.generation.wrapping_add(1);
    }
}
