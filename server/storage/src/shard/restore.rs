//! A shard out of its log: records become series again, at the refs that the log names them by.
//!
//! A log of another number of shards names its series by refs that collide; then each shard takes
//! the series of its own cells and numbers them again.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;
use roaring::RoaringBitmap;

use crate::cell::histograms::HistogramChunks;
use crate::cell::series::LabelRef;
use crate::cell::{AppendError, Appended};
use crate::shard::Shard;
use crate::wal::Claims;
use crate::wal::record::{
    ChunksRecord, ExemplarsRecord, HistogramEntry, HistogramsRecord, LoggedSample, MetadataRecord, Record,
    RemovedRecord, Replaced, ReplacedRecord, SamplesRecord, SealedBytes, SeriesChunks, SeriesRecord,
};
use crate::wal::replay::{Restore, RestoreError};
use silverback_model::gorilla::SealedChunk;
use silverback_model::histogram::Histogram;
use silverback_model::{CellId, Sample, SeriesId, SeriesRef};

/// A gap in the refs that no shard leaves: a record that names such a ref is no shard's.
const REF_GAP_MAX: u32 = 1 << 26;

/// How a log's refs become the shard's.
#[derive(Debug)]
pub enum Refs {
    /// The log is the shard's own: they stay what they are.
    Kept,
    /// The shard of each log ref so far; two values stand for "no series" and "of another shard".
    Renumbered(Vec<u32>),
}

/// No series was made with this ref.
const NOBODY: u32 = u32::MAX;
/// The series belongs to another shard.
const FOREIGN: u32 = u32::MAX - 1;

/// Rebuilds a shard.
pub struct Restorer<F> {
    shard: Rc<RefCell<Shard>>,
    refs: Refs,
    owns: F,
    /// Of how many shards' names it takes its own; `None`: all names are.
    shards: Option<usize>,
    /// Series that were made and have no sample yet, by their ref in the log.
    pending: HashMap<u32, Pending>,
    /// Refs in the log that samples name and that no series has.
    unknown: RoaringBitmap,
    /// Refs in the log whose series were removed.
    removed: RoaringBitmap,
    /// Refs in the log of which samples were deleted in this group, and how many samples it had by then.
    replaced: HashMap<u32, u64>,
    counts: RestoreCounts,
    claims: Claims,
}

/// What was put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreCounts {
    /// Series that were made, removed ones and those of other shards among them.
    pub series: u64,
    /// Samples of groups that were stored.
    pub samples: u64,
    /// Samples that the checkpoint held already.
    pub already: u64,
}

#[derive(Debug)]
struct Pending {
    id: SeriesId,
    labels: Box<[LabelRef]>,
}

impl<F: Fn(CellId) -> bool> Restorer<F> {
    /// Puts back into `shard` what lies in the cells that it `owns`.
    pub fn new(shard: Rc<RefCell<Shard>>, refs: Refs, owns: F) -> Self {
        Self {
            shard,
            refs,
            owns,
            shards: None,
            pending: HashMap::new(),
            unknown: RoaringBitmap::new(),
            removed: RoaringBitmap::new(),
            replaced: HashMap::new(),
            counts: RestoreCounts::default(),
            claims: Claims::default(),
        }
    }

    /// Takes of the metadata what belongs to the shard, of so many.
    pub fn among(self, shards: usize) -> Self {
        Self { shards: Some(shards), ..self }
    }

