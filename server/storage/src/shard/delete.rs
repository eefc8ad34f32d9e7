//! Deletions that an operator asked for, as a job beside traffic: what matches is found as a read finds it, and goes
//! series by series, from memory and into the log.
//!
//! Each series goes, or is cut, at one go. What comes to it afterwards is stored as to any other: nothing
//! remembers that something was deleted. A cell on its way to another shard is waited for: its copy must not
//! bring back what went. Who asks again where a cell has left is not known here.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::select;

use crate::cell::histograms::{HistogramChunks, HistogramsWithout};
use crate::cell::rest::{Rest, Without};
use crate::message::{
    Deleted, Deletion, DeletionError, DeletionReply, ReadTicket, Selection, ShardReadError,
};
use crate::shard::read::FoundSeries;
use crate::shard::{Host, Reads, Shard};
use crate::wal::{Journal, Log};
use silverback_model::{CellId, Epoch, SeriesRef};

/// What a deletion puts into the log before it waits for the disk: no more is ahead of a write that comes then.
const PIECE_BYTES: usize = 256 << 10;

/// What the log takes for a series that went, about.
const REMOVED_BYTES: usize = 24;

/// Runs a deletion. It answers once all that went is gone from the disk, too.
pub(crate) async fn delete<L: Log, H: Host>(
    shard: Rc<RefCell<Shard>>,
    reads: Rc<Reads>,
    log: L,
    host: H,
    deletion: Deletion,
) -> DeletionReply {
    let Deletion { ticket, epoch, selections, wait_max } = deletion;
    let until_us = host.monotonic_us().saturating_add(wait_max.as_micros() as u64);
    let job = Job { shard, reads, log, host, ticket, epoch, until_us };
    let mut progress = Progress::default();
    let went = job.delete_all(&selections, &mut progress).await;
    // Also where not all of it went: what was reported as gone stays so. And where nothing did: what is asked for may
    // have gone before, by retention or by a deletion that failed, and not be gone from the disk yet.
    let written = job.write_out(&mut progress).await;
    if progress.deleted.series > 0 {
        // Until a checkpoint the refs of series that went stay taken, and count among those that the shard may hold:
        // room for others may be why they went.
        job.log.ask_checkpoint();
    }
    let moved = if progress.has_moved || job.is_stale() { Err(ShardReadError::Moved.into()) } else { Ok(()) };
    DeletionReply { deleted: progress.deleted, ended: written.and(went).and(moved) }
}

struct Job<L, H> {
    shard: Rc<RefCell<Shard>>,
    reads: Rc<Reads>,
    log: L,
    host: H,
    ticket: ReadTicket,
    epoch: Epoch,
    /// No cell is waited for any longer.
    until_us: u64,
}

#[derive(Default)]
struct Progress {
    deleted: Deleted,
    /// In the journal since it was last on disk.
    unwritten_bytes: usize,
    /// A cell left, and has what was to be deleted where it is now.
    has_moved: bool,
}

/// What became of a series.
enum Went {
    /// It was gone, or has nothing in the range.
    Not,
    Whole {
        samples: usize,
    },
    InPart {
        samples: usize,
        left_bytes: usize,
    },
    /// Its cell is on its way.
    Waits,
    /// Its cell is another shard's by now.
    Left,
}

impl<L: Log, H: Host> Job<L, H> {
    async fn delete_all(
        &self,
        selections: &[Selection],
        progress: &mut Progress,
    ) -> Result<(), DeletionError> {
        self.log.check()?;
        for selection in selections {
            self.delete_selection(selection, progress).await?;
        }
        Ok(())
    }

