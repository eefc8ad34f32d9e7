//! The steps of one migration, in their order, and the way back.

use std::time::Duration;

use futures::future::{Either, join_all, select};

use crate::migration::{Migrated, MigrationError};
use crate::routing::{Overloaded, ReplyFuture, Router};
use silverback_host::Host;
use silverback_model::limits::{MIGRATION_COPY_MAX, MIGRATION_PAUSE_MAX};
use silverback_model::{CellId, Epoch, ShardId};
use silverback_storage::message::{
    MigrationCall, MigrationOf, MigrationRejected, OwnStep, PieceStep, PlainStep, RouteChange, UnsentCall,
};

/// Passes over what changed before the cell is drained: each is shorter than the one before.
const PASSES_MAX: usize = 4;
/// With as many changed series, or less, it is drained.
const FEW_SERIES: u64 = 256;
/// How long an end of a migration is waited for. A shard that is slower takes it later.
const END_MAX: Duration = Duration::from_secs(10);
/// How long a lane that takes nothing is left alone though its shard has a place: its core has ended or ends, of
/// which nothing is reported.
const OFFER_AGAIN: Duration = Duration::from_millis(1);

/// One cell on its way.
pub(super) struct Migration<'a, H> {
    /// The way to the shards.
    pub router: &'a Router,
    /// The thread.
    pub host: &'a H,
    /// Which cell.
    pub cell: CellId,
    /// Its source.
    pub from: ShardId,
    /// Its target.
    pub to: ShardId,
    /// From which on it is the target's.
    pub epoch: Epoch,
}

/// A cell that the target owns.
struct Brought {
    series: u64,
    bytes: u64,
    drained_us: u64,
}

/// What a pass carried.
struct Passed {
    series: u64,
    bytes: u64,
}

/// When something must be over, in µs.
#[derive(Clone, Copy)]
struct Deadline(u64);