    /// The cells that the log says are its shard's.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    fn series(&mut self, record: SeriesRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        // Before a label is interned: pairs that a forgotten series alone had go with it, and would be
        // missing in those that were interned and have no series yet.
        for series in record.iter() {
            let series = series.map_err(contradicts)?;
            // What another log has left of a cell says nothing of the series that its owner has.
            if (self.owns)(series.id.cell()) {
                self.forget_former(shard, series.series, series.id);
            }
        }
        for series in record.iter() {
            let series = series.map_err(contradicts)?;
            self.counts.series += 1;
            if !(self.owns)(series.id.cell()) {
                self.refs.set(series.series, FOREIGN)?;
                continue;
            }
            if shard.find(series.id).is_some() {
                continue;
            }
            if self.refs.get(series.series, shard).is_some() {
                return Err(RestoreError(format!("ref {} names two series", series.series.0)));
            }
            let labels =
                series.labels.map(|(name, value)| shard.index.intern(name.as_bytes(), value.as_bytes()));
            let labels: Option<Box<[LabelRef]>> = labels.collect();
            let labels = labels.ok_or_else(|| RestoreError("more labels than a shard can name".into()))?;
            let pending = Pending { id: series.id, labels };
            if let Some(former) = self.pending.insert(series.series.0, pending) {
                shard.index.forget_unused(&former.labels);
            }
        }
        Ok(())
    }

    /// A series that is made again was removed before: the removal's record comes after.
    fn forget_former(&mut self, shard: &mut Shard, series: SeriesRef, id: SeriesId) {
        if let Some(held) = shard.find(id)
            && self.refs.get(series, shard) != Some(held)
        {
            shard.forget_series(held);
            self.removed.insert(held.0);
        }
    }

    fn samples(&mut self, record: SamplesRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        let replaced = std::mem::take(&mut self.replaced);
        for (place, entry) in (0..).zip(record.iter()) {
            let LoggedSample { series, sample, is_late } = entry.map_err(contradicts)?;
            if !replaced.is_empty() && replaced.get(&series.0).is_some_and(|before| place < *before) {
                continue;
            }
            match self.refs.get(series, shard) {
                Some(at) if is_late => self.late_sample(shard, at, sample),
                Some(at) if sample.timestamp_ms <= shard.store.newest(at).timestamp_ms => {
                    self.counts.already += 1;
                }
                Some(at) => {
                    shard.restore_sample(at, sample);
                    self.counts.samples += 1;
                }
                None => self.first_sample(shard, series, sample)?,
            }
        }
        Ok(())
    }

    /// A late sample, which the checkpoint may have or not. Where it has another value at this time, that one was
    /// stored after a deletion.
    #[cold]
    fn late_sample(&mut self, shard: &mut Shard, at: SeriesRef, sample: Sample) {
        let appended = shard.store.append(at, sample, i64::MAX);
        self.count_appended(shard, sample.timestamp_ms, appended);
    }

    fn count_appended(&mut self, shard: &mut Shard, at_ms: i64, appended: Result<Appended, AppendError>) {
        match appended {
            Ok(Appended::Stored | Appended::StoredLate) => {
                shard.widen_range(at_ms, at_ms);
                self.counts.samples += 1;
            }
            Ok(Appended::Already) | Err(AppendError::OutOfOrder | AppendError::Duplicate) => {
                self.counts.already += 1
            }
        }
    }

    /// A sample of a series that has none yet, or that nobody made.
    #[cold]
    fn first_sample(
        &mut self,
        shard: &mut Shard,
        series: SeriesRef,
        sample: Sample,
    ) -> Result<(), RestoreError> {
        if self.refs.is_foreign(series) {
            return Ok(());
        }
        let Some(pending) = self.pending.remove(&series.0) else {
            self.unknown.insert(series.0);
            return Ok(());
        };
        let at = self.refs.place(series, shard)?;
        shard.store.create_at(at, pending.id, pending.labels, sample);
        shard.adopt(at);
        shard.widen_range(sample.timestamp_ms, sample.timestamp_ms);
        self.counts.samples += 1;
        Ok(())
    }

    fn chunks(&mut self, record: ChunksRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        for entry in record.iter() {
            let chunks = entry.map_err(contradicts)?;
            if self.refs.is_foreign(chunks.series) {
                continue;
            }
            let Some(pending) = self.pending.remove(&chunks.series.0) else {
                // The checkpoint has it as it was later.
                if self.refs.get(chunks.series, shard).is_some() {
                    continue;
                }
                return Err(RestoreError(format!("chunks of ref {}, which no series has", chunks.series.0)));
            };
            self.put_back(shard, pending, &chunks)?;
        }
        Ok(())
    }

    fn put_back(
        &mut self,
        shard: &mut Shard,
        pending: Pending,
        chunks: &SeriesChunks<'_>,
    ) -> Result<(), RestoreError> {
        let at = self.refs.place(chunks.series, shard)?;
        let sealed = sealed_chunks(chunks);
        let restored = shard.store.restore(at, pending.id, pending.labels, sealed, chunks.open);
        restored.map_err(|error| of_open_chunk(at, error))?;
        shard.adopt(at);
        shard.widen_by(at);
        Ok(())
    }

    /// Whatever the series has, from a checkpoint that saw it before or after: from here on it has this.
    fn replaced(&mut self, record: ReplacedRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        for entry in record.iter() {
            let Replaced { samples_before, chunks } = entry.map_err(contradicts)?;
            let series = chunks.series;
            if self.refs.is_foreign(series) {
                continue;
            }
            // Without samples before it, the group may have none, and the next one's are all after it.
            if samples_before > 0 {
                self.replaced.insert(series.0, samples_before);
            }
            if let Some(at) = self.refs.get(series, shard) {
                let replaced = shard.store.replace(at, sealed_chunks(&chunks), chunks.open);
                replaced.map_err(|error| of_open_chunk(at, error))?;
            } else if let Some(pending) = self.pending.remove(&series.0) {
                self.put_back(shard, pending, &chunks)?;
            } else {
                self.unknown.insert(series.0);
            }
        }
        Ok(())
    }

    fn histograms(&mut self, record: HistogramsRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        let mut histogram = Histogram::default();
        for entry in record.iter() {
            match entry.map_err(contradicts)? {
                HistogramEntry::Stored { series, timestamp_ms, message, is_late } => {
                    let Some(at) = self.series_of(shard, series)? else { continue };
                    let newest_ms = shard.store.histogram_times(at).map(|(_, newest_ms)| newest_ms);
                    if !is_late && newest_ms.is_some_and(|newest_ms| timestamp_ms <= newest_ms) {
                        self.counts.already += 1;
                        continue;
                    }
                    histogram.read_message(message).map_err(contradicts)?;
                    // A late one may be in the checkpoint or not. Where that has another of its time, it was stored
                    // after a deletion.
                    let appended = shard.store.append_histogram(at, timestamp_ms, &histogram, i64::MAX);
                    self.count_appended(shard, timestamp_ms, appended);
                }
                HistogramEntry::Chunks(chunks) => {
                    let Some(at) = self.series_of(shard, chunks.series)? else { continue };
                    let replaced = shard.store.replace_histograms(at, HistogramChunks::of_log(&chunks));
                    replaced.map_err(|error| of_open_chunk(at, error))?;
                    shard.widen_by(at);
                }
            }
        }
        Ok(())
    }

    /// Those that are kept already came with the checkpoint.
    fn exemplars(&mut self, record: ExemplarsRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        let mut scratch = Vec::new();
        for entry in record.iter() {
            let one = entry.map_err(contradicts)?;
            match self.refs.get(one.series, shard) {
                Some(at) => drop(shard.exemplars.put_back(at, &one.exemplar(&mut scratch))),
                None if self.refs.is_foreign(one.series) => {}
                None => drop(self.unknown.insert(one.series.0)),
            }
        }
        Ok(())
    }

    /// The series that a histogram is of; made, where it has no sample yet. `None`: it is another shard's, or nobody
    /// made it.
    fn series_of(&mut self, shard: &mut Shard, series: SeriesRef) -> Result<Option<SeriesRef>, RestoreError> {
        if let Some(at) = self.refs.get(series, shard) {
            return Ok(Some(at));
        }
        if self.refs.is_foreign(series) {
            return Ok(None);
        }
        let Some(pending) = self.pending.remove(&series.0) else {
            self.unknown.insert(series.0);
            return Ok(None);
        };
        let at = self.refs.place(series, shard)?;
        shard.store.put_empty(at, pending.id, pending.labels);
        shard.adopt(at);
        Ok(Some(at))
    }

    /// Of those names that are the shard's.
    fn metadata(&mut self, record: MetadataRecord<'_>) -> Result<(), RestoreError> {
        let shard = &mut *self.shard.borrow_mut();
        for entry in record.iter() {
            let (said, seen_ms) = entry.map_err(contradicts)?;
            // Where there is less room than there was, it is refused as it would be if it came now.
            if self.shards.is_none_or(|shards| said.home(shards) == shard.id)
                && let Err(reason) = shard.metadata.hear(&said, seen_ms)
            {
                shard.counters.metadata_refused.add(reason, 1);
            }
        }
        Ok(())
    }

    fn removed(&mut self, record: RemovedRecord<'_>) -> Result<(), RestoreError> {
        let shard = Rc::clone(&self.shard);
        let shard = &mut *shard.borrow_mut();
        for entry in record.iter() {
            let (series, id) = entry.map_err(contradicts)?;
            self.removed.insert(series.0);
            self.unknown.remove(series.0);
            if let Some(at) = self.refs.get(series, shard)
                && shard.store.id(at) == id
            {
                shard.forget_series(at);
                self.refs.set(series, NOBODY)?;
            }
        }
        Ok(())
    }
}

