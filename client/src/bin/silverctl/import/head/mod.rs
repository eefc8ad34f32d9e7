//! Reads the head of a Prometheus: what it holds in memory and has not cut into a block yet, out of its write-ahead
//! log, which has all of it.
//!
//! The log is in the order of scrapes, and a node wants runs of samples of a series: they are gathered in memory, up
//! to a bound, and so are series and their labels. Where there are more series than that, the log is read again for
//! each portion of them. As Prometheus does when it starts, samples that are in a block already are left out, those
//! that were deleted, and those that are older than the one before.

mod files;
mod histograms;
mod log;
mod record;

#[cfg(test)]
mod tests;

pub(super) use files::HeadFiles;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::pieces::{HeadImportError, ImportPiece, PIECE_HISTOGRAMS_MAX, PIECES_MAX};
use crate::filter::Filter;
use crate::label_set::LabelSet;
use log::{HeadLog, HeadRecord};
use record::{HeadRecordKind, Logged, LoggedSeries};
use silverback_block::{BlockError, DeletedRange};
use silverback_client::histogram::Histogram;

/// Bounds of what is held at a time: series with their labels, and samples. A native histogram counts as the samples
/// that would take its memory.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    series: u64,
    samples: usize,
}

const BOUNDS: Bounds = Bounds { series: 250_000, samples: 1 << 20 };

/// A head that was looked through once.
#[derive(Debug)]
pub(super) struct Head {
    segments: Vec<PathBuf>,
    /// What is older is in a block.
    floor_ms: i64,
    deleted: HashMap<u64, Vec<DeletedRange>>,
    /// Series, those counted twice that were logged twice.
    pub series: u64,
    /// Of kinds that nobody knew when this was written.
    unknown_records: u64,
    bounds: Bounds,
}

/// What became of a head, besides its samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeadCounts {
    /// Series that samples were read of.
    pub series: u64,
    /// Records that nobody knew the kind of when this was written.
    pub unknown_records: u64,
    /// Samples that are older than one before them.
    pub samples_late: u64,
    /// Samples whose series the log doesn't name.
    pub samples_nameless: u64,
    /// Native histograms that are larger than a node takes.
    pub histograms_too_large: u64,
}

impl HeadCounts {
    /// Adds what another portion of the series came to.
    pub(super) const fn add(&mut self, other: Self) {
        self.series += other.series;
        self.unknown_records += other.unknown_records;
        self.samples_late += other.samples_late;
        self.samples_nameless += other.samples_nameless;
        self.histograms_too_large += other.histograms_too_large;
    }
}

impl Head {
    /// Looks through the log for what has to be known before the first sample. `floor_ms`: what is older is in a
    /// block. What is damaged ends the look, and is reported by the reading.
    pub(super) fn survey(files: &HeadFiles, floor_ms: i64) -> Self {
        let mut head = Self {
            segments: files.segments.clone(),
            floor_ms,
            deleted: HashMap::new(),
            series: 0,
            unknown_records: 0,
            bounds: BOUNDS,
        };
        let mut log = HeadLog::new(head.segments.clone());
        while let Ok(Some(record)) = log.next() {
            if head.note(record).is_none() {
                break;
            }
        }
        head
    }

    /// `None` where the record can't be read.
    fn note(&mut self, record: HeadRecord<'_>) -> Option<()> {
        match record.kind() {
            HeadRecordKind::Series => self.series += record.series().ok()?.len() as u64,
            HeadRecordKind::Tombstones => {
                for (reference, range) in record.tombstones().ok()? {
                    self.deleted.entry(reference).or_default().push(range);
                }
            }
            HeadRecordKind::Unknown => self.unknown_records += 1,
            HeadRecordKind::Samples | HeadRecordKind::Histograms(_) | HeadRecordKind::Other => {}
        }
        Some(())
    }

    /// Reads it on a thread of its own. The last piece is an error where what is after it can't be read.
    pub(super) fn read(self, filter: Filter) -> mpsc::Receiver<Result<ImportPiece, BlockError>> {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        std::thread::spawn(move || {
            let portions = self.series.div_ceil(self.bounds.series).max(1);
            for portion in 0..portions {
                let mut reading = Reading::new(&self, &sender, &filter, portion, portions);
                // A receiver that is gone wants to hear of nothing.
                match reading.run() {
                    Ok(()) => {}
                    Err(HeadImportError::Unwanted) => return,
                    Err(HeadImportError::Block(fault)) => return drop(sender.blocking_send(Err(fault))),
                }
            }
        });
        receiver
    }
}

