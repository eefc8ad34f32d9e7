//! A cell that leaves the shard: its series as pieces, pass after pass while it is served, and once
//! more when it takes no writes any more.
//!
//! Each append to the cell notes its series, so a later pass looks at those alone: the last one, for
//! which writes wait, is short however large the cell is. What came to a series since the last pass is what is newer
//! than the newest sample that was in it; one that got late samples is copied whole again.

use std::cell::RefCell;
use std::rc::Rc;
use std::vec;

use hashbrown::{HashMap, HashSet};

use super::Handled;
use crate::cell::SeriesRef;
use crate::message::{MigrationPiece, MigrationRejected, MigrationReply};
use crate::shard::exemplars::ring::ExemplarNumber;
use crate::shard::{Host, Shard};
use crate::wal::record::Group;
use crate::wal::{AdoptedSeries, Journal};
use silverback_model::gorilla::XorIter;
use silverback_model::{CellId, Epoch, Exemplar};

/// A piece goes on its way once it has so many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// A cell on its way to another shard.
#[derive(Debug)]
pub(crate) struct OutgoingMigration {
    /// Which.
    pub cell: CellId,
    /// Of its migration.
    pub epoch: Epoch,
    /// The newest timestamp of each series that was copied, in ms.
    copied: HashMap<SeriesRef, i64>,
    /// The series that the pass has still to look at; `None` between two passes.
    pass: Option<vec::IntoIter<SeriesRef>>,
    /// Exemplars before this one are copied.
    exemplars_from: ExemplarNumber,
    /// Of the present pass: what came before its begin, so that their series are in it or in a former one.
    exemplars_end: ExemplarNumber,
    /// The series that were appended to since the pass began.
    touched: HashSet<SeriesRef>,
    /// Those that got late samples since they were copied.
    late: HashSet<SeriesRef>,
}

impl OutgoingMigration {
    /// Of a cell with these series, of which none is copied yet.
    pub(crate) fn new(
        cell: CellId,
        epoch: Epoch,
        series: Vec<SeriesRef>,
        exemplars_end: ExemplarNumber,
    ) -> Self {
        let (copied, touched) = (HashMap::with_capacity(series.len()), HashSet::new());
        let (pass, exemplars_from) = (Some(series.into_iter()), ExemplarNumber::default());
        Self { cell, epoch, copied, pass, exemplars_from, exemplars_end, touched, late: HashSet::new() }
    }

    /// Notes that a series of a cell was appended to.
    #[cold]
    pub(crate) fn touch(&mut self, cell: CellId, series: SeriesRef) {
        if cell == self.cell {
            self.touched.insert(series);
        }
    }

    /// Notes that a series of a cell got a late sample.
    #[cold]
    pub(crate) fn touch_late(&mut self, cell: CellId, series: SeriesRef) {
        if cell == self.cell {
            self.late.insert(series);
        }
    }

    /// The next series of the pass. A new pass begins where none goes on.
    fn next(&mut self, exemplars_end: ExemplarNumber) -> Option<SeriesRef> {
        let pass = self.pass.get_or_insert_with(|| {
            self.exemplars_end = exemplars_end;
            let mut touched: Vec<_> = self.touched.drain().collect();
            // In an order that doesn't change from run to run; and near each other in memory.
            touched.sort_unstable();
            touched.into_iter()
        });
        pass.next()
    }

    /// All of the pass is copied: the next one begins with what came since.
    fn end_pass(&mut self) {
        self.pass = None;
    }
}

/// What became of the next series of a pass.
enum Next {
    Copied,
    AsBefore,
    Exemplars,
    End,
}

/// The next piece of a pass.
pub(crate) async fn copy<H: Host>(
    shard: Rc<RefCell<Shard>>,
    host: H,
    cell: CellId,
    epoch: Epoch,
) -> Handled<MigrationReply> {
    let (mut group, mut series, mut is_last) = (Group::default(), 0, false);
    while group.bytes() < PIECE_BYTES && !is_last {
        let next = shard.borrow_mut().copy_next(cell, epoch, &mut group)?;
        match next {
            Next::Copied => series += 1,
            Next::AsBefore | Next::Exemplars => {}
            Next::End => is_last = true,
        }
        host.yield_if_needed().await;
    }
    let is_waited_for = shard.borrow().ownership.is_drained(cell);
    Ok(MigrationReply::Copied(MigrationPiece {
        payload: group.parts().concat(),
        series,
        is_last,
        is_waited_for,
    }))
}

