//! A cell that leaves the shard: its series as pieces, pass after pass while it is served, and once
//! more when it takes no writes any more.
//!
//! Samples of a series come in the order of time, so what came since the last pass is what is newer
//! than the newest sample that was in it.

use std::cell::RefCell;
use std::rc::Rc;
use std::vec;

use hashbrown::HashMap;

use crate::cell::SeriesRef;
use crate::gorilla::XorIter;
use crate::message::{HandoffRefusal, HandoffReply, Piece};
use crate::model::{CellId, Epoch};
use crate::shard::{Host, Shard};
use crate::wal::record::Group;
use crate::wal::{AdoptedSeries, Journal};

/// A piece goes on its way once it has so many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// A cell on its way to another shard.
#[derive(Debug)]
pub struct Departure {
    /// Which.
    pub cell: CellId,
    /// Of its handoff.
    pub epoch: Epoch,
    /// The newest timestamp of each series that was copied, in ms.
    copied: HashMap<SeriesRef, i64>,
    /// The series that the pass has still to look at.
    pass: Option<vec::IntoIter<SeriesRef>>,
}

impl Departure {
    /// Of a cell of which nothing is copied yet.
    pub fn new(cell: CellId, epoch: Epoch) -> Self {
        Self { cell, epoch, copied: HashMap::new(), pass: None }
    }
}

/// What became of the next series of a pass.
enum Next {
    Copied,
    AsBefore,
    End,
}

/// The next piece of a pass; an empty one ends it.
pub async fn copy<H: Host>(
    shard: Rc<RefCell<Shard>>,
    host: H,
    cell: CellId,
    epoch: Epoch,
) -> Result<HandoffReply, HandoffRefusal> {
    let (mut group, mut series) = (Group::default(), 0);
    shard.borrow_mut().begin_pass(cell, epoch)?;
    while group.bytes() < PIECE_BYTES {
        let next = shard.borrow_mut().copy_next(cell, epoch, &mut group)?;
        match next {
            Next::Copied => series += 1,
            Next::AsBefore => {}
            Next::End => break,
        }
        host.breathe().await;
    }
    if series == 0 {
        shard.borrow_mut().departure_of(cell, epoch)?.pass = None;
    }
    Ok(HandoffReply::Copied(Piece { payload: group.parts().concat(), series }))
}

impl Shard {
    fn departure_of(&mut self, cell: CellId, epoch: Epoch) -> Result<&mut Departure, HandoffRefusal> {
        let departure = self.departure.as_mut();
        let departure = departure.filter(|departure| (departure.cell, departure.epoch) == (cell, epoch));
        departure.ok_or(HandoffRefusal::OutOfStep)
    }

    /// Begins a pass, unless one goes on.
    fn begin_pass(&mut self, cell: CellId, epoch: Epoch) -> Result<(), HandoffRefusal> {
        self.departure_of(cell, epoch)?;
        let series: Vec<SeriesRef> = self.cells[usize::from(cell.0)].table.iter().collect();
        self.departure_of(cell, epoch)?.pass.get_or_insert_with(|| series.into_iter());
        Ok(())
    }

    fn copy_next(&mut self, cell: CellId, epoch: Epoch, group: &mut Group) -> Result<Next, HandoffRefusal> {
        let pass = self.departure_of(cell, epoch)?.pass.as_mut();
        let Some(at) = pass.and_then(Iterator::next) else { return Ok(Next::End) };
        let newest_ms = self.store.newest_ms(at);
        match self.departure_of(cell, epoch)?.copied.insert(at, newest_ms) {
            Some(before_ms) if before_ms == newest_ms => return Ok(Next::AsBefore),
            Some(before_ms) => self.copy_newer(at, before_ms, group),
            None => self.copy_whole(at, group),
        }
        Ok(Next::Copied)
    }

    fn copy_whole(&self, at: SeriesRef, group: &mut Group) {
        let text = self.store.labels(at).iter().map(|label| self.index.text(*label));
        let labels: Vec<_> = text.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let (id, sealed) = (self.store.id(at), self.store.sealed(at));
        let open = self.store.open_chunk(at);
        group.adopted(at, &AdoptedSeries { id, labels: &labels, sealed, open: open.bytes() });
    }

    fn copy_newer(&self, at: SeriesRef, than_ms: i64, group: &mut Group) {
        for chunk in self.store.chunks(at, than_ms + 1, i64::MAX) {
            let samples = XorIter::new(chunk.bytes()).map(|s| s.expect("the node's own chunks decode"));
            samples.filter(|s| s.timestamp_ms > than_ms).for_each(|sample| group.stored(at, sample));
        }
    }
}
