//! A part on its way into the shard: how far it is appended, what became of that, and what turned out to be another
//! shard's. Knows the pieces that a part is appended by, and neither when they are nor who else waits.

use std::collections::VecDeque;

use crate::message::{MovedSeries, PartHistogram, StreamId, WritePart};
use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::ownership::Ownership;
use crate::shard::position::PartPosition;
use crate::shard::sorting::Sorting;
use crate::shard::{ReplyTo, Shard};
use crate::wal::Journal;
use silverback_model::Epoch;

/// What an exemplar costs, in samples.
const EXEMPLAR_COST: usize = 32;

/// Exemplars of a part, and metadata, that are appended between two looks at the clock: some 100 µs.
const PIECE_EXEMPLARS: usize = 128;
const PIECE_METADATA: usize = 16;

/// Bytes of a histogram that cost what a sample costs, in the log and in time.
const HISTOGRAM_BYTES: usize = 64;

/// A part, appended piece by piece.
#[derive(Debug)]
pub(super) struct PartInProgress {
    pub(super) to: ReplyTo,
    write: WritePart,
    /// What comes after it in its stream, and waits for it.
    followers: VecDeque<(ReplyTo, WritePart)>,
    position: PartPosition,
    /// A series' samples that are sorted before they are appended.
    sorting: Option<Sorting>,
    histograms: usize,
    exemplars: usize,
    metadata: usize,
    outcome: PartOutcome,
    moved: Option<Box<MovedSeries>>,
    /// Of the routing by which what moved was taken out last.
    settled: Option<Epoch>,
    /// What was appended since that was asked for last, in samples.
    cost: usize,
}

impl PartInProgress {
    /// One of which nothing is appended.
    pub(super) fn new(to: ReplyTo, write: WritePart) -> Self {
        Self {
            to,
            write,
            followers: VecDeque::new(),
            position: PartPosition::default(),
            sorting: None,
            histograms: 0,
            exemplars: 0,
            metadata: 0,
            outcome: PartOutcome::default(),
            moved: None,
            settled: None,
            cost: 0,
        }
    }

    /// The stream that it came by.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.write.part.stream
    }

    /// Has another part wait for this one.
    pub(super) fn add_follower(&mut self, to: ReplyTo, write: WritePart) {
        self.followers.push_back((to, write));
    }

    /// How many parts wait for it.
    pub(super) fn followers(&self) -> usize {
        self.followers.len()
    }

    /// The parts that waited for it.
    pub(super) fn take_followers(&mut self) -> VecDeque<(ReplyTo, WritePart)> {
        std::mem::take(&mut self.followers)
    }

    /// Takes out what became another shard's, of what isn't appended yet. To be called before each turn: cells leave
    /// between two of them alone.
    pub(super) fn give_up_moved(&mut self, ownership: &Ownership) {
        let settled = ownership.settled();
        if self.settled.replace(settled) == Some(settled) || self.write.part.epoch >= settled {
            return;
        }
        let taken = (self.position.series, self.histograms, self.exemplars);
        if ownership.takes_rest(&self.write.part, taken) {
            return;
        }
        debug_assert!(self.can_wait(), "what is being sorted has its places in the part");
        self.drain_taken();
        let moved = ownership.split_off(&mut self.write);
        match &mut self.moved {
            Some(before) => before.parts.append(moved.parts),
            None => self.moved = Some(Box::new(moved)),
        }
    }

    fn drain_taken(&mut self) {
        let part = &mut self.write.part;
        self.position.drain_taken(part);
        part.histograms.drain(..std::mem::take(&mut self.histograms));
        part.exemplars.drain(..std::mem::take(&mut self.exemplars));
    }

    /// Takes a piece in: what is done between two looks at the clock. `now_ms` says when metadata is heard.
    pub(super) fn append_piece(
        &mut self,
        shard: &mut Shard,
        bounds: TimeBounds,
        now_ms: impl Fn() -> i64,
        journal: &mut impl Journal,
    ) {
        let WritePart { body, part } = &mut self.write;
        if let Some(sorting) = &mut self.sorting {
            if sorting.step(part) {
                self.position.sorted = sorting.end();
                self.sorting = None;
            }
        } else if !self.position.is_end(part.series.len()) {
            let before = self.position;
            let piece = shard.append_piece(body, part.part_samples(), &mut self.position, bounds, journal);
            self.outcome.add(piece);
            self.cost += self.position.samples_since(before);
            let sorting = |own| shard.sorting(part.series[self.position.series].id, own, bounds);
            self.sorting = self.position.unsorted(part, bounds).and_then(sorting);
        } else if let Some(next) = part.histograms.get(self.histograms..).filter(|next| !next.is_empty()) {
            let (taken, piece) = shard.append_histograms(body, next, bounds, journal);
            self.outcome.add(piece);
            self.cost += next[..taken].iter().map(cost_of).sum::<usize>();
            self.histograms += taken;
        } else if let Some(exemplars) = next_of(&part.exemplars, &mut self.exemplars, PIECE_EXEMPLARS) {
            // After all samples and histograms: these may make their series.
            self.outcome.exemplars.add(shard.append_exemplars(body, exemplars, bounds, journal));
            self.cost += EXEMPLAR_COST * exemplars.len();
        } else if let Some(metadata) = next_of(&part.metadata, &mut self.metadata, PIECE_METADATA) {
            shard.hear_metadata(body, metadata, now_ms(), journal);
        }
    }

    /// Whether it had a turn.
    pub(super) fn is_begun(&self) -> bool {
        self.settled.is_some()
    }

    /// Whether all of it is appended.
    pub(super) fn is_whole(&self) -> bool {
        let part = &self.write.part;
        self.position.is_end(part.series.len())
            && self.histograms >= part.histograms.len()
            && self.exemplars >= part.exemplars.len()
            && self.metadata >= part.metadata.len()
    }

    /// Whether it may be set aside: what sorts samples is large, and there is one for a shard. It takes some ms.
    pub(super) fn can_wait(&self) -> bool {
        self.sorting.is_none()
    }

    /// What was appended since this was asked last, in samples.
    pub(super) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost)
    }

    /// Who sent it, what became of it, and what of it is another shard's.
    pub(super) fn into_outcome(self) -> (ReplyTo, PartOutcome, Option<Box<MovedSeries>>) {
        (self.to, self.outcome, self.moved)
    }
}

/// What a histogram costs, in samples.
fn cost_of(histogram: &PartHistogram) -> usize {
    1 + histogram.message.bytes() / HISTOGRAM_BYTES
}

/// The next few of a list of which some are appended.
fn next_of<'a, T>(all: &'a [T], taken: &mut usize, most: usize) -> Option<&'a [T]> {
    let next = all[*taken..].chunks(most).next()?;
    *taken += next.len();
    Some(next)
}

#[cfg(test)]
mod tests;
