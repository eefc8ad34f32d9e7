//! A cell that comes to the shard: its series out of pieces, hidden from reads and in the shard's log
//! until it owns the cell; and what is done away with of a cell that is another shard's.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::gorilla::SealedChunk;
use crate::message::{HandoffRefusal, HandoffReply, Piece};
use crate::model::{CellId, Epoch, Sample};
use crate::shard::{Host, Shard};
use crate::wal::record::{NewSeries, Record, SeriesChunks, records};
use crate::wal::{AdoptedSeries, Journal, Log};

/// Samples that are taken in between two looks at the slice.
const STEP_SAMPLES: usize = 64;

/// A cell on its way from another shard.
#[derive(Debug)]
pub struct Arrival {
    /// Which.
    pub cell: CellId,
    /// Of its handoff.
    pub epoch: Epoch,
    /// The shard's refs by those of the source.
    refs: HashMap<SeriesRef, SeriesRef>,
}

impl Arrival {
    /// Of a cell of which nothing is there yet.
    pub fn new(cell: CellId, epoch: Epoch) -> Self {
        Self { cell, epoch, refs: HashMap::new() }
    }

    /// Series that are there.
    pub fn series(&self) -> u64 {
        self.refs.len() as u64
    }
}

/// Takes a piece in, in memory and in the log.
pub async fn take<L: Log, H: Host>(
    shard: Rc<RefCell<Shard>>,
    log: L,
    host: H,
    epoch: Epoch,
    piece: Piece,
) -> Result<HandoffReply, HandoffRefusal> {
    log.check()?;
    let mut series = None;
    for record in records(&piece.payload) {
        match record.map_err(unreadable)? {
            Record::Series(record) => series = Some(record.iter()),
            Record::Chunks(record) => {
                let series = series.take().ok_or_else(|| unreadable("chunks without series"))?;
                for (series, chunks) in series.zip(&record) {
                    let (series, chunks) = (series.map_err(unreadable)?, chunks.map_err(unreadable)?);
                    shard.borrow_mut().adopt_series(epoch, &series, &chunks, &mut *log.journal())?;
                    host.breathe().await;
                }
            }
            Record::Samples(record) => {
                for (i, entry) in record.iter().enumerate() {
                    let (series, sample) = entry.map_err(unreadable)?;
                    shard.borrow_mut().adopt_sample(epoch, series, sample, &mut *log.journal())?;
                    if i % STEP_SAMPLES == 0 {
                        host.breathe().await;
                    }
                }
            }
            Record::Removed(_) | Record::Claims(_) | Record::CheckpointEnd { .. } => {
                return Err(unreadable("a record that no piece has"));
            }
        }
    }
    host.rest();
    log.commit().await?;
    Ok(HandoffReply::Done)
}

fn unreadable(error: impl ToString) -> HandoffRefusal {
    HandoffRefusal::Unreadable(error.to_string().into())
}

impl Shard {
    pub(super) fn arrival_of(&mut self, epoch: Epoch) -> Result<&mut Arrival, HandoffRefusal> {
        let arrival = self.arrival.as_mut().filter(|arrival| arrival.epoch == epoch);
        arrival.ok_or(HandoffRefusal::OutOfStep)
    }

    fn adopt_series(
        &mut self,
        epoch: Epoch,
        series: &NewSeries<'_>,
        chunks: &SeriesChunks<'_>,
        journal: &mut impl Journal,
    ) -> Result<(), HandoffRefusal> {
        let cell = self.arrival_of(epoch)?.cell;
        if series.series != chunks.series || series.id.cell() != cell || self.find(series.id).is_some() {
            return Err(unreadable("a series that doesn't belong in it"));
        }
        if self.store.size().series >= self.series_max || !self.has_room_for_series() {
            return Err(HandoffRefusal::Full);
        }
        let labels = series.labels.clone().map(|(name, value)| self.index.intern(name, value));
        let labels: Option<Box<[LabelRef]>> = labels.collect();
        let labels = labels.ok_or(HandoffRefusal::Full)?;
        let at = self.store.reserve().ok_or(HandoffRefusal::Full)?;
        let sealed = chunks.sealed.clone();
        let sealed: Vec<_> =
            sealed.map(|c| SealedChunk::restored(c.min_ms, c.max_ms, c.bytes.into())).collect();
        let text: Vec<_> = series.labels.clone().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let adopted = AdoptedSeries { id: series.id, labels: &text, sealed: &sealed, open: chunks.open };
        journal.adopted(at, &adopted);
        let oldest_ms = sealed.first().map(SealedChunk::min_timestamp_ms);
        self.store.restore(at, series.id, labels, sealed, chunks.open).map_err(unreadable)?;
        self.adopt(at);
        let newest_ms = self.store.newest_ms(at);
        self.widen_range(oldest_ms.unwrap_or(newest_ms), newest_ms);
        self.arrival_of(epoch)?.refs.insert(series.series, at);
        Ok(())
    }

    fn adopt_sample(
        &mut self,
        epoch: Epoch,
        series: SeriesRef,
        sample: Sample,
        journal: &mut impl Journal,
    ) -> Result<(), HandoffRefusal> {
        let at = self.arrival_of(epoch)?.refs.get(&series).copied();
        let at = at.ok_or_else(|| unreadable("samples of a series that isn't there"))?;
        if self.store.append(at, sample).is_err() {
            return Err(unreadable("a sample that is older than what is there"));
        }
        journal.stored(at, sample);
        self.widen_range(sample.timestamp_ms, sample.timestamp_ms);
        Ok(())
    }
}

/// Removes all series of a cell that is another shard's, in slices.
pub async fn free<L: Log, H: Host>(shard: &Rc<RefCell<Shard>>, log: &L, host: &H, cell: CellId) {
    let held: Vec<SeriesRef> = shard.borrow().cells[usize::from(cell.0)].table.iter().collect();
    for at in held {
        {
            let mut shard = shard.borrow_mut();
            // Retention may have come by.
            if shard.store.holds(at) && shard.store.id(at).cell() == cell {
                shard.remove_series(at, &mut *log.journal());
            }
        }
        host.breathe().await;
    }
    shard.borrow_mut().cells[usize::from(cell.0)].samples = 0;
    host.rest();
}
