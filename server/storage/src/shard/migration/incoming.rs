//! A cell that comes to the shard: its series out of pieces, hidden from reads and in the shard's log
//! until it owns the cell; and what is done away with of a cell that is another shard's.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use super::Handled;
use crate::cell::SeriesRef;
use crate::cell::histograms::HistogramChunks;
use crate::cell::series::LabelRef;
use crate::message::{MigrationPiece, MigrationRejected, MigrationReply};
use crate::shard::exemplars::ring::Put;
use crate::shard::restore::sealed_chunks;
use crate::shard::{Host, Shard};
use crate::wal::record::{
    HistogramEntry, LoggedHistogramChunks, LoggedSample, NewSeries, Record, SeriesChunks, SeriesExemplar,
    records,
};
use crate::wal::{AdoptedSeries, Journal, Log};
use silverback_model::{CellId, Epoch, Sample, SeriesId};

/// Samples that are accepted between two looks at the slice.
const STEP_SAMPLES: usize = 64;

/// A cell on its way from another shard.
#[derive(Debug)]
pub(crate) struct IncomingMigration {
    /// Which.
    pub cell: CellId,
    /// Of its migration.
    pub epoch: Epoch,
    /// The shard's refs by those of the source.
    refs: HashMap<SeriesRef, SeriesRef>,
}

impl IncomingMigration {
    /// Of a cell of which nothing is there yet.
    pub(crate) fn new(cell: CellId, epoch: Epoch) -> Self {
        Self { cell, epoch, refs: HashMap::new() }
    }

    /// Series that are there.
    pub(crate) fn series(&self) -> u64 {
        self.refs.len() as u64
    }
}

/// Takes a piece in, in memory and in the log. It waits for the disk, so that no more than a piece is
/// ahead of it; but not after the last one of a pass, because the next pass has what comes until then.
pub(crate) async fn take<L: Log, H: Host>(
    shard: Rc<RefCell<Shard>>,
    log: L,
    host: H,
    (cell, epoch): (CellId, Epoch),
    piece: MigrationPiece,
) -> Handled<MigrationReply> {
    log.check()?;
    let mut series = None;
    for record in records(&piece.payload) {
        match record.map_err(unreadable)? {
            Record::Series(record) => series = Some(record.iter()),
            Record::Chunks(record) => {
                let series = series.take().ok_or_else(|| unreadable("chunks without series"))?;
                for (series, chunks) in series.zip(&record) {
                    let (series, chunks) = (series.map_err(unreadable)?, chunks.map_err(unreadable)?);
                    shard.borrow_mut().adopt_series((cell, epoch), &series, &chunks, &mut *log.journal())?;
                    host.yield_if_needed().await;
                }
            }
            Record::Samples(record) => {
                for (i, entry) in record.iter().enumerate() {
                    let LoggedSample { series, sample, .. } = entry.map_err(unreadable)?;
                    shard.borrow_mut().adopt_sample((cell, epoch), series, sample, &mut *log.journal())?;
                    if i % STEP_SAMPLES == 0 {
                        host.yield_if_needed().await;
                    }
                }
            }
            Record::Replaced(record) => {
                for entry in &record {
                    let chunks = entry.map_err(unreadable)?.chunks;
                    shard.borrow_mut().adopt_again((cell, epoch), &chunks, &mut *log.journal())?;
                    host.yield_if_needed().await;
                }
            }
            Record::Histograms(record) => {
                for entry in &record {
                    let HistogramEntry::Chunks(chunks) = entry.map_err(unreadable)? else {
                        return Err(unreadable("a histogram that isn't in a chunk"));
                    };
                    shard.borrow_mut().adopt_histograms((cell, epoch), &chunks, &mut *log.journal())?;
                    host.yield_if_needed().await;
                }
            }
            Record::Exemplars(record) => {
                for (i, entry) in record.iter().enumerate() {
                    let one = entry.map_err(unreadable)?;
                    shard.borrow_mut().adopt_exemplar((cell, epoch), &one, &mut *log.journal())?;
                    if i % STEP_SAMPLES == 0 {
                        host.yield_if_needed().await;
                    }
                }
            }
            Record::StartTimestamps(_)
            | Record::Removed(_)
            | Record::Metadata(_)
            | Record::Claims(_)
            | Record::CheckpointEnd { .. } => {
                return Err(unreadable("a record that no piece has"));
            }
        }
    }
    host.release_slice();
    if !piece.is_last && !piece.is_waited_for {
        log.commit().await?;
    }
    Ok(MigrationReply::Done)
}

fn unreadable(error: impl ToString) -> MigrationRejected {
    MigrationRejected::Unreadable(error.to_string().into())
}

impl Shard {
    pub(super) fn incoming_of(&mut self, cell: CellId, epoch: Epoch) -> Handled<&mut IncomingMigration> {
        let incoming = self.incoming.as_mut();
        let incoming = incoming.filter(|incoming| (incoming.cell, incoming.epoch) == (cell, epoch));
        incoming.ok_or(MigrationRejected::OutOfStep)
    }

