//! What the records of a log must be to each other, checked without building what they mean.

use hashbrown::HashMap;
use roaring::RoaringBitmap;

use super::counts::WalCounts;
use silverback_model::gorilla::XorIter;
use silverback_model::histogram::{Histogram, SealedHistogram};
use silverback_model::{SeriesId, SeriesRef};
use silverback_storage::wal::record::{
    ChunksRecord, HistogramEntry, HistogramsRecord, LoggedHistogramChunks, Record, RemovedRecord,
    ReplacedRecord, SealedBytes, SeriesChunks, SeriesRecord,
};
use silverback_storage::wal::replay::{Restore, RestoreError};

/// Follows a log's series from their creation to their removal.
#[derive(Debug, Default)]
pub(super) struct CrossCheck {
    /// Series that are there.
    series: HashMap<SeriesRef, SeriesId>,
    /// Samples name them, and nobody made them: they must be removed later.
    unknown: RoaringBitmap,
    /// Chunks of floats, of each series that has any the open one, too.
    chunks: u64,
    counts: WalCounts,
}

impl CrossCheck {
    /// What it met.
    pub(super) fn counts(&self) -> WalCounts {
        self.counts
    }

    fn series(&mut self, record: &SeriesRecord<'_>) -> Result<(), RestoreError> {
        for series in record.iter() {
            let series = series.map_err(contradicts)?;
            // A checkpoint and the groups after it may both make it.
            if self.series.insert(series.series, series.id).is_some_and(|former| former != series.id) {
                return Err(RestoreError(format!("ref {} names two series", series.series.0)));
            }
        }
        Ok(())
    }

    /// Notes a series that has something, where nobody made it.
    fn note(&mut self, series: SeriesRef) {
        if !self.series.contains_key(&series) {
            self.unknown.insert(series.0);
        }
    }

    fn removed(&mut self, record: &RemovedRecord<'_>) -> Result<(), RestoreError> {
        for entry in record.iter() {
            let (series, id) = entry.map_err(contradicts)?;
            self.unknown.remove(series.0);
            if self.series.get(&series) == Some(&id) {
                self.series.remove(&series);
            }
        }
        Ok(())
    }

    /// Looks at all of them, and returns the first fault.
    fn chunks(&mut self, record: &ChunksRecord<'_>) -> Result<(), RestoreError> {
        let mut checked = Ok(());
        for entry in record.iter() {
            let chunks = entry.map_err(contradicts)?;
            checked = checked.and(self.chunks_of(&chunks));
        }
        checked
    }

    fn chunks_of(&mut self, chunks: &SeriesChunks<'_>) -> Result<(), RestoreError> {
        let series = chunks.series;
        let made = match self.series.contains_key(&series) {
            true => Ok(()),
            false => Err(RestoreError(format!("chunks of ref {}, which no series has", series.0))),
        };
        made.and(self.read_chunks(chunks))
    }

    /// A series that nobody made may have been removed before the checkpoint came by, as with samples.
    fn replaced(&mut self, record: &ReplacedRecord<'_>) -> Result<(), RestoreError> {
        let mut checked = Ok(());
        for entry in record.iter() {
            let chunks = entry.map_err(contradicts)?.chunks;
            self.note(chunks.series);
            checked = checked.and(self.read_chunks(&chunks));
        }
        checked
    }

    /// Looks at all of them, and returns the first fault.
    fn histograms(&mut self, record: &HistogramsRecord<'_>) -> Result<(), RestoreError> {
        let mut checked = Ok(());
        for entry in record.iter() {
            let (series, read) = match entry.map_err(contradicts)? {
                HistogramEntry::Stored { series, message, .. } => {
                    (series, Histogram::default().read_message(message).map(drop).map_err(contradicts))
                }
                HistogramEntry::Chunks(chunks) => (chunks.series, read_histogram_chunks(&chunks)),
            };
            self.note(series);
            checked = checked.and(read);
        }
        checked
    }

    fn read_chunks(&mut self, chunks: &SeriesChunks<'_>) -> Result<(), RestoreError> {
        let (series, mut checked, mut newest_ms) = (chunks.series, Ok(()), None);
        for sealed in chunks.sealed.clone() {
            self.chunks += 1;
            checked = checked.and(self.chunk(series, sealed.bytes, &mut newest_ms, Some(sealed)));
        }
        // A checkpoint counts the open chunk of every series.
        self.chunks += 1;
        if !chunks.open.is_empty() {
            checked = checked.and(self.chunk(series, chunks.open, &mut newest_ms, None));
        }
        checked
    }

