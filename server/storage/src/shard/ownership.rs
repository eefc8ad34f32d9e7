//! Which cells a shard owns, by epoch: whose parts it takes in, and which reads it answers for them.

use std::sync::Arc;

use crate::message::{MovedSeries, PartBuffer, WritePart};
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, Epoch};

/// A shard's side of the routing.
#[derive(Debug)]
pub struct Ownership {
    cells: Box<[CellLease]>,
    /// A part that was split by this epoch's table, or a later one, has no cell but the shard's own.
    settled: Epoch,
    /// Series of cells that went with this epoch are gone.
    freed: Epoch,
}

/// What one cell is to the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellLease {
    /// The epoch by which the shard owns it, in its log too; [`Epoch::NEVER`] where it doesn't.
    owned_since: Epoch,
    /// Parts of earlier epochs are refused.
    writes_from: Epoch,
    /// Reads of earlier epochs are another shard's to answer.
    reads_from: Epoch,
    /// And so are those from here on.
    reads_until: Epoch,
}

impl CellLease {
    const NONE: Self = Self {
        owned_since: Epoch::NEVER,
        writes_from: Epoch::NEVER,
        reads_from: Epoch::NEVER,
        reads_until: Epoch::NEVER,
    };

    const fn since(epoch: Epoch) -> Self {
        Self { owned_since: epoch, writes_from: epoch, reads_from: Epoch::FIRST, reads_until: Epoch::NEVER }
    }
}

impl Default for Ownership {
    /// Of a shard that is alone.
    fn default() -> Self {
        let cells = [CellLease::since(Epoch::FIRST); CELL_COUNT].into();
        Self { cells, settled: Epoch::FIRST, freed: Epoch::FIRST }
    }
}

impl Ownership {
    /// What a table of epoch `settled` says: each cell's epoch if it is the shard's own.
    pub fn of(settled: Epoch, owned_since: impl Fn(CellId) -> Option<Epoch>) -> Self {
        let cells = (0..CELL_COUNT as u16).map(|cell| owned_since(CellId(cell)));
        let cells = cells.map(|since| since.map_or(CellLease::NONE, CellLease::since)).collect();
        Self { cells, settled, freed: Epoch::FIRST }
    }

    /// Parts that were split by this epoch's table, or a later one, are the shard's own.
    pub(crate) fn settled(&self) -> Epoch {
        self.settled
    }

    /// Whether the shard accepts all of a part of an earlier epoch, but for so many first series, histograms and
    /// exemplars.
    ///
    /// Not in pieces: it takes some ns for each series, and some ms where hundreds of thousands are in one part. Only those
    /// parts come here that were routed before their senders knew of a move.
    #[cold]
    pub(crate) fn takes_rest(&self, part: &PartBuffer, but: (usize, usize, usize)) -> bool {
        let takes = |cell| self.takes(cell, part.epoch);
        part.series[but.0..].iter().all(|series| takes(series.id.cell()))
            && part.histograms[but.1..].iter().all(|histogram| takes(histogram.id.cell()))
            && part.exemplars[but.2..].iter().all(|exemplar| takes(exemplar.series.cell()))
    }

    /// Takes out of a part what is another shard's. Of a cell either all parts of an epoch that come after some moment are
    /// refused, or none: so what is refused keeps its order.
    #[cold]
    pub(crate) fn split_off(&self, write: &mut WritePart) -> MovedSeries {
        let epoch = write.part.epoch;
        let moves = |cell| !self.takes(cell, epoch);
        let (mut kept, mut moved) = (PartBuffer::default(), PartBuffer::default());
        moved.epoch = epoch;
        for (series, samples) in write.part.part_samples().each_series() {
            let to = if moves(series.id.cell()) { &mut moved } else { &mut kept };
            to.series.push(*series);
            for (sample, start_ms) in samples {
                to.samples.push(sample);
                to.push_start(start_ms);
            }
        }
        moved.histograms.extend(write.part.histograms.extract_if(.., |histogram| moves(histogram.id.cell())));
        moved.exemplars.extend(write.part.exemplars.extract_if(.., |exemplar| moves(exemplar.series.cell())));
        (write.part.series, write.part.samples) = (kept.series, kept.samples);
        write.part.starts = kept.starts;
        MovedSeries { body: Arc::clone(&write.body), parts: moved }
    }