    async fn delete_selection(
        &self,
        selection: &Selection,
        progress: &mut Progress,
    ) -> Result<(), DeletionError> {
        let (shard, host) = (Rc::clone(&self.shard), self.host.clone());
        let matched = self.reads.matched(shard, host, &self.ticket, self.epoch, &selection.matchers).await?;
        let range_ms = selection.min_ms..=selection.max_ms;
        let mut settled = self.reads.settled.count();
        let mut waiting = self.delete_series(&matched.series, &range_ms, progress).await?;
        while !waiting.is_empty() && !progress.has_moved {
            self.wait_for_cells(settled).await;
            progress.has_moved = self.is_late();
            settled = self.reads.settled.count();
            waiting = self.delete_series(&waiting, &range_ms, progress).await?;
        }
        self.wait_for_readers_of_what_left(progress).await
    }

    /// Waits while a cell is handed over whose new owner was asked to delete from it: some cores may read it here still,
    /// and would find again what went there. Once it is released, none does.
    async fn wait_for_readers_of_what_left(&self, progress: &mut Progress) -> Result<(), DeletionError> {
        loop {
            let settled = self.reads.settled.count();
            if !self.shard.borrow().is_read_in_two_places(self.epoch) {
                return Ok(());
            }
            if self.is_late() {
                progress.has_moved = true;
                return Ok(());
            }
            self.wait_for_cells(settled).await;
            if self.ticket.is_cancelled() {
                return Err(ShardReadError::Cancelled.into());
            }
        }
    }

    fn is_late(&self) -> bool {
        self.host.monotonic_us() >= self.until_us
    }

    /// Waits for a cell to be on its way no more that was when so many had come to that; not for longer than the deletion
    /// may, nor once nobody waits for it.
    async fn wait_for_cells(&self, settled: u64) {
        self.host.release_slice();
        let left = Duration::from_micros(self.until_us.saturating_sub(self.host.monotonic_us()));
        let late = pin!(self.host.sleep(left));
        select(pin!(self.reads.settled.after(settled)), select(self.ticket.cancelled(), late)).await;
    }

    /// Gives those back whose cells are on their way.
    async fn delete_series(
        &self,
        series: &[FoundSeries],
        range_ms: &RangeInclusive<i64>,
        progress: &mut Progress,
    ) -> Result<Vec<FoundSeries>, DeletionError> {
        let mut waiting = Vec::new();
        for found in series {
            self.host.yield_if_needed().await;
            if self.ticket.is_cancelled() {
                return Err(ShardReadError::Cancelled.into());
            }
            let went =
                self.shard.borrow_mut().delete_in(*found, self.epoch, range_ms, &mut *self.log.journal());
            match went {
                Went::Waits => waiting.push(*found),
                went => progress.note(&went),
            }
            if progress.unwritten_bytes >= PIECE_BYTES {
                self.write_out(progress).await?;
                self.log.check()?;
            }
        }
        Ok(waiting)
    }

    /// Waits until what went is gone from the disk.
    async fn write_out(&self, progress: &mut Progress) -> Result<(), DeletionError> {
        self.host.release_slice();
        self.log.flush().await?;
        progress.unwritten_bytes = 0;
        Ok(())
    }

    fn is_stale(&self) -> bool {
        self.shard.borrow().ownership.is_stale(self.epoch)
    }
}

impl Progress {
    fn note(&mut self, went: &Went) {
        match *went {
            Went::Not | Went::Waits => {}
            Went::Left => self.has_moved = true,
            Went::Whole { samples } => {
                self.deleted += Deleted { series: 1, series_cut: 0, samples: samples as u64 };
                self.unwritten_bytes += REMOVED_BYTES;
            }
            Went::InPart { samples, left_bytes } => {
                self.deleted += Deleted { series: 0, series_cut: 1, samples: samples as u64 };
                self.unwritten_bytes += left_bytes;
            }
        }
    }
}

impl Shard {
    /// Deletes a found series' samples in a range.
    fn delete_in(
        &mut self,
        found: FoundSeries,
        epoch: Epoch,
        range_ms: &RangeInclusive<i64>,
        journal: &mut impl Journal,
    ) -> Went {
        let series = found.series;
        if !self.store.holds(series) || !found.is(self.store.id(series)) {
            return Went::Not;
        }
        let cell = self.store.id(series).cell();
        if !self.owns(cell) || !self.ownership.answers(cell, epoch) {
            return Went::Left;
        }
        if self.is_moving(cell) {
            return Went::Waits;
        }
        let went = self.delete_from(series, range_ms, journal);
        if let Went::Whole { samples } | Went::InPart { samples, .. } = went {
            self.counters.samples_deleted += samples as u64;
        }
        went
    }