    /// Reads a chunk's samples, which come after those of the chunks before.
    fn chunk(
        &mut self,
        series: SeriesRef,
        bytes: &[u8],
        newest_ms: &mut Option<i64>,
        said: Option<SealedBytes<'_>>,
    ) -> Result<(), RestoreError> {
        let fault = |what: &str| Err(RestoreError(format!("a chunk of ref {}: {what}", series.0)));
        let before_ms = *newest_ms;
        let mut oldest_ms = None;
        for sample in XorIter::new(bytes) {
            let Ok(sample) = sample else { return fault("its samples can't be read") };
            if newest_ms.is_some_and(|newest_ms| sample.timestamp_ms <= newest_ms) {
                return fault("its samples are out of order");
            }
            *newest_ms = Some(sample.timestamp_ms);
            oldest_ms.get_or_insert(sample.timestamp_ms);
        }
        let said_ms = said.map(|said| (Some(said.min_ms), Some(said.max_ms)));
        if *newest_ms == before_ms {
            fault("it has no samples")
        } else if said_ms.is_some_and(|said_ms| said_ms != (oldest_ms, *newest_ms)) {
            fault("its samples are of another time than it says")
        } else {
            Ok(())
        }
    }

    fn checkpoint_end(&self, series: u64, chunks: u64) -> Result<(), RestoreError> {
        let found = (self.counts.series, self.chunks);
        if found == (series, chunks) {
            return Ok(());
        }
        Err(RestoreError(format!(
            "the checkpoint has {} of its {series} series and {} of its {chunks} chunks",
            found.0, found.1
        )))
    }
}

/// Whether chunks of histograms can be read, and begin and end when they say.
fn read_histogram_chunks(chunks: &LoggedHistogramChunks<'_>) -> Result<(), RestoreError> {
    let fault =
        |what: &str| RestoreError(format!("a chunk of histograms of ref {}: {what}", chunks.series.0));
    let read = |kind, bytes: &[u8]| {
        SealedHistogram::from_bytes(kind, bytes.into()).map_err(|error| fault(&error.to_string()))
    };
    for sealed in chunks.sealed.clone() {
        let chunk = read(sealed.kind, sealed.bytes)?;
        if (chunk.min_timestamp_ms(), chunk.max_timestamp_ms()) != (sealed.min_ms, sealed.max_ms) {
            return Err(fault("it has other times than it says"));
        }
    }
    chunks.open.map_or(Ok(()), |open| read(open.kind, open.bytes).map(|_| ()))
}

impl Restore for CrossCheck {
    fn record(&mut self, record: Record<'_>) -> Result<(), RestoreError> {
        // What of it can't be read is reported below.
        let _counted = self.counts.add(&record);
        match record {
            Record::Series(record) => self.series(&record),
            Record::Samples(record) => {
                record.iter().try_for_each(|entry| entry.map(|of| self.note(of.series)).map_err(contradicts))
            }
            // Its reader has looked at them.
            Record::StartTimestamps(_) => Ok(()),
            Record::Removed(record) => self.removed(&record),
            Record::Chunks(record) => self.chunks(&record),
            Record::Replaced(record) => self.replaced(&record),
            Record::Histograms(record) => self.histograms(&record),
            // Those of a series that nobody made are taken as its samples are.
            Record::Exemplars(record) => {
                record.iter().try_for_each(|entry| entry.map(|of| self.note(of.series)).map_err(contradicts))
            }
            Record::Metadata(record) => {
                record.iter().try_for_each(|said| said.map(drop).map_err(contradicts))
            }
            Record::Claims(record) => {
                record.iter().try_for_each(|claim| claim.map(drop).map_err(contradicts))
            }
            Record::CheckpointEnd { series, chunks } => self.checkpoint_end(series, chunks),
        }
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        match self.unknown.len() {
            0 => Ok(()),
            unknown => Err(RestoreError(format!("samples of {unknown} series that nobody made"))),
        }
    }
}

