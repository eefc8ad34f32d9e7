//! Reads on a shard: what matches is found, sorted, and given out in batches, in slices beside its
//! traffic.
//!
//! A read stops at its next step once nobody waits for it, and what it collects has its memory reserved
//! among all reads of the shard. What an answer looks like is not known here.

mod by_labels;
mod cardinality;
mod cursors;
mod cut;
mod exemplars;
mod filling;
mod job;
mod label_sets;
mod labels;
mod largest;
mod matching;
mod memory;
mod metadata;
mod order;
mod ranks;
mod series;
mod sort;
#[cfg(test)]
pub(super) mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::message::{
    CursorId, Read, ReadReply, ReadRequest, ReadTicket, SeriesWanted, ShardReadError, Wanted,
};
use crate::shard::read::cursors::{Cursors, ReadCursor};
use crate::shard::read::job::ReadJob;
use crate::shard::read::series::Matched;
use crate::shard::{Host, Shard};
use silverback_host::waiters::{Changes, Waiters};
use silverback_model::{Epoch, Matcher};

pub(super) use cursors::FoundSeries;
pub use memory::ReadMemory;

/// What a read looked for, or why it ended before.
type OrEnds<T> = Result<T, ShardReadError>;

/// The reads of one shard: those at work, and the cursors that wait to be fetched from.
#[derive(Debug)]
pub struct Reads {
    memory: ReadMemory,
    cursors: RefCell<Cursors>,
    /// The epochs of the reads at work.
    at_work: RefCell<Vec<Epoch>>,
    /// They wait for reads to end.
    ended: Waiters,
    /// A cell came, left or stayed for good: what waited for that finds its series here, or elsewhere.
    pub(super) settled: Changes,
    begun: Cell<u64>,
}

