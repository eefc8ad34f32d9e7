//! What the records of a log come to, in the same words and numbers for all that report it. What the records mean is
//! not looked at.

use std::fmt;

use silverback_model::gorilla::XorIter;
use silverback_model::histogram::{Histogram, HistogramIter};
use silverback_storage::wal::record::{HistogramEntry, HistogramsRecord, Record, RecordError, SeriesChunks};

/// What there is of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WalCounts {
    /// Series that were made.
    pub(super) series: u64,
    /// Samples, native histograms among them: those that were stored, and those in chunks, as the chunks' headers count
    /// them.
    pub(super) samples: u64,
    /// Samples that are native histograms.
    histograms: u64,
    /// Samples, and native histograms, that were stored with a start timestamp.
    starts: u64,
    exemplars: u64,
    /// Series that were removed.
    removed: u64,
}

impl WalCounts {
    /// How each number is called.
    pub(super) const WORDS: [&str; 6] =
        ["series", "samples", "histograms", "start timestamps", "exemplars", "removed"];

    /// The numbers, in the order of their words.
    pub(super) const fn numbers(&self) -> [u64; 6] {
        let Self { series, samples, histograms, starts, exemplars, removed } = *self;
        [series, samples, histograms, starts, exemplars, removed]
    }

    /// Adds what is in a record, up to what can't be read of it.
    pub(super) fn add(&mut self, record: &Record<'_>) -> Result<(), RecordError> {
        match record {
            Record::Series(series) => self.series += series.count() as u64,
            Record::Samples(samples) => self.samples += samples.count() as u64,
            Record::StartTimestamps(starts) => self.starts += starts.samples()?,
            Record::Removed(removed) => self.removed += removed.count() as u64,
            Record::Chunks(chunks) => chunks.iter().try_for_each(|chunks| self.add_chunks(chunks?))?,
            Record::Replaced(replaced) => {
                replaced.iter().try_for_each(|entry| self.add_chunks(entry?.chunks))?;
            }
            Record::Histograms(histograms) => self.add_histograms(histograms)?,
            Record::Exemplars(exemplars) => self.exemplars += exemplars.count() as u64,
            Record::Metadata(_) | Record::Claims(_) | Record::CheckpointEnd { .. } => {}
        }
        Ok(())
    }

    fn add_chunks(&mut self, chunks: SeriesChunks<'_>) -> Result<(), RecordError> {
        let sealed: usize = chunks.sealed.map(|sealed| XorIter::new(sealed.bytes).samples_left()).sum();
        let open = if chunks.open.is_empty() { 0 } else { XorIter::new(chunks.open).samples_left() };
        self.samples += (sealed + open) as u64;
        Ok(())
    }

    fn add_histograms(&mut self, record: &HistogramsRecord<'_>) -> Result<(), RecordError> {
        for entry in record {
            let histograms = match entry? {
                HistogramEntry::Stored { message, .. } => {
                    // What can't be read is its reader's to report.
                    let times = Histogram::default().read_message(message);
                    self.starts += u64::from(times.is_ok_and(|times| times.start_timestamp_ms != 0));
                    1
                }
                HistogramEntry::Chunks(chunks) => {
                    let sealed = chunks.sealed.map(|sealed| HistogramIter::new(sealed.kind, sealed.bytes));
                    let open = chunks.open.map(|open| HistogramIter::new(open.kind, open.bytes));
                    sealed.chain(open).map(|chunk| chunk.samples_left() as u64).sum()
                }
            };
            self.histograms += histograms;
            self.samples += histograms;
        }
        Ok(())
    }
}

impl fmt::Display for WalCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (number, word)) in self.numbers().into_iter().zip(Self::WORDS).enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{number} {word}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::gorilla::OpenXor;
    use silverback_model::histogram::wire::{HistogramTimes, Untimed};
    use silverback_model::{Exemplar, LabelBlock, Sample, SeriesId, SeriesRef};
    use silverback_storage::wal::Journal;
    use silverback_storage::wal::record::{CheckpointFrame, Group, records};

    const REF: SeriesRef = SeriesRef(0);

    fn counted(payload: &[u8]) -> String {
        let mut counts = WalCounts::default();
        records(payload).for_each(|record| counts.add(&record.unwrap()).unwrap());
        counts.to_string()
    }

    fn chunk() -> Vec<u8> {
        let mut words: Vec<u64> = Vec::new();
        let mut open = OpenXor::start(Sample::new(1, 1.0), &mut words);
        open.append(Sample::new(2, 2.0), &mut words);
        open.to_bytes(words.into_iter())
    }

    #[test]
    fn each_record_is_counted_for_what_it_has() {
        let mut group = Group::default();
        group.created(REF, SeriesId(1), std::iter::empty());
        group.created(SeriesRef(1), SeriesId(2), std::iter::empty());
        group.replaced(REF, &[], &chunk());
        for at in 3..6 {
            group.stored(REF, Sample::new(at, 1.0));
        }
        group.started(-7);
        for start_timestamp_ms in [0, 5] {
            let times = HistogramTimes { timestamp_ms: 6 + start_timestamp_ms, start_timestamp_ms };
            group.stored_histogram(SeriesRef(1), times, Untimed::Unwritten(&Histogram::default()));
        }
        group.exemplar(REF, &Exemplar { timestamp_ms: 4, value: 1.0, labels: LabelBlock(&[]) });
        group.removed(REF, SeriesId(1));
        let told = "2 series, 7 samples, 2 histograms, 2 start timestamps, 1 exemplars, 1 removed";
        assert_eq!(counted(&group.parts().concat()), told);

        let mut snapshot = CheckpointFrame::default();
        snapshot.created(REF, SeriesId(1), std::iter::empty());
        snapshot.chunks(REF, std::iter::once((1, 2, &*chunk())), &chunk());
        snapshot.end(1, 2);
        let told = "1 series, 4 samples, 0 histograms, 0 start timestamps, 0 exemplars, 0 removed";
        assert_eq!(counted(&snapshot.parts().concat()), told);
    }
}