    fn adopt_series(
        &mut self,
        (cell, epoch): (CellId, Epoch),
        series: &NewSeries<'_>,
        chunks: &SeriesChunks<'_>,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        self.incoming_of(cell, epoch)?;
        if series.series != chunks.series || series.id.cell() != cell || self.find(series.id).is_some() {
            return Err(unreadable("a series that doesn't belong in it"));
        }
        // Of memory alone: the node has no series more than before.
        if !self.has_room_for_series() {
            return Err(MigrationRejected::Full);
        }
        let labels = self.intern_record(series)?;
        let at = self.put_back(series, labels, chunks)?;
        self.adopt(at);
        let text: Vec<_> = series.labels.clone().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let sealed = self.store.sealed(at);
        journal.adopted(at, &AdoptedSeries { id: series.id, labels: &text, sealed, open: chunks.open });
        self.widen_by(at);
        self.incoming_of(cell, epoch)?.refs.insert(series.series, at);
        Ok(())
    }

    /// Takes all that a series has, which is there already without its late samples.
    fn adopt_again(
        &mut self,
        (cell, epoch): (CellId, Epoch),
        chunks: &SeriesChunks<'_>,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let at = self.incoming_of(cell, epoch)?.refs.get(&chunks.series).copied();
        let at = at.ok_or_else(|| unreadable("chunks of a series that isn't there"))?;
        self.store.replace(at, sealed_chunks(chunks), chunks.open).map_err(unreadable)?;
        journal.replaced(at, self.store.sealed(at), chunks.open);
        self.widen_by(at);
        self.singles.forget(at);
        Ok(())
    }

    /// Takes all histograms of a series that is there.
    fn adopt_histograms(
        &mut self,
        (cell, epoch): (CellId, Epoch),
        chunks: &LoggedHistogramChunks<'_>,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let at = self.incoming_of(cell, epoch)?.refs.get(&chunks.series).copied();
        let at = at.ok_or_else(|| unreadable("histograms of a series that isn't there"))?;
        let chunks = HistogramChunks::of_log(chunks);
        journal.replaced_histograms(at, &chunks.sealed, chunks.open());
        self.store.replace_histograms(at, chunks).map_err(unreadable)?;
        self.widen_by(at);
        self.singles.forget(at);
        Ok(())
    }

    fn intern_record(&mut self, series: &NewSeries<'_>) -> Handled<Box<[LabelRef]>> {
        let mut labels = Vec::with_capacity(16);
        for (name, value) in series.labels.clone() {
            let Some(label) = self.index.intern(name.as_bytes(), value.as_bytes()) else {
                self.index.forget_unused(&labels);
                return Err(MigrationRejected::Full);
            };
            labels.push(label);
        }
        Ok(labels.into())
    }

    /// Puts a series into the store with its chunks, or leaves nothing of it.
    fn put_back(
        &mut self,
        series: &NewSeries<'_>,
        labels: Box<[LabelRef]>,
        chunks: &SeriesChunks<'_>,
    ) -> Handled<SeriesRef> {
        let sealed = sealed_chunks(chunks);
        let Some(at) = self.store.reserve() else {
            self.index.forget_unused(&labels);
            return Err(MigrationRejected::Full);
        };
        match self.store.restore(at, series.id, labels.clone(), sealed, chunks.open) {
            Ok(()) => Ok(at),
            Err(error) => {
                self.store.free(at);
                self.index.forget_unused(&labels);
                Err(unreadable(error))
            }
        }
    }

    fn adopt_sample(
        &mut self,
        (cell, epoch): (CellId, Epoch),
        series: SeriesRef,
        sample: Sample,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let at = self.incoming_of(cell, epoch)?.refs.get(&series).copied();
        let at = at.ok_or_else(|| unreadable("samples of a series that isn't there"))?;
        if self.store.append(at, sample, 0).is_err() {
            return Err(unreadable("a sample that is older than what is there"));
        }
        journal.stored(at, sample);
        self.widen_range(sample.timestamp_ms, sample.timestamp_ms);
        Ok(())
    }
}

impl Shard {
    fn adopt_exemplar(
        &mut self,
        (cell, epoch): (CellId, Epoch),
        one: &SeriesExemplar<'_>,
        journal: &mut impl Journal,
    ) -> Handled<()> {
        let at = self.incoming_of(cell, epoch)?.refs.get(&one.series).copied();
        let at = at.ok_or_else(|| unreadable("exemplars of a series that isn't there"))?;
        let mut scratch = Vec::new();
        let exemplar = one.exemplar(&mut scratch);
        if self.exemplars.put_back(at, &exemplar) == Put::Stored {
            journal.exemplar(at, &exemplar);
        }
        Ok(())
    }
}

/// Series of a cell that is another shard's, to be removed.
pub(crate) type OrphanedSeries = Vec<(SeriesRef, SeriesId)>;

impl Shard {
    /// The series of a cell that is hidden from now on: those that may come with it later are not
    /// among them.
    pub(super) fn orphans(&mut self, cell: CellId) -> OrphanedSeries {
        let cell = &mut self.cells[usize::from(cell.0)];
        cell.samples = 0;
        cell.table.iter().map(|series| (series, self.store.id(series))).collect()
    }
}

/// Removes series in slices.
pub(crate) async fn free<L: Log, H: Host>(
    shard: &Rc<RefCell<Shard>>,
    log: &L,
    host: &H,
    orphans: OrphanedSeries,
) {
    for (series, id) in orphans {
        // Retention may have come by.
        if shard.borrow().store.id(series) == id {
            shard.borrow_mut().remove_series(series, &mut *log.journal());
        }
        host.yield_if_needed().await;
    }
    shard.borrow_mut().deal_series_limit();
    host.release_slice();
}