impl<F: Fn(CellId) -> bool> Restore for Restorer<F> {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        match record {
            Record::Series(record) => self.series(record),
            Record::Samples(record) => self.samples(record),
            // They are in the log alone: no chunk has them.
            Record::StartTimestamps(_) => Ok(()),
            Record::Histograms(record) => self.histograms(record),
            Record::Replaced(record) => self.replaced(record),
            Record::Removed(record) => self.removed(record),
            Record::Chunks(record) => self.chunks(record),
            Record::Exemplars(record) => self.exemplars(record),
            Record::Metadata(record) => self.metadata(record),
            Record::Claims(record) => self.claims.read(&record).map_err(contradicts),
            Record::CheckpointEnd { series, .. } if series == self.counts.series => Ok(()),
            Record::CheckpointEnd { series, .. } => {
                let found = self.counts.series;
                Err(RestoreError(format!("the checkpoint has {found} of its {series} series")))
            }
        }
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        let shard = &mut *self.shard.borrow_mut();
        for (_, pending) in self.pending.drain() {
            shard.index.forget_unused(&pending.labels);
        }
        match self.refs {
            Refs::Kept => {
                // The log may still name the old series by them.
                let removed = std::mem::take(&mut self.removed) | &self.unknown;
                // Those of series that came after all that are left, too.
                if let Some(last) = removed.max() {
                    check_gap(SeriesRef(last), shard)?;
                    shard.store.take_up_to(SeriesRef(last));
                }
                shard.removed = removed.iter().map(SeriesRef).filter(|at| !shard.store.holds(*at)).collect();
                shard.store.free_vacant(|at| removed.contains(at.0));
            }
            // Other logs may follow: see [`Shard::free_left_out`].
            Refs::Renumbered(_) => {}
        }
        match self.unknown.len() {
            0 => Ok(()),
            unknown => Err(RestoreError(format!("samples of {unknown} series that nobody made"))),
        }
    }
}