    /// Whether the shard answers reads of an epoch for a cell.
    pub(crate) fn answers(&self, cell: CellId, epoch: Epoch) -> bool {
        let lease = self.lease(cell);
        lease.reads_from <= epoch && epoch < lease.reads_until
    }

    /// Whether reads of an epoch come too late: series that they should see are gone.
    pub(crate) fn is_stale(&self, epoch: Epoch) -> bool {
        epoch < self.freed
    }

    /// Whether the cell is the shard's.
    pub fn owns(&self, cell: CellId) -> bool {
        self.lease(cell).owned_since != Epoch::NEVER
    }

    /// Whether the shard has nothing to do with the cell, not even for reads of earlier epochs.
    pub(crate) fn is_foreign(&self, cell: CellId) -> bool {
        self.lease(cell) == CellLease::NONE
    }

    /// The cells that moved here, each with the epoch since which they are here.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (CellId, Epoch)> + '_ {
        let since = self.cells.iter().map(|lease| lease.owned_since);
        let numbered = (0..).map(CellId).zip(since);
        numbered.filter(|(_, since)| (Epoch::FIRST.next()..Epoch::NEVER).contains(since))
    }

    /// The cell is to be another shard's from an epoch on.
    pub(crate) fn drain(&mut self, cell: CellId, epoch: Epoch) {
        let lease = self.lease_mut(cell);
        lease.writes_from = Epoch::NEVER;
        lease.reads_until = epoch;
        self.settled = self.settled.max(epoch);
    }

    /// Whether the cell is drained.
    pub(crate) fn is_drained(&self, cell: CellId) -> bool {
        self.owns(cell) && self.lease(cell).writes_from == Epoch::NEVER
    }

    /// A drained cell stays, and takes parts of an epoch on.
    pub(crate) fn keep(&mut self, cell: CellId, epoch: Epoch) {
        let lease = self.lease_mut(cell);
        lease.owned_since = epoch;
        lease.writes_from = epoch;
        lease.reads_until = Epoch::NEVER;
        self.settled = self.settled.max(epoch);
    }

    /// The cell is the shard's from an epoch on. Reads are not answered yet.
    pub(crate) fn own(&mut self, cell: CellId, epoch: Epoch) {
        let owned = CellLease { reads_from: Epoch::NEVER, ..CellLease::since(epoch) };
        *self.lease_mut(cell) = owned;
        self.settled = self.settled.max(epoch);
    }

    /// The epoch since which the cell is the shard's; [`Epoch::NEVER`] where it isn't.
    pub(crate) fn owned_since(&self, cell: CellId) -> Epoch {
        self.lease(cell).owned_since
    }

    /// The cell is answered for, to reads of an epoch and later ones.
    pub(crate) fn show(&mut self, cell: CellId, epoch: Epoch) {
        self.lease_mut(cell).reads_from = epoch;
    }

    /// The cell is another's. Reads of earlier epochs are answered on.
    pub(crate) fn release(&mut self, cell: CellId) {
        self.lease_mut(cell).owned_since = Epoch::NEVER;
    }

    /// The shard has nothing to do with the cell.
    pub(crate) fn hide(&mut self, cell: CellId) {
        *self.lease_mut(cell) = CellLease::NONE;
    }

    /// The cell's series go; it went with this epoch.
    pub(crate) fn free(&mut self, cell: CellId, epoch: Epoch) {
        self.hide(cell);
        self.freed = self.freed.max(epoch);
    }

    /// Whether the shard accepts what is of a cell in parts of an epoch.
    fn takes(&self, cell: CellId, epoch: Epoch) -> bool {
        self.lease(cell).writes_from <= epoch
    }

    fn lease(&self, cell: CellId) -> CellLease {
        self.cells[usize::from(cell.0)]
    }

    fn lease_mut(&mut self, cell: CellId) -> &mut CellLease {
        &mut self.cells[usize::from(cell.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{LabelSpan, PartPool, PartSeries};
    use silverback_model::{Sample, SeriesId};

    const CELL: CellId = CellId(5);

    /// A series in another cell, and one in the cell, with a sample each.
    fn part(epoch: u64) -> WritePart {
        let mut part = PartPool::default().take().unwrap();
        for cell in [3, 5u128] {
            part.series.push(PartSeries::new(SeriesId(cell << 118), LabelSpan::NOWHERE, 1));
            part.samples.push(Sample::new(epoch as i64, cell as f64));
            part.push_start(cell as i64);
        }
        part.epoch = Epoch(epoch);
        WritePart { body: Arc::default(), part }
    }

    fn takes_all(ownership: &Ownership, epoch: u64) -> bool {
        let part = part(epoch);
        part.part.epoch >= ownership.settled() || ownership.takes_rest(&part.part, (0, 0, 0))
    }

    /// The epochs up to 9 whose parts are taken whole, and whose reads are answered for the cell.
    fn served(ownership: &Ownership) -> (Vec<u64>, Vec<u64>) {
        let taken = (1..10).filter(|epoch| takes_all(ownership, *epoch)).collect();
        (taken, (1..10).filter(|epoch| ownership.answers(CELL, Epoch(*epoch))).collect())
    }

    #[test]
    fn what_is_another_shard_s_leaves_the_part_and_the_rest_stays() {
        let mut ownership = Ownership::default();
        ownership.drain(CELL, Epoch(4));
        let mut write = part(3);
        assert!(
            !ownership.takes_rest(&write.part, (0, 0, 0)) && !ownership.takes_rest(&write.part, (1, 0, 0))
        );
        assert!(ownership.takes_rest(&write.part, (2, 0, 0)), "what is accepted stays");
        let moved = ownership.split_off(&mut write);
        let told = |parts: &PartBuffer| {
            let cells: Vec<u16> = parts.series.iter().map(|series| series.id.cell().0).collect();
            let starts = parts.starts.iter().map(|start| (start.sample, start.start_ms)).collect::<Vec<_>>();
            let values = parts.samples.iter().map(|sample| sample.value).collect::<Vec<_>>();
            (cells, values, starts, parts.epoch)
        };
        assert_eq!(told(&moved.parts), (vec![5], vec![5.0], vec![(0, 5)], Epoch(3)));
        assert_eq!(told(&write.part), (vec![3], vec![3.0], vec![(0, 3)], Epoch(3)));
    }

    #[test]
    fn a_drained_cell_s_parts_are_refused_and_its_former_reads_answered() {
        let mut ownership = Ownership::default();
        ownership.drain(CELL, Epoch(4));
        assert_eq!(served(&ownership), ((4..10).collect(), (1..4).collect()));
        assert!(ownership.is_drained(CELL) && ownership.owns(CELL));
        ownership.release(CELL);
        assert!(!ownership.owns(CELL));
        ownership.free(CELL, Epoch(4));
        assert_eq!(served(&ownership).1, [0; 0]);
        assert!(ownership.is_stale(Epoch(3)) && !ownership.is_stale(Epoch(4)));
    }

    #[test]
    fn a_cell_that_is_kept_takes_no_part_that_was_refused_before() {
        let mut ownership = Ownership::default();
        ownership.drain(CELL, Epoch(4));
        ownership.keep(CELL, Epoch(5));
        assert_eq!(served(&ownership), ((5..10).collect(), (1..10).collect()));
        assert_eq!(ownership.claims().collect::<Vec<_>>(), [(CELL, Epoch(5))]);
    }

    #[test]
    fn a_cell_that_is_owned_is_shown_later() {
        let mut ownership = Ownership::of(Epoch(3), |cell| (cell != CELL).then_some(Epoch::FIRST));
        assert_eq!(served(&ownership), ((3..10).collect(), vec![]));
        ownership.own(CELL, Epoch(6));
        assert_eq!(served(&ownership), ((6..10).collect(), vec![]));
        ownership.show(CELL, Epoch(6));
        assert_eq!(served(&ownership).1, (6..10).collect::<Vec<u64>>());
        ownership.hide(CELL);
        assert_eq!((served(&ownership).1, ownership.claims().count()), (vec![], 0));
    }

    #[test]
    fn nothing_is_looked_at_where_nothing_moved() {
        let ownership = Ownership::of(Epoch(3), |_| None);
        assert!(takes_all(&ownership, 3), "the sender's table is as new as the shard's");
        assert!(!takes_all(&ownership, 2));
    }
}