/// The reading of one portion of the series.
struct Reading<'a> {
    head: &'a Head,
    sender: &'a mpsc::Sender<Result<ImportPiece, BlockError>>,
    filter: &'a Filter,
    portion: u64,
    portions: u64,
    /// Those of the portion that are wanted.
    series: HashMap<u64, Known>,
    /// All that the log names; kept for the first portion alone.
    named: HashSet<u64>,
    samples: usize,
    counts: HeadCounts,
}

/// A series, and its samples that wait to be given.
struct Known {
    labels: Arc<LabelSet>,
    newest_ms: Option<i64>,
    samples: Vec<(i64, f64)>,
    newest_histogram_ms: Option<i64>,
    histograms: Vec<(i64, Histogram)>,
}

impl<'a> Reading<'a> {
    fn new(
        head: &'a Head,
        sender: &'a mpsc::Sender<Result<ImportPiece, BlockError>>,
        filter: &'a Filter,
        portion: u64,
        portions: u64,
    ) -> Self {
        let counts = match portion {
            0 => HeadCounts { unknown_records: head.unknown_records, ..HeadCounts::default() },
            _later => HeadCounts::default(),
        };
        let (series, named) = (HashMap::new(), HashSet::new());
        Self { head, sender, filter, portion, portions, series, named, samples: 0, counts }
    }

    fn run(&mut self) -> Result<(), HeadImportError> {
        let mut log = HeadLog::new(self.head.segments.clone());
        let ended = loop {
            match log.next() {
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
                Ok(Some(record)) => {
                    let read = match record.kind() {
                        HeadRecordKind::Series => record.series().map(|series| self.name(series)),
                        HeadRecordKind::Samples => record.samples().map(|samples| self.take(samples)),
                        HeadRecordKind::Histograms(kind) => {
                            record.histograms(kind).map(|histograms| self.take(histograms))
                        }
                        HeadRecordKind::Tombstones | HeadRecordKind::Other | HeadRecordKind::Unknown => {
                            Ok(Ok(()))
                        }
                    };
                    match read {
                        Ok(taken) => taken?,
                        Err(error) => break Err(log.error_in_segment(error)),
                    }
                }
            }
        };
        // What is before the damage is sound.
        self.give_samples()?;
        self.counts.series = self.series.values().filter(|series| series.has_any()).count() as u64;
        self.give(ImportPiece::HeadDone(self.counts))?;
        Ok(ended?)
    }

    fn name(&mut self, series: Vec<LoggedSeries>) -> Result<(), HeadImportError> {
        for LoggedSeries { reference, labels } in series {
            if self.portion == 0 {
                self.named.insert(reference);
            }
            let is_wanted =
                self.is_of_portion(&labels) && self.filter.takes_series(|name| value_of(&labels, name));
            if !is_wanted || self.series.contains_key(&reference) {
                continue;
            }
            match LabelSet::new(labels) {
                Ok(labels) => {
                    let known = Known::new(labels);
                    self.series.insert(reference, known);
                }
                Err(fault) => self.give(ImportPiece::BadSeries(fault.to_string()))?,
            }
        }
        Ok(())
    }

    /// The same labels are of the same portion, whatever the log calls them: the samples of a series that was made
    /// again come after its older ones.
    fn is_of_portion(&self, labels: &[(String, String)]) -> bool {
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        self.portions == 1 || hasher.finish() % self.portions == self.portion
    }

    fn take<T: KeptSample>(&mut self, logged: Vec<Logged<T>>) -> Result<(), HeadImportError> {
        let (head, filter) = (self.head, self.filter);
        for Logged { reference, at_ms, value } in logged.into_iter().filter(|one| one.at_ms >= head.floor_ms)
        {
            match self.series.get_mut(&reference) {
                Some(series) => {
                    let at = (reference, at_ms);
                    if is_wanted(T::newest_ms(series), at, head, filter, &mut self.counts) {
                        self.samples += value.keep(at_ms, series, &mut self.counts);
                    }
                }
                None if self.portion == 0 && !self.named.contains(&reference) => {
                    self.counts.samples_nameless += 1;
                }
                None => {}
            }
        }
        if self.samples >= self.head.bounds.samples { self.give_samples() } else { Ok(()) }
    }