    fn delete_from(
        &mut self,
        series: SeriesRef,
        range_ms: &RangeInclusive<i64>,
        journal: &mut impl Journal,
    ) -> Went {
        let samples = self.store.without(series, range_ms);
        let histograms = self.store.without_histograms(series, range_ms);
        let has_samples = matches!(samples, Without::Rest(_))
            || (samples == Without::AsBefore && self.store.has_samples(series));
        let has_histograms = match &histograms {
            Some(without) => without.rest.open().is_some(),
            None => self.store.has_histograms(series),
        };
        if samples == Without::AsBefore && histograms.is_none() {
            return Went::Not;
        }
        if !has_samples && !has_histograms {
            let samples = self.store.samples(series);
            self.remove_series(series, journal);
            self.counters.series_deleted += 1;
            return Went::Whole { samples };
        }
        let (mut gone, mut left_bytes) = (0, 0);
        if let Some(HistogramsWithout { gone: histograms, rest }) = histograms {
            (gone, left_bytes) = (histograms, rest.bytes());
            self.cut_histograms(series, rest, journal);
        }
        let cut = match samples {
            Without::AsBefore => Went::InPart { samples: 0, left_bytes: 0 },
            Without::Nothing => self.cut_samples(series, journal),
            Without::Rest(rest) => self.cut_series(series, rest, journal),
        };
        if let Went::InPart { samples, left_bytes: bytes } = cut {
            gone += samples;
            left_bytes += bytes;
        }
        Went::InPart { samples: gone, left_bytes }
    }

    /// Takes all floats of a series that keeps histograms.
    fn cut_samples(&mut self, series: SeriesRef, journal: &mut impl Journal) -> Went {
        let samples = self.store.float_samples(series);
        journal.replaced(series, &[], &[]);
        self.store.replace(series, Vec::new(), &[]).expect("there is no chunk that could be a bad one");
        Went::InPart { samples, left_bytes: 0 }
    }

    fn cut_histograms(&mut self, series: SeriesRef, rest: HistogramChunks, journal: &mut impl Journal) {
        journal.replaced_histograms(series, &rest.sealed, rest.open());
        let replaced = self.store.replace_histograms(series, rest);
        replaced.expect("chunks that were written by the node's own rules are taken");
        self.singles.forget(series);
    }

    /// Whether a cell is on its way that reads of this epoch ask its new owner for, and those of earlier ones this shard.
    fn is_read_in_two_places(&self, epoch: Epoch) -> bool {
        let leaves = self.outgoing.as_ref();
        leaves.is_some_and(|outgoing| outgoing.epoch <= epoch && self.ownership.is_drained(outgoing.cell))
    }

    /// Whether the copy of a cell's series may be elsewhere, too.
    fn is_moving(&self, cell: CellId) -> bool {
        self.ownership.is_drained(cell) || self.is_on_its_way(cell)
    }

    fn cut_series(&mut self, series: SeriesRef, rest: Rest, journal: &mut impl Journal) -> Went {
        let Rest { sealed, open, gone } = rest;
        let left_bytes = sealed.iter().chain([&open]).map(|chunk| chunk.bytes().len()).sum();
        let replaced = self.store.replace(series, sealed, open.bytes());
        replaced.expect("chunks that were written by the node's own rules are taken");
        // After that: what memory doesn't take must not be in the log, which would be none that a start can read.
        journal.replaced(series, self.store.sealed(series), open.bytes());
        // It may have one sample now, and had more until now.
        self.singles.forget(series);
        Went::InPart { samples: gone, left_bytes }
    }
}

#[cfg(test)]
pub(super) mod tests;