impl Shard {
    pub(super) fn outgoing_of(&mut self, cell: CellId, epoch: Epoch) -> Handled<&mut OutgoingMigration> {
        let outgoing = self.outgoing.as_mut();
        let outgoing = outgoing.filter(|outgoing| (outgoing.cell, outgoing.epoch) == (cell, epoch));
        outgoing.ok_or(MigrationRejected::OutOfStep)
    }

    fn copy_next(&mut self, cell: CellId, epoch: Epoch, group: &mut Group) -> Handled<Next> {
        let exemplars_end = self.exemplars.end();
        let Some(at) = self.outgoing_of(cell, epoch)?.next(exemplars_end) else {
            return self.copy_exemplars(cell, epoch, group);
        };
        self.store.fold_late(at);
        let newest_ms = self.store.newest(at).timestamp_ms;
        let histograms = self.store.all_histograms(at);
        let outgoing = self.outgoing_of(cell, epoch)?;
        let has_late = outgoing.late.remove(&at);
        match outgoing.copied.insert(at, newest_ms) {
            Some(_) if has_late => {
                let (sealed, open) = (self.store.sealed(at), self.store.open_bytes(at));
                group.replaced(at, sealed, &open);
            }
            Some(before_ms) if before_ms == newest_ms && histograms.is_none() => return Ok(Next::AsBefore),
            Some(before_ms) if before_ms == newest_ms => {}
            Some(before_ms) => self.copy_newer(at, before_ms, group),
            None => self.copy_whole(at, group),
        }
        if let Some(histograms) = histograms {
            // Whole each time: they are few, and may have been widened.
            group.replaced_histograms(at, &histograms.sealed, histograms.open());
        }
        Ok(Next::Copied)
    }

    /// Some of the pass' exemplars, after all of its series.
    fn copy_exemplars(&mut self, cell: CellId, epoch: Epoch, group: &mut Group) -> Handled<Next> {
        let outgoing = self.outgoing_of(cell, epoch)?;
        let range = (outgoing.exemplars_from, outgoing.exemplars_end);
        let copy = |series, exemplar: &Exemplar<'_>| {
            if self.is_in(series, cell) {
                group.exemplar(series, exemplar);
            }
        };
        let next = self.visit_exemplars(range, copy);
        let outgoing = self.outgoing_of(cell, epoch)?;
        match next {
            Some(next) => {
                outgoing.exemplars_from = next;
                Ok(Next::Exemplars)
            }
            None => {
                outgoing.exemplars_from = range.1;
                outgoing.end_pass();
                Ok(Next::End)
            }
        }
    }

    fn copy_whole(&self, at: SeriesRef, group: &mut Group) {
        let text = self.store.labels(at).iter().map(|label| self.index.text(*label));
        let labels: Vec<_> = text.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let (id, sealed) = (self.store.id(at), self.store.sealed(at));
        let open = self.store.open_bytes(at);
        group.adopted(at, &AdoptedSeries { id, labels: &labels, sealed, open: &open });
    }

    fn copy_newer(&self, at: SeriesRef, than_ms: i64, group: &mut Group) {
        let sealed = self.store.sealed_between(at, than_ms + 1, i64::MAX).iter();
        let open = self.store.open_chunk(at);
        for chunk in sealed.chain(std::iter::once(&open)) {
            let samples = XorIter::new(chunk.bytes()).map(|s| s.expect("the node's own chunks decode"));
            samples.filter(|s| s.timestamp_ms > than_ms).for_each(|sample| group.stored(at, sample));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_of(outgoing: &mut OutgoingMigration) -> Vec<u32> {
        let end = ExemplarNumber::default();
        let mut rest: Vec<u32> = std::iter::from_fn(|| outgoing.next(end)).map(|series| series.0).collect();
        outgoing.end_pass();
        rest.sort_unstable();
        rest
    }

    #[test]
    fn the_first_pass_has_all_series_and_a_later_one_those_that_were_appended_to() {
        let (cell, other) = (CellId(5), CellId(6));
        let mut outgoing = OutgoingMigration::new(
            cell,
            Epoch(2),
            (0..100).map(SeriesRef).collect(),
            ExemplarNumber::default(),
        );
        assert_eq!(outgoing.next(ExemplarNumber::default()), Some(SeriesRef(0)));
        // Of a series that the pass is past, one that it isn't, a new one, and one of another cell.
        for series in [0, 7, 7, 100] {
            outgoing.touch(cell, SeriesRef(series));
        }
        outgoing.touch(other, SeriesRef(200));
        assert_eq!(rest_of(&mut outgoing), (1..100).collect::<Vec<_>>());
        assert_eq!(rest_of(&mut outgoing), [0, 7, 100]);
        assert!(rest_of(&mut outgoing).is_empty());
    }
}