impl<H: Host> Migration<'_, H> {
    /// Runs it to one end or the other.
    pub(crate) async fn run(self) -> Result<Migrated, MigrationError> {
        let began_us = self.host.monotonic_us();
        match self.bring_over().await {
            Ok(brought) => {
                self.switch().await;
                let paused_us = self.host.monotonic_us() - brought.drained_us;
                self.end(self.from, PlainStep::Release { to: self.to }).await;
                let took_us = self.host.monotonic_us() - began_us;
                let Brought { series, bytes, .. } = brought;
                Ok(Migrated { series, bytes, epoch: self.epoch, took_us, paused_us })
            }
            Err(fault) => {
                self.roll_back().await;
                Err(fault)
            }
        }
    }

    /// Up to the target's owning the cell.
    async fn bring_over(&self) -> Result<Brought, MigrationError> {
        let copied_by = self.deadline(MIGRATION_COPY_MAX);
        self.step(self.to, PlainStep::Expect, copied_by).await?;
        let mut bytes = self.pass(copied_by).await?.bytes;
        for _ in 0..PASSES_MAX {
            let passed = self.pass(copied_by).await?;
            bytes += passed.bytes;
            if passed.series <= FEW_SERIES {
                break;
            }
        }
        let drained_us = self.host.monotonic_us();
        let owned_by = self.deadline(MIGRATION_PAUSE_MAX);
        let mut rest = self.step(self.from, PieceStep::Drain, owned_by).await?;
        bytes += rest.payload.len() as u64;
        while !rest.is_last {
            self.step(self.to, PlainStep::Take(rest), owned_by).await?;
            rest = self.step(self.from, PieceStep::Copy, owned_by).await?;
            bytes += rest.payload.len() as u64;
        }
        let series = self.step(self.to, OwnStep { from: self.from, rest }, owned_by).await?;
        Ok(Brought { series, bytes, drained_us })
    }

    /// One pass: pieces from the source to the target.
    async fn pass(&self, deadline: Deadline) -> Result<Passed, MigrationError> {
        let mut passed = Passed { series: 0, bytes: 0 };
        loop {
            let piece = self.step(self.from, PieceStep::Copy, deadline).await?;
            passed.series += piece.series;
            passed.bytes += piece.payload.len() as u64;
            let is_last = piece.is_last;
            // Exemplars may come without any of their series: these are copied as they are.
            if !piece.payload.is_empty() {
                self.step(self.to, PlainStep::Take(piece), deadline).await?;
            }
            if is_last {
                return Ok(passed);
            }
        }
    }

    /// The cell is the target's: there is no way back. No core may take writes for it there before
    /// all of them read it there, or what is acknowledged on one were not seen on another.
    async fn switch(&self) {
        self.tell_all(RouteChange::Reads(self.epoch)).await;
        self.tell_all(RouteChange::Writes { epoch: self.epoch, cell: self.cell, owner: self.to }).await;
    }

    /// The source keeps the cell. What the target has of it is hidden before the source goes on.
    async fn roll_back(&self) {
        self.end(self.to, PlainStep::Discard { from: self.from }).await;
        self.surely(self.from, PlainStep::Keep).await;
        let epoch = self.epoch.next();
        self.tell_all(RouteChange::Writes { epoch, cell: self.cell, owner: self.from }).await;
    }

    async fn step<S: MigrationCall>(
        &self,
        shard: ShardId,
        step: S,
        deadline: Deadline,
    ) -> Result<S::Reply, MigrationError> {
        let reply = async { self.ask(shard, step).await.await };
        let left = Duration::from_micros(deadline.0.saturating_sub(self.host.monotonic_us()));
        match select(Box::pin(reply), Box::pin(self.host.sleep(left))).await {
            Either::Left((reply, _)) => reply.map_err(|refusal| MigrationError::Refused(shard, refusal)),
            Either::Right(_) => Err(MigrationError::TimedOut(shard)),
        }
    }

    /// A step without which nothing may go on, however long its shard takes.
    async fn surely(&self, shard: ShardId, step: PlainStep) {
        let reply = self.ask(shard, step).await.await;
        self.tell_refusal(shard, reply);
    }

    /// A step that its shard may take late: each shard takes the steps in the order in which they are
    /// asked.
    async fn end(&self, shard: ShardId, step: PlainStep) {
        let answer = self.ask(shard, step).await;
        match select(answer, Box::pin(self.host.sleep(END_MAX))).await {
            Either::Left((reply, _)) => self.tell_refusal(shard, reply),
            Either::Right(_) => {
                tracing::warn!(shard = shard.0, cell = self.cell.0, "a shard is slow to end a migration")
            }
        }
    }

    /// A step that finds no room comes back, and is offered again as it is: it may carry a piece.
    async fn ask<S: MigrationCall>(&self, shard: ShardId, step: S) -> ReplyFuture<MigrationOf<S>> {
        let mut request = UnsentCall::from(MigrationOf { cell: self.cell, epoch: self.epoch, step });
        loop {
            match self.router.ask(shard, request) {
                Ok(answer) => return answer,
                Err(refused) => request = refused,
            }
            self.room(shard).await;
        }
    }

    /// Waits until a question that found no room is worth another attempt.
    async fn room(&self, shard: ShardId) {
        if self.router.has_slot(shard) {
            self.host.sleep(OFFER_AGAIN).await;
        } else {
            self.router.slot(shard).await;
        }
    }

    /// Changes the routing of every core.
    async fn tell_all(&self, change: RouteChange) {
        let told = self.router.shards().map(|shard| async move {
            let answer = loop {
                match self.router.tell(shard, change) {
                    Ok(answer) => break answer,
                    Err(Overloaded) => self.room(shard).await,
                }
            };
            answer.await;
        });
        join_all(told).await;
    }

    /// A shard that never got as far has nothing to undo.
    fn tell_refusal(&self, shard: ShardId, reply: Result<(), MigrationRejected>) {
        if let Err(refusal) = reply {
            let (shard, cell) = (shard.0, self.cell.0);
            tracing::debug!(shard, cell, %refusal, "a shard refused the end of a migration");
        }
    }

    fn deadline(&self, time: Duration) -> Deadline {
        Deadline(self.host.monotonic_us() + time.as_micros() as u64)
    }
}
