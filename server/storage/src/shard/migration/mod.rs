//! A shard's part in migrations: takes the steps that it is asked for, in the order in which it is.
//!
//! What changes who is served happens here, at one go, between two turns; what takes long is a job
//! beside traffic that looks again, at each of its steps, whether the migration goes on.

mod incoming;
mod outgoing;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use futures::future::select;

use crate::message::{
    MigrationPiece, MigrationRejected, MigrationReply, MigrationRequest, MigrationStep, OwnStep, PieceStep,
    PlainStep,
};
use crate::shard::{Host, Reads, Shard};
use crate::wal::record::{Claim, ClaimKind};
use crate::wal::{Journal, Log};
use silverback_model::limits::REMAINS_READ_MAX;
use silverback_model::{CellId, Epoch, ShardId};

pub(crate) use incoming::IncomingMigration;
pub(crate) use outgoing::OutgoingMigration;

/// What comes of a step, or why it is refused.
type Handled<T> = Result<T, MigrationRejected>;

/// How a step came out.
pub(crate) type Taken = Handled<MigrationReply>;

/// Takes a step and answers it, now or later.
pub(crate) fn take_step<L: Log, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    reads: &Rc<Reads>,
    log: &L,
    host: &H,
    request: MigrationRequest,
    answer: impl FnOnce(Taken) + 'static,
) {
    let MigrationRequest { cell, epoch, step } = request;
    let (shard, log) = (Rc::clone(shard), log.clone());
    let begun = shard.borrow_mut().begin(cell, epoch, &step, &mut *log.journal());
    if let Err(refusal) = begun {
        return answer(Err(refusal));
    }
    match step {
        MigrationStep::Plain(PlainStep::Expect) => answer(Ok(MigrationReply::Done)),
        MigrationStep::Plain(PlainStep::Keep) => {
            answer(Ok(MigrationReply::Done));
            reads.settled.happen();
        }
        MigrationStep::Piece(_) => {
            let is_waited_for = shard.borrow().ownership.is_drained(cell);
            let copy = move |host| async move { answer(outgoing::copy(shard, host, cell, epoch).await) };
            if is_waited_for { host.spawn_foreground(copy) } else { host.spawn_background(copy) }
        }
        MigrationStep::Plain(PlainStep::Take(piece)) => {
            let is_waited_for = piece.is_waited_for;
            let of_cell = (cell, epoch);
            let take =
                move |host| async move { answer(incoming::take(shard, log, host, of_cell, piece).await) };
            if is_waited_for { host.spawn_foreground(take) } else { host.spawn_background(take) }
        }
        MigrationStep::Own(OwnStep { from, rest }) => {
            let reads = Rc::clone(reads);
            host.spawn_foreground(move |host| async move {
                answer(own(shard, log, host, (cell, epoch), from, rest).await);
                reads.settled.happen();
            });
        }
        MigrationStep::Plain(PlainStep::Discard { .. }) => {
            let orphans = shard.borrow_mut().orphans(cell);
            answer(Ok(MigrationReply::Done));
            reads.settled.happen();
            host.spawn_background(
                move |host| async move { incoming::free(&shard, &log, &host, orphans).await },
            );
        }
        MigrationStep::Plain(PlainStep::Release { .. }) => {
            answer(Ok(MigrationReply::Done));
            reads.settled.happen();
            let reads = Rc::clone(reads);
            host.spawn_background(move |host| async move {
                free_unread(&shard, &reads, &log, &host, (cell, epoch)).await;
            });
        }
    }
}

/// Takes the last piece in, and with it the cell. Answers once its record is on disk.
async fn own<L: Log, H: Host>(
    shard: Rc<RefCell<Shard>>,
    log: L,
    host: H,
    (cell, epoch): (CellId, Epoch),
    from: ShardId,
    rest: MigrationPiece,
) -> Taken {
    incoming::take(Rc::clone(&shard), log.clone(), host, (cell, epoch), rest).await?;
    shard.borrow_mut().own_cell(cell, epoch, from, &mut *log.journal())?;
    // Whatever is acknowledged when: the source releases the cell after this.
    log.flush().await?;
    shard.borrow_mut().show_cell(cell, epoch)
}

/// Frees a cell that was handed over, once no read from before goes on.
async fn free_unread<L: Log, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    reads: &Reads,
    log: &L,
    host: &H,
    (cell, epoch): (CellId, Epoch),
) {
    if let Err(error) = log.flush().await {
        // The target's record decides: this one says where the cell went.
        tracing::warn!(cell = cell.0, %error, "that a cell was handed over is not in the log yet");
    }
    let over = pin!(reads.none_before(epoch));
    select(over, pin!(host.sleep(REMAINS_READ_MAX))).await;
    reads.close_before(epoch);
    let orphans = {
        let mut shard = shard.borrow_mut();
        shard.ownership.free(cell, epoch);
        shard.orphans(cell)
    };
    incoming::free(shard, log, host, orphans).await;
}

impl Shard {
    /// What of a step is done at one go.
    fn begin(
        &mut self,
        cell: CellId,
        epoch: Epoch,
        step: &MigrationStep,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let begun = self.change_hands(cell, epoch, step, journal);
        self.deal_series_limit();
        begun
    }