    fn give_samples(&mut self) -> Result<(), HeadImportError> {
        self.samples = 0;
        for series in self.series.values_mut().filter(|series| !series.samples.is_empty()) {
            let samples = std::mem::take(&mut series.samples);
            let piece = ImportPiece::Samples(Arc::clone(&series.labels), samples);
            self.sender.blocking_send(Ok(piece)).map_err(|_unwanted| HeadImportError::Unwanted)?;
        }
        for series in self.series.values_mut() {
            let mut histograms = std::mem::take(&mut series.histograms).into_iter().peekable();
            while histograms.peek().is_some() {
                let some = histograms.by_ref().take(PIECE_HISTOGRAMS_MAX).collect();
                let piece = ImportPiece::Histograms(Arc::clone(&series.labels), some);
                self.sender.blocking_send(Ok(piece)).map_err(|_unwanted| HeadImportError::Unwanted)?;
            }
        }
        Ok(())
    }

    fn give(&self, piece: ImportPiece) -> Result<(), HeadImportError> {
        self.sender.blocking_send(Ok(piece)).map_err(|_unwanted| HeadImportError::Unwanted)
    }
}

/// The place of a float in memory.
const FLOAT_BYTES: usize = size_of::<(i64, f64)>();

impl Known {
    fn new(labels: LabelSet) -> Self {
        Self {
            labels: Arc::new(labels),
            newest_ms: None,
            samples: Vec::new(),
            newest_histogram_ms: None,
            histograms: Vec::new(),
        }
    }

    const fn has_any(&self) -> bool {
        self.newest_ms.is_some() || self.newest_histogram_ms.is_some()
    }
}

/// What a series keeps until it is given.
trait KeptSample {
    /// The newest that came of its kind.
    fn newest_ms(series: &mut Known) -> &mut Option<i64>;

    /// Keeps it, and says as how many samples it counts.
    fn keep(self, at_ms: i64, series: &mut Known, counts: &mut HeadCounts) -> usize;
}

impl KeptSample for f64 {
    fn newest_ms(series: &mut Known) -> &mut Option<i64> {
        &mut series.newest_ms
    }

    fn keep(self, at_ms: i64, series: &mut Known, _: &mut HeadCounts) -> usize {
        series.samples.push((at_ms, self));
        1
    }
}

impl KeptSample for Option<Histogram> {
    fn newest_ms(series: &mut Known) -> &mut Option<i64> {
        &mut series.newest_histogram_ms
    }

    fn keep(self, at_ms: i64, series: &mut Known, counts: &mut HeadCounts) -> usize {
        let Some(histogram) = self else {
            counts.histograms_too_large += 1;
            return 0;
        };
        let bytes = size_of::<(i64, Histogram)>() + histogram.heap_bytes();
        series.histograms.push((at_ms, histogram));
        bytes.div_ceil(FLOAT_BYTES)
    }
}

/// Whether a sample is newer than the one before of its series and kind, is asked for, and wasn't deleted.
fn is_wanted(
    newest_ms: &mut Option<i64>,
    (reference, at_ms): (u64, i64),
    head: &Head,
    filter: &Filter,
    counts: &mut HeadCounts,
) -> bool {
    match *newest_ms {
        // Logged again, and once is enough.
        Some(newest_ms) if newest_ms == at_ms => return false,
        Some(newest_ms) if newest_ms > at_ms => {
            counts.samples_late += 1;
            return false;
        }
        Some(_) | None => *newest_ms = Some(at_ms),
    }
    let ranges = head.deleted.get(&reference).map_or(&[][..], Vec::as_slice);
    filter.takes_time(at_ms) && !ranges.iter().any(|range| range.holds(at_ms))
}

fn value_of<'a>(labels: &'a [(String, String)], name: &str) -> &'a str {
    labels.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
}