fn contradicts(error: impl std::fmt::Display) -> RestoreError {
    RestoreError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::Sample;
    use silverback_model::gorilla::OpenXor;
    use silverback_storage::wal::journal::Journal;
    use silverback_storage::wal::record::{CheckpointFrame, Group, records};

    const A: SeriesId = SeriesId(1);
    const B: SeriesId = SeriesId(2);
    const REF: SeriesRef = SeriesRef(7);

    /// What is wrong with a log of these payloads, in order; empty: nothing.
    fn faults(payloads: &[Vec<u8>]) -> Vec<String> {
        let mut check = CrossCheck::default();
        let all = payloads.iter().flat_map(|payload| records(payload));
        let read = all.map(|record| record.map_err(contradicts).and_then(|record| check.record(record)));
        let mut faults: Vec<_> = read.filter_map(Result::err).collect();
        faults.extend(check.finish().err());
        faults.into_iter().map(|fault| fault.0).collect()
    }

    fn group(write: impl Fn(&mut Group)) -> Vec<u8> {
        let mut group = Group::default();
        write(&mut group);
        group.parts().concat()
    }

    fn made(id: SeriesId) -> Vec<u8> {
        group(|group| group.created(REF, id, std::iter::empty()))
    }

    fn stored() -> Vec<u8> {
        group(|group| group.stored(REF, Sample::new(1, 1.0)))
    }

    fn removed(id: SeriesId) -> Vec<u8> {
        group(|group| {
            group.removed(REF, id);
        })
    }

    fn chunk(times_ms: [i64; 2]) -> Vec<u8> {
        let mut words: Vec<u64> = Vec::new();
        let mut open = OpenXor::start(Sample::new(times_ms[0], 1.0), &mut words);
        open.append(Sample::new(times_ms[1], 2.0), &mut words);
        open.to_bytes(words.into_iter())
    }

    /// A checkpoint of one series with a sealed chunk, of which these times are given, and an open one.
    fn checkpoint(told_ms: (i64, i64), sealed: &[u8], open: &[u8], counts: (u64, u64)) -> Vec<u8> {
        let mut snapshot = CheckpointFrame::default();
        snapshot.created(REF, A, std::iter::empty());
        snapshot.chunks(REF, std::iter::once((told_ms.0, told_ms.1, sealed)), open);
        snapshot.end(counts.0, counts.1);
        snapshot.parts().concat()
    }

    fn check_checkpoint(payload: Vec<u8>, expect: &[&str]) {
        assert_eq!(faults(&[payload]), expect);
    }

    #[test]
    fn a_ref_means_one_series_from_its_creation_to_its_removal() {
        assert_eq!(faults(&[made(A), stored(), removed(A), made(B), stored()]), [""; 0]);
        assert_eq!(faults(&[made(A), made(A), stored()]), [""; 0], "a checkpoint and a group behind it");
        assert_eq!(faults(&[made(A), made(B)]), ["ref 7 names two series"]);
        assert_eq!(faults(&[stored(), removed(A)]), [""; 0], "made before the checkpoint");
        assert_eq!(faults(&[stored()]), ["samples of 1 series that nobody made"]);
    }

    #[test]
    fn start_timestamps_are_those_of_the_samples_before_them() {
        let started = |samples: i64| {
            group(|group| {
                (0..samples).for_each(|at| group.stored(REF, Sample::new(at, 1.0)));
                group.started(-7);
            })
        };
        assert_eq!(faults(&[made(A), started(3)]), [""; 0]);
        let payload = started(3);
        let of_three = payload.len() - stored_alone(3).len();
        let alone = payload[payload.len() - of_three..].to_vec();
        let told = "a start timestamp is that of sample 2, which the group doesn't have";
        assert_eq!(faults(&[made(A), stored(), alone.clone()]), [told], "one sample comes before");
        assert_eq!(faults(&[made(A), stored_alone(3), alone.clone()]), [told], "those are another group's");
        let between = [stored_alone(3), made(A), alone].concat();
        assert_eq!(faults(&[made(A), between]), [told], "they come directly behind");
    }

    fn stored_alone(samples: i64) -> Vec<u8> {
        group(|group| (0..samples).for_each(|at| group.stored(REF, Sample::new(at, 1.0))))
    }

    #[test]
    fn the_chunks_of_a_checkpoint_are_read_to_their_last_sample() {
        let (first, second) = (chunk([10, 20]), chunk([30, 40]));
        check_checkpoint(checkpoint((10, 20), &first, &second, (1, 2)), &[]);
        let other_time = "a chunk of ref 7: its samples are of another time than it says";
        check_checkpoint(checkpoint((10, 21), &first, &second, (1, 2)), &[other_time]);
        let out_of_order = "a chunk of ref 7: its samples are out of order";
        check_checkpoint(checkpoint((30, 40), &second, &first, (1, 2)), &[out_of_order]);
        let cut = checkpoint((10, 20), &first[..first.len() - 3], &second, (1, 2));
        check_checkpoint(cut, &["a chunk of ref 7: its samples can't be read"]);
    }

    #[test]
    fn what_is_left_of_a_series_is_read_to_its_last_sample() {
        let left = |open: Vec<u8>| group(|group| group.replaced(REF, &[], &open));
        assert_eq!(faults(&[made(A), left(chunk([10, 20])), stored()]), [""; 0]);
        assert_eq!(faults(&[left(chunk([10, 20])), removed(A)]), [""; 0], "made before the checkpoint");
        assert_eq!(faults(&[left(chunk([10, 20]))]), ["samples of 1 series that nobody made"]);
        let cut = chunk([10, 20])[..8].to_vec();
        assert_eq!(faults(&[made(A), left(cut)]), ["a chunk of ref 7: its samples can't be read"]);
    }

    #[test]
    fn a_checkpoint_has_all_that_its_end_counts() {
        let (first, second) = (chunk([10, 20]), chunk([30, 40]));
        let missing = "the checkpoint has 1 of its 2 series and 2 of its 3 chunks";
        check_checkpoint(checkpoint((10, 20), &first, &second, (2, 3)), &[missing]);
    }
}