    fn change_hands(
        &mut self,
        cell: CellId,
        epoch: Epoch,
        step: &MigrationStep,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        match step {
            MigrationStep::Plain(PlainStep::Expect) => self.expect_cell(cell, epoch),
            MigrationStep::Piece(PieceStep::Copy) => self.begin_outgoing(cell, epoch),
            MigrationStep::Plain(PlainStep::Take(_)) | MigrationStep::Own(_) => {
                self.incoming_of(cell, epoch).map(drop)
            }
            MigrationStep::Piece(PieceStep::Drain) => self.drain_cell(cell, epoch),
            MigrationStep::Plain(PlainStep::Release { to }) => self.release_cell(cell, epoch, *to, journal),
            MigrationStep::Plain(PlainStep::Discard { from }) => {
                self.discard_cell(cell, epoch, *from, journal)
            }
            MigrationStep::Plain(PlainStep::Keep) => self.keep_cell(cell, epoch, journal),
        }
    }

    fn expect_cell(&mut self, cell: CellId, epoch: Epoch) -> Handled<()> {
        if self.ownership.owns(cell) {
            return Err(MigrationRejected::OutOfStep);
        }
        let is_vacant = self.ownership.is_foreign(cell) && self.cells[usize::from(cell.0)].table.is_empty();
        if self.incoming.is_some() || !is_vacant {
            return Err(MigrationRejected::Busy);
        }
        self.incoming = Some(IncomingMigration::new(cell, epoch));
        Ok(())
    }

    fn begin_outgoing(&mut self, cell: CellId, epoch: Epoch) -> Handled<()> {
        match &self.outgoing {
            Some(outgoing) if (outgoing.cell, outgoing.epoch) == (cell, epoch) => Ok(()),
            Some(_) => Err(MigrationRejected::Busy),
            None if !self.ownership.owns(cell) || self.ownership.is_drained(cell) => {
                Err(MigrationRejected::NotHeld)
            }
            None => {
                let series = self.cells[usize::from(cell.0)].table.iter().collect();
                let exemplars_end = self.exemplars.end();
                self.outgoing = Some(OutgoingMigration::new(cell, epoch, series, exemplars_end));
                Ok(())
            }
        }
    }

    fn drain_cell(&mut self, cell: CellId, epoch: Epoch) -> Handled<()> {
        self.outgoing_of(cell, epoch)?;
        self.ownership.drain(cell, epoch);
        Ok(())
    }

    fn own_cell(
        &mut self,
        cell: CellId,
        epoch: Epoch,
        from: ShardId,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        self.incoming_of(cell, epoch)?;
        journal.claimed(Claim { cell, epoch, kind: ClaimKind::Owned, other: from });
        // At once: a checkpoint that is in flight has to have it.
        self.ownership.own(cell, epoch);
        self.deal_series_limit();
        Ok(())
    }

    /// Answers reads for a cell that is owned.
    fn show_cell(&mut self, cell: CellId, epoch: Epoch) -> Taken {
        let series = self.incoming_of(cell, epoch)?.series();
        self.incoming = None;
        self.ownership.show(cell, epoch);
        Ok(MigrationReply::Owned { series })
    }

    fn release_cell(
        &mut self,
        cell: CellId,
        epoch: Epoch,
        to: ShardId,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        self.outgoing_of(cell, epoch)?;
        if !self.ownership.is_drained(cell) {
            return Err(MigrationRejected::OutOfStep);
        }
        self.outgoing = None;
        journal.claimed(Claim { cell, epoch, kind: ClaimKind::Given, other: to });
        self.ownership.release(cell);
        Ok(())
    }

    /// Refused where there is nothing to be freed.
    fn discard_cell(
        &mut self,
        cell: CellId,
        epoch: Epoch,
        from: ShardId,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let arrives = self.incoming_of(cell, epoch).is_ok();
        let is_owned = self.ownership.owned_since(cell) == epoch;
        if arrives {
            self.incoming = None;
        }
        if is_owned {
            // Before any of its series is removed in the log: a claim must never be there without them.
            journal.claimed(Claim { cell, epoch: epoch.next(), kind: ClaimKind::Given, other: from });
            self.ownership.hide(cell);
        }
        if arrives || is_owned { Ok(()) } else { Err(MigrationRejected::OutOfStep) }
    }

    fn keep_cell(&mut self, cell: CellId, epoch: Epoch, journal: &mut impl Journal) -> Handled<()> {
        self.outgoing_of(cell, epoch)?;
        self.outgoing = None;
        if self.ownership.is_drained(cell) {
            // The target may have its claim on disk. This one is higher, and comes before whatever is
            // acknowledged from now on.
            journal.claimed(Claim { cell, epoch: epoch.next(), kind: ClaimKind::Owned, other: self.id });
            self.ownership.keep(cell, epoch.next());
        }
        Ok(())
    }

    /// Whether a series of the cell is to stay where it is, though it is too old: its copy is on its
    /// way.
    pub(super) fn is_on_its_way(&self, cell: CellId) -> bool {
        let leaves = self.outgoing.as_ref().is_some_and(|outgoing| outgoing.cell == cell);
        leaves || self.incoming.as_ref().is_some_and(|incoming| incoming.cell == cell)
    }
}