fn check_gap(at: SeriesRef, shard: &Shard) -> Result<(), RestoreError> {
    match at.0 < shard.store.end().saturating_add(REF_GAP_MAX) && at.0 < FOREIGN {
        true => Ok(()),
        false => Err(RestoreError(format!("ref {} is far beyond all others", at.0))),
    }
}

pub(super) fn sealed_chunks(chunks: &SeriesChunks<'_>) -> Vec<SealedChunk> {
    let restored = |c: SealedBytes<'_>| SealedChunk::restored(c.min_ms, c.max_ms, c.bytes.into());
    chunks.sealed.clone().map(restored).collect()
}

fn of_open_chunk(at: SeriesRef, error: impl std::fmt::Display) -> RestoreError {
    RestoreError(format!("the open chunk of ref {}: {error}", at.0))
}

fn contradicts(error: impl std::fmt::Display) -> RestoreError {
    RestoreError(error.to_string())
}

impl Refs {
    /// The series that a log ref names in the shard.
    #[inline]
    fn get(&self, series: SeriesRef, shard: &Shard) -> Option<SeriesRef> {
        let at = match self {
            Self::Kept => series,
            Self::Renumbered(refs) => SeriesRef(refs.get(series.0 as usize).copied().unwrap_or(NOBODY)),
        };
        shard.store.holds(at).then_some(at)
    }

    fn is_foreign(&self, series: SeriesRef) -> bool {
        match self {
            Self::Kept => false,
            Self::Renumbered(refs) => refs.get(series.0 as usize) == Some(&FOREIGN),
        }
    }

    /// Where a series is to be put.
    fn place(&mut self, series: SeriesRef, shard: &Shard) -> Result<SeriesRef, RestoreError> {
        let at = match self {
            Self::Kept => series,
            Self::Renumbered(_) => SeriesRef(shard.store.end()),
        };
        check_gap(at, shard)?;
        self.set(series, at.0)?;
        Ok(at)
    }

    fn set(&mut self, series: SeriesRef, to: u32) -> Result<(), RestoreError> {
        let Self::Renumbered(refs) = self else { return Ok(()) };
        let at = series.0 as usize;
        if at >= refs.len() + REF_GAP_MAX as usize {
            return Err(RestoreError(format!("ref {at} is far beyond all others")));
        }
        if at >= refs.len() {
            refs.resize(at + 1, NOBODY);
        }
        refs[at] = to;
        Ok(())
    }
}

impl Shard {
    /// Lets new series have the refs that were left out while several logs were put back, once all of
    /// them are.
    pub fn free_left_out(&mut self) {
        self.store.free_vacant(|_| false);
    }

    /// Takes a series that was put into the store into its cell and the index.
    pub(super) fn adopt(&mut self, series: SeriesRef) {
        self.index.add(series, self.store.labels(series));
        self.insert_in_cell(self.store.id(series), series);
    }

    fn restore_sample(&mut self, series: SeriesRef, sample: Sample) {
        // Newer than the newest: nothing is left to refuse it for.
        if self.store.append(series, sample, 0).is_ok() {
            self.widen_range(sample.timestamp_ms, sample.timestamp_ms);
        }
    }

    /// Widens the shard's range by all that a series has.
    pub(super) fn widen_by(&mut self, series: SeriesRef) {
        if self.store.has_samples(series) {
            let newest_ms = self.store.newest(series).timestamp_ms;
            let oldest_ms =
                self.store.sealed(series).first().map_or(newest_ms, SealedChunk::min_timestamp_ms);
            self.widen_range(oldest_ms, newest_ms);
        }
        if let Some((oldest_ms, newest_ms)) = self.store.histogram_times(series) {
            self.widen_range(oldest_ms, newest_ms);
        }
    }

    pub(super) fn widen_range(&mut self, oldest_ms: i64, newest_ms: i64) {
        let (was_oldest, was_newest) = self.range_ms.unwrap_or((oldest_ms, newest_ms));
        self.range_ms = Some((oldest_ms.min(was_oldest), newest_ms.max(was_newest)));
    }
}