impl Reads {
    /// No reads yet. What they collect may take so many bytes.
    pub fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            memory: ReadMemory::new(bytes_max),
            cursors: RefCell::default(),
            at_work: RefCell::default(),
            ended: Waiters::default(),
            settled: Changes::default(),
            begun: Cell::default(),
        })
    }

    /// Answers one read.
    pub async fn answer<H: Host>(
        self: Rc<Self>,
        shard: Rc<RefCell<Shard>>,
        host: H,
        read: Read,
    ) -> OrEnds<Box<ReadReply>> {
        let Read { ticket, epoch, request } = read;
        let _at_work = self.begin(&shard, epoch, &request)?;
        let memory = self.memory.of(&ticket);
        let job = ReadJob { shard, host, ticket, epoch, memory };
        self.answer_begun(&job, request).await.map(Box::new)
    }

    /// The series that match, of the cells that the shard answers for at an epoch: found as a read finds them, in
    /// its memory and slices. No migration waits for what is done with them.
    pub(super) async fn matched<H: Host>(
        &self,
        shard: Rc<RefCell<Shard>>,
        host: H,
        ticket: &ReadTicket,
        epoch: Epoch,
        matchers: &[Matcher],
    ) -> OrEnds<Matched> {
        let memory = self.memory.of(ticket);
        series::matched(&ReadJob { shard, host, ticket: ticket.clone(), epoch, memory }, matchers).await
    }

    async fn answer_begun<H: Host>(
        self: &Rc<Self>,
        job: &ReadJob<H>,
        request: ReadRequest,
    ) -> OrEnds<ReadReply> {
        match request {
            ReadRequest::Open { selection, wanted, bytes } => {
                self.check_room()?;
                let cursor = ReadCursor::open(job, selection, wanted).await?;
                self.next_batch(job, cursor, None, bytes).await
            }
            ReadRequest::Fetch { cursor: id, bytes } => {
                let cursor = self.cursors.borrow_mut().take(id)?;
                let _taken = Taken { reads: self, id };
                self.next_batch(job, cursor, Some(id), bytes).await
            }
            ReadRequest::Close(ids) => {
                let mut cursors = self.cursors.borrow_mut();
                ids.into_iter().for_each(|id| cursors.close(id));
                Ok(ReadReply::Closed)
            }
            ReadRequest::Cardinality { limit } => {
                cardinality::measure(job, limit).await.map(ReadReply::Cardinality)
            }
            ReadRequest::Metadata(wanted) => metadata::read(job, &wanted).await.map(ReadReply::Metadata),
            ReadRequest::Cut(step) => cut::step(job, step).await.map(ReadReply::Cut),
            ReadRequest::Cells => Ok(ReadReply::Cells(job.shard.borrow().cells(job.epoch))),
        }
    }

    /// Makes a batch, and keeps the cursor where it has more.
    async fn next_batch<H: Host>(
        &self,
        job: &ReadJob<H>,
        mut cursor: ReadCursor,
        id: Option<CursorId>,
        bytes: usize,
    ) -> OrEnds<ReadReply> {
        match &cursor.wanted {
            Wanted::Series(wanted) => {
                let batch = match wanted {
                    SeriesWanted::Exemplars => exemplars::next_batch(job, &mut cursor, bytes).await?,
                    SeriesWanted::Chunks
                    | SeriesWanted::UncutChunks
                    | SeriesWanted::LabelSets
                    | SeriesWanted::ExternalChunks(_)
                    | SeriesWanted::ExternalLabelSets(_) => {
                        filling::next_batch(job, &mut cursor, bytes).await?
                    }
                };
                Ok(ReadReply::Series(batch, self.keep(cursor, id)?))
            }
            Wanted::Texts(_) => {
                let batch = labels::next_batch(job, &mut cursor, bytes).await?;
                Ok(ReadReply::Texts(batch, self.keep(cursor, id)?))
            }
        }
    }

    /// Keeps a cursor for the next fetch, if there is one.
    fn keep(&self, cursor: ReadCursor, id: Option<CursorId>) -> OrEnds<Option<CursorId>> {
        if cursor.is_at_end() {
            return Ok(None);
        }
        self.cursors.borrow_mut().keep(id, cursor).map(Some)
    }

    fn begin(self: &Rc<Self>, shard: &RefCell<Shard>, epoch: Epoch, request: &ReadRequest) -> OrEnds<AtWork> {
        self.begun.set(self.begun.get() + 1);
        self.prune();
        let is_new = match request {
            // Metadata doesn't move with cells.
            ReadRequest::Fetch { .. } | ReadRequest::Close(_) | ReadRequest::Metadata(_) => false,
            ReadRequest::Open { .. }
            | ReadRequest::Cardinality { .. }
            | ReadRequest::Cut(_)
            | ReadRequest::Cells => true,
        };
        if is_new && shard.borrow().ownership.is_stale(epoch) {
            return Err(ShardReadError::Moved);
        }
        self.at_work.borrow_mut().push(epoch);
        Ok(AtWork { reads: Rc::clone(self), epoch })
    }

    /// Closes the cursors that nobody waits for any more.
    pub fn prune(&self) {
        self.cursors.borrow_mut().prune();
        self.ended.wake_all();
    }

    /// Refuses one more cursor where there are as many as may be: before work is done for it.
    fn check_room(&self) -> OrEnds<()> {
        let cursors = self.cursors.borrow();
        cursors.check_room().inspect_err(|_| cursors.tell_waited_for())
    }

    /// Reads since the start.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// Cursors that are open.
    pub(crate) fn cursors(&self) -> usize {
        self.cursors.borrow().count()
    }

    /// What reads have collected, in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.taken_bytes()
    }

    /// Whether a read of an earlier epoch goes on.
    pub(super) fn is_any_before(&self, epoch: Epoch) -> bool {
        self.at_work.borrow().iter().any(|at_work| *at_work < epoch)
            || self.cursors.borrow().is_any_before(epoch)
    }

    /// Waits until no read of an earlier epoch goes on.
    pub(super) fn none_before(&self, epoch: Epoch) -> impl Future<Output = ()> + '_ {
        self.ended.until(move || (!self.is_any_before(epoch)).then_some(()))
    }

    /// Closes the cursors of earlier epochs.
    pub(super) fn close_before(&self, epoch: Epoch) {
        self.cursors.borrow_mut().close_before(epoch);
    }
}

/// A cursor that is at work. Where it doesn't come back, because it is at its end or the fetch failed, its
/// slot is free again.
struct Taken<'a> {
    reads: &'a Reads,
    id: CursorId,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.reads.cursors.borrow_mut().end_work(self.id);
    }
}

/// A read at work, until it ends in whichever way: a migration waits for those of former epochs.
struct AtWork {
    reads: Rc<Reads>,
    epoch: Epoch,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut at_work = self.reads.at_work.borrow_mut();
        let place = at_work.iter().position(|epoch| *epoch == self.epoch);
        at_work.swap_remove(place.expect("a read ends once"));
        drop(at_work);
        self.reads.ended.wake_all();
    }
}
